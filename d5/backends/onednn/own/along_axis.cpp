// SPDX-License-Identifier: Apache-2.0
// Operators that go along one axis: ArgMax, ArgMin, TopK, CumSum and OneHot. The tensor is outer x size x inner.
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/operators/known.hpp"

namespace d5::onednn::own {
namespace {

struct Axis {
  Index outer = 1, size = 1, inner = 1;
  Axis() = default;
  Axis(const Shape& x, Index axis) {
    const size_t at = valid_axis(axis, x.rank(), "[axis]");
    outer = x.elements(0, at);
    size = x[at];
    inner = x.elements(at + 1, x.rank());
  }
  Index start(Index line) const { return line / inner * size * inner + line % inner; }
  Index lines() const { return outer * inner; }
};

// A line as f32 neighbours: where it lies, or in `buffer`.
const float* load_line(DType type, const void* base, const Axis& a, Index line, float* buffer) {
  if (a.inner == 1) {
    const float* found = nullptr;
    for (Index at = 0; at < a.size || at == 0; at += tile_elements) {
      found = load(type, base, line * a.size + at, std::min(tile_elements, a.size - at), buffer + at);
      if (type == DType::f32) return found;
    }
    return buffer;
  }
  for (Index i = 0; i < a.size; ++i) buffer[i] = load_one(type, base, a.start(line) + i * a.inner);
  return buffer;
}

// The extreme value first, in vectors; then its place. NaN is the extreme of whatever it is among.
class ArgKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override { return wrong_type(setup.inputs[0]); }

  void build(const KernelSetup& setup) override {
    const Attributes& a = setup.node.attributes;
    axis_ = Axis(setup.inputs[0].shape, a.integer("axis", 0));
    last_ = a.flag("select_last_index", false);
    how_ = setup.node.op == "ArgMax" ? Reduce::max : Reduce::min;
    type_ = setup.inputs[0].dtype;
    parts_ = threads();
    line_bytes_ = aligned_bytes(sizeof(float) * static_cast<size_t>(axis_.size));
    need_scratch(line_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass, const Buffers& b) override {
    auto* y = static_cast<int64_t*>(b.outputs[0]);
    for_each_part(parts_, axis_.lines(), [&](int part, Index first, Index last) {
      float* buffer = floats(b.scratch, line_bytes_ * static_cast<size_t>(part));
      for (Index line = first; line < last; ++line) {
        const float* x = load_line(type_, b.inputs[0], axis_, line, buffer);
        const float best = loops().reduce[static_cast<size_t>(how_)](x, axis_.size);
        const auto is_best = [best](float value) { return value == best || (best != best && value != value); };
        Index at = last_ ? axis_.size - 1 : 0;
        while (!is_best(x[at])) at += last_ ? -1 : 1;
        y[line] = at;
      }
    });
  }

 private:
  Axis axis_;
  Reduce how_ = Reduce::max;
  DType type_ = DType::f32;
  bool last_ = false;
  int parts_ = 1;
  size_t line_bytes_ = 0;
};

class TopKKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override { return wrong_type(setup.inputs[0]); }

  void build(const KernelSetup& setup) override {
    const Attributes& a = setup.node.attributes;
    axis_ = Axis(setup.inputs[0].shape, a.integer("axis", -1));
    k_ = known_integer(setup.inputs[1], "K", "[top_k]");
    largest_ = a.flag("largest", true);
    type_ = setup.inputs[0].dtype;
    elements_ = setup.inputs[0].elements();
    parts_ = threads();
    order_at_ = need_workspace(setup.wants_gradient[0] ? sizeof(int64_t) * static_cast<size_t>(axis_.lines() * k_) : 0);
    wants_ = setup.wants_gradient[0];
    line_at_ = aligned_bytes(sizeof(Index) * static_cast<size_t>(axis_.size));
    part_bytes_ = line_at_ + aligned_bytes(sizeof(float) * static_cast<size_t>(axis_.size));
    need_scratch(part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    if (pass == Pass::backward) return backward_pass(b);
    for_each_part(parts_, axis_.lines(), [&](int part, Index first, Index last) {
      char* scratch = static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(part);
      auto* order = reinterpret_cast<Index*>(scratch);
      for (Index line = first; line < last; ++line) {
        const float* x = load_line(type_, b.inputs[0], axis_, line, floats(scratch, line_at_));
        for (Index i = 0; i < axis_.size; ++i) order[i] = i;
        std::partial_sort(order, order + k_, order + axis_.size,
                          [&](Index i, Index j) { return comes_first(x, i, j); });
        for (Index i = 0; i < k_; ++i) {
          const Index at = place(line, i);
          if (b.outputs[0]) store(type_, b.outputs[0], at, x + order[i], 1);
          if (b.outputs.size() > 1 && b.outputs[1]) static_cast<int64_t*>(b.outputs[1])[at] = order[i];
          if (wants_) kept(b)[line * k_ + i] = order[i];
        }
      }
    });
  }

 private:
  bool comes_first(const float* x, Index i, Index j) const {
    const bool i_nan = x[i] != x[i], j_nan = x[j] != x[j];
    const bool larger = i_nan ? !j_nan : x[i] > x[j], smaller = j_nan ? !i_nan : x[i] < x[j];
    if (larger || smaller) return largest_ ? larger : smaller;
    return i < j;
  }
  Index place(Index line, Index i) const { return (line / axis_.inner * k_ + i) * axis_.inner + line % axis_.inner; }
  int64_t* kept(const Buffers& b) const {
    return reinterpret_cast<int64_t*>(static_cast<char*>(b.workspace) + order_at_);
  }

  void backward_pass(const Buffers& b) const {
    zero_bytes(parts_, b.input_gradients[0], elements_ * tile_type_bytes(type_));
    const Index bytes = tile_type_bytes(type_);
    for_each_part(parts_, axis_.lines(), [&](int, Index first, Index last) {
      for (Index line = first; line < last; ++line)
        for (Index i = 0; i < k_; ++i)
          std::memcpy(static_cast<char*>(b.input_gradients[0]) +
                          (axis_.start(line) + kept(b)[line * k_ + i] * axis_.inner) * bytes,
                      static_cast<const char*>(b.output_gradients[0]) + place(line, i) * bytes,
                      static_cast<size_t>(bytes));
    });
  }

  Axis axis_;
  Index k_ = 0, elements_ = 0;
  bool largest_ = true, wants_ = false;
  DType type_ = DType::f32;
  int parts_ = 1;
  size_t order_at_ = 0, line_at_ = 0, part_bytes_ = 0;
};

// Running sums of neighbouring columns together, in f32.
class CumSumKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (!setup.inputs[1].known) return "its axis must be known before the run";
    return wrong_type(setup.inputs[0]);
  }

