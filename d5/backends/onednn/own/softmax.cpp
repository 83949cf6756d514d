// SPDX-License-Identifier: Apache-2.0
// Softmax and LogSoftmax along any axis. Where the axis is the innermost one, lines are contiguous; elsewhere a block
// of neighbouring columns goes down the axis together, with a maximum and a sum for each. Either way what is read stays
// in the caches for the second pass: of columns a copy, because rows that are a power of two apart would displace each
// other. What passes the caches by is written while the exponentials of the next line or block are computed: one alone
// would wait for memory and then for the arithmetic.
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

class SoftmaxKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs[0].shape.rank() == 0) return "a scalar has no axis";
    return OwnKernel::cannot(setup);
  }

  void build(const KernelSetup& setup) override {
    const Shape& shape = setup.inputs[0].shape;
    const size_t axis = valid_axis(setup.node.attributes.integer("axis", -1), shape.rank(), "[softmax]");
    logarithm_ = setup.node.op == "LogSoftmax";
    outer_ = shape.elements(0, axis);
    size_ = shape[axis];
    inner_ = shape.elements(axis + 1, shape.rank());
    memory_.backward_inputs.emplace();
    memory_.backward_outputs = std::vector<bool>{true};
    x_ = input(setup, 0);
    y_ = output(setup, 0);
    dy_ = output_gradient(setup, 0);
    dx_ = input_gradient(setup, 0);
    parts_ = threads();
    streamed_ = exceeds_caches(3 * setup.inputs[0].bytes());
    // Two blocks of columns of about 256 KiB each are half of what a core has to itself.
    columns_ = std::clamp<Index>((1 << 16) / std::max<Index>(1, size_) / 16 * 16, 16, tile_elements);
    columns_ = std::min(columns_, std::max<Index>(1, inner_));

    ScratchPlan part;
    const Index narrow = inner_ == 1 && x_.type != DType::f32 ? size_ : 0;
    row_at_ = part.take_floats(narrow);
    other_row_at_ = part.take_floats(narrow);
    for (size_t& result : results_) result = part.take_floats(inner_ == 1 ? size_ : 0);
    writes_behind_ =
        streamed_ && x_.type == DType::f32 && y_.type == DType::f32 && (inner_ == 1 ? size_ : inner_) % 16 == 0;
    for (size_t& block : blocks_) block = part.take_floats(inner_ == 1 ? 0 : size_ * columns_);
    for (size_t& tile : tiles_) tile = part.take_tile();
    part_bytes_ = part.bytes();
    need_scratch(part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    if (size_ == 0) return;
    for_each_part(parts_, inner_ == 1 ? outer_ : outer_ * blocks(), [&](int part, Index first, Index last) {
      const Part p{*this, b, static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(part)};
      LineBefore before;
      Block block_before;
      for (Index i = first; i < last; ++i) {
        if (inner_ == 1)
          pass == Pass::forward ? p.forward_line(i, last, before) : p.backward_line(i * size_);
        else if (pass == Pass::forward)
          p.forward_block(i, last, block_before);
        else
          p.backward_columns(place_of(i), count_of(i));
      }
      if (streamed_) loops().fence();
    });
  }

 private:
  // Blocks of columns, by number.
  Index blocks() const { return (inner_ + columns_ - 1) / columns_; }
  Index column_of(Index block) const { return block % blocks() * columns_; }
  Index place_of(Index block) const { return block / blocks() * size_ * inner_ + column_of(block); }
  Index count_of(Index block) const { return std::min(columns_, inner_ - column_of(block)); }
  struct Block {
    Index base = 0, n = 0;  // n: 0 where there is none
    const float *x = nullptr, *top = nullptr, *sum = nullptr;
  };

  struct Part {
    const SoftmaxKernel& k;
    const Buffers& b;
    char* scratch;

    float* tile(size_t i) const { return floats(scratch, k.tiles_[i]); }
    Place to(const Operand& operand, Index offset) const {
      return place_at(operand.type, operand.data(b), offset, k.streamed_);
    }

    // Line i of those that end at `last`.
    void forward_line(Index i, Index last, LineBefore& before) const {
      const Index n = k.size_, offset = i * n;
      const float* x = load_row(k.x_, b, offset, n, floats(scratch, k.row_at_));
      float* e = floats(scratch, k.results_[i % 2]);
      const float top = loops().reduce[static_cast<size_t>(Reduce::max)](x, n);
      const float* next = k.x_.type == DType::f32 && offset + n < k.outer_ * n ? x + n : x;
      const float sum = loops().exponentials(x, top, k.logarithm_ ? nullptr : e, n, next, before);
      const Place y = to(k.y_, offset);
      if (k.logarithm_)  // x - top first: it may be exact
        before = {static_cast<float*>(y.data), x, top, 1.0f, -std::log(sum)};
      else
        before = {static_cast<float*>(y.data), e, 0.0f, 1.0f / sum, 0.0f};
      if (k.writes_behind_ && i + 1 < last && reinterpret_cast<uintptr_t>(y.data) % alignment_bytes == 0) return;
      loops().normalize_shared(y, before.x, before.shift, before.factor, 1.0f, before.term, n, nullptr);
      before.y = nullptr;
    }

    void backward_line(Index offset) const {
      const Index n = k.size_;
      const float* y = load_row(k.y_, b, offset, n, floats(scratch, k.row_at_));
      const float* dy = load_row(k.dy_, b, offset, n, floats(scratch, k.other_row_at_));
      if (k.logarithm_)
        loops().log_softmax_gradient(to(k.dx_, offset), y, dy, loops().reduce[0](dy, n), n);
      else
        loops().softmax_gradient(to(k.dx_, offset), y, dy, loops().dot(y, dy, n), n);
    }

    // Block i of those that end at `last`. Of softmax it holds exponentials at the end, and the inverse of their sum;
    // of its logarithm what was read, and the logarithm of the sum.
    void forward_block(Index i, Index last, Block& before) const {
      const Index base = k.place_of(i), n = k.count_of(i);
      const auto which = static_cast<size_t>(i % 2);
      float *x = floats(scratch, k.blocks_[which]), *top = tile(which), *sum = tile(2 + which);
      loops().fill(top, -INFINITY, n);
      loops().fill(sum, 0.0f, n);
      for (Index r = 0; r < k.size_; ++r) {
        loops().convert(line(k.x_, base + r * k.inner_), {x + r * n}, n);
        loops().merge[static_cast<size_t>(Reduce::max)](top, x + r * n, n);
      }
      const bool fetches = k.x_.type == DType::f32 && i + 1 < last;
      const bool beside = before.n == n;
      for (Index r = 0; r < k.size_; ++r) {
        const void* ahead = fetches ? line(k.x_, k.place_of(i + 1) + r * k.inner_).data : x + r * n;
        loops().column_exponentials(x + r * n, top, sum, !k.logarithm_, n, static_cast<const float*>(ahead),
                                    beside ? row_before(before, r) : ColumnsBefore{});
      }
      if (!beside) write(before);
      const Values in[1] = {{sum}};
      (k.logarithm_ ? k.log_ : k.inverse_)->value(in, {sum}, n, k.none_);
      before = {base, n, x, top, sum};
      const bool whole_lines = reinterpret_cast<uintptr_t>(k.y_.data(b)) % alignment_bytes == 0;
      if (k.writes_behind_ && whole_lines && i + 1 < last) return;
      write(before);
      before.n = 0;
    }
    ColumnsBefore row_before(const Block& block, Index r) const {
      float* y = static_cast<float*>(to(k.y_, block.base + r * k.inner_).data);
      const float* x = block.x + r * block.n;
      return k.logarithm_ ? ColumnsBefore{y, x, nullptr, block.top, block.sum} : ColumnsBefore{y, x, block.sum};
    }
    void write(const Block& block) const {
      for (Index r = 0; r < k.size_ && block.n > 0; ++r) {
        const Values of_log[3] = {{block.x + r * block.n}, {block.top}, {block.sum}};
        const Values of_exponentials[2] = {of_log[0], of_log[2]};
        (k.logarithm_ ? k.log_functions_ : k.product_)
            ->value(k.logarithm_ ? of_log : of_exponentials, to(k.y_, block.base + r * k.inner_), block.n, k.none_);
      }
    }

    void backward_columns(Index base, Index n) const {
      float *sum = tile(0), *term = tile(1);
      loops().fill(sum, 0.0f, n);
      const bool as_it_lies = k.logarithm_ && k.dy_.type == DType::f32;
      if (as_it_lies)
        loops().merge_rows[0](sum, static_cast<const float*>(line(k.dy_, base).data), k.inner_, k.size_, n);
      for (Index i = 0; i < k.size_ && !as_it_lies; ++i) {
        const Values in[2] = {line(k.dy_, base + i * k.inner_), line(k.y_, base + i * k.inner_)};
        k.logarithm_ ? loops().convert(in[0], {term}, n) : k.product_->value(in, {term}, n, k.none_);
        loops().merge[0](sum, term, n);
      }
      const TileFunctions& last = *(k.logarithm_ ? k.log_gradient_ : k.gradient_);
      for (Index i = 0; i < k.size_; ++i) {
        const Values in[3] = {line(k.y_, base + i * k.inner_), line(k.dy_, base + i * k.inner_), {sum}};
        last.value(in, to(k.dx_, base + i * k.inner_), n, k.none_);
      }
    }
    Values line(const Operand& operand, Index offset) const { return values_at(operand.type, operand.data(b), offset); }
  };

  bool logarithm_ = false, streamed_ = false, writes_behind_ = false;
  Index outer_ = 1, size_ = 1, inner_ = 1, columns_ = 1;
  Operand x_, y_, dy_, dx_;
  int parts_ = 1;
  size_t part_bytes_ = 0, row_at_ = 0, other_row_at_ = 0, results_[2] = {}, blocks_[2] = {}, tiles_[4] = {};
  const TileFunctions *inverse_ = &functions("Reciprocal"), *log_functions_ = &functions("log softmax"),
                      *gradient_ = &functions("gradient of softmax"),
                      *log_gradient_ = &functions("gradient of log softmax"), *product_ = &functions("product"),
                      *log_ = &functions("Log");
  const float none_[4] = {};
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Softmax", "builtin", SoftmaxKernel);
D5_REGISTER_KERNEL(onednn, "LogSoftmax", "builtin", SoftmaxKernel);
}  // namespace d5::onednn::own