  void build(const KernelSetup& setup) override {
    const Attributes& a = setup.node.attributes;
    axis_ = Axis(setup.inputs[0].shape, known_integer(setup.inputs[1], "axis", "[cum_sum]"));
    exclusive_ = a.flag("exclusive", false);
    reverse_ = a.flag("reverse", false);
    type_ = setup.inputs[0].dtype;
    parts_ = threads();
    part_bytes_ = 2 * tile_bytes;
    need_scratch(part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    const bool forward = pass == Pass::forward, reverse = forward == reverse_;
    const void* from = forward ? b.inputs[0] : b.output_gradients[0];
    void* to = forward ? b.outputs[0] : b.input_gradients[0];
    const Index blocks = (axis_.inner + tile_elements - 1) / tile_elements;
    for_each_part(parts_, axis_.outer * blocks, [&](int part, Index first, Index last) {
      char* scratch = static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(part);
      float *sums = floats(scratch, 0), *buffer = floats(scratch, tile_bytes);
      for (Index job = first; job < last; ++job) {
        const Index column = job % blocks * tile_elements, n = std::min(tile_elements, axis_.inner - column);
        loops().fill(sums, 0.0f, n);
        for (Index i = 0; i < axis_.size; ++i) {
          const Index at = reverse ? axis_.size - 1 - i : i;
          const Index offset = (job / blocks * axis_.size + at) * axis_.inner + column;
          if (exclusive_) store(type_, to, offset, sums, n);
          if (n == 1)
            sums[0] += load_one(type_, from, offset);
          else
            loops().merge[0](sums, load(type_, from, offset, n, buffer), n);
          if (!exclusive_) store(type_, to, offset, sums, n);
        }
      }
    });
  }

 private:
  Axis axis_;
  bool exclusive_ = false, reverse_ = false;
  DType type_ = DType::f32;
  int parts_ = 1;
  size_t part_bytes_ = 0;
};

class OneHotKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const DType indices = setup.inputs[0].dtype;
    if (indices != DType::i32 && indices != DType::i64) return "its kernel takes indices of i32 and i64";
    if (setup.wants_gradient[2]) return "its kernel has no gradient with respect to the two values";
    return not_whole_bytes(setup.outputs[0]);
  }

  void build(const KernelSetup& setup) override {
    axis_ = Axis(setup.outputs[0].shape, setup.node.attributes.integer("axis", -1));
    wide_ = setup.inputs[0].dtype == DType::i64;
    bytes_ = element_bytes(setup.outputs[0].dtype);
    parts_ = threads();
  }

  void run(Pass, const Buffers& b) override {
    char* y = static_cast<char*>(b.outputs[0]);
    const char* values = static_cast<const char*>(b.inputs[2]);
    for_each_part(parts_, axis_.outer, [&](int, Index first, Index last) {
      const Index block = axis_.size * axis_.inner;
      copy_strided(y + first * block * bytes_, 1, values, 0, (last - first) * block, bytes_);
      for (Index line = first * axis_.inner; line < last * axis_.inner; ++line) {
        Index index =
            wide_ ? static_cast<const int64_t*>(b.inputs[0])[line] : static_cast<const int32_t*>(b.inputs[0])[line];
        if (index < 0) index += axis_.size;
        if (index < 0 || index >= axis_.size) continue;
        std::memcpy(y + (axis_.start(line) + index * axis_.inner) * bytes_, values + bytes_,
                    static_cast<size_t>(bytes_));
      }
    });
  }

 private:
  Axis axis_;
  bool wide_ = true;
  Index bytes_ = 4;
  int parts_ = 1;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "ArgMax", "builtin", ArgKernel);
D5_REGISTER_KERNEL(onednn, "ArgMin", "builtin", ArgKernel);
D5_REGISTER_KERNEL(onednn, "TopK", "builtin", TopKKernel);
D5_REGISTER_KERNEL(onednn, "CumSum", "builtin", CumSumKernel);
D5_REGISTER_KERNEL(onednn, "OneHot", "builtin", OneHotKernel);
}  // namespace d5::onednn::own
