// SPDX-License-Identifier: Apache-2.0
// Every operator that moves data by a choice that is known before the run (Transpose, Slice, Pad, DepthToSpace, Trilu,
// ...): d5/operators/selection.hpp says which element comes from where, axis by axis. The innermost axis becomes runs
// of neighbours; where they are no neighbours in the source, but those of another axis are, blocks are transposed.
// Backward goes the same way in the other direction; where elements were chosen more than once they are summed in f32,
// on one thread.
#include <algorithm>
#include <array>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/operators/selection.hpp"

namespace d5::onednn::own {
namespace {

struct Run {
  Index at, count, source, stride;  // of elements; source none: the filling
};

std::vector<Run> runs_of(const std::vector<Index>& steps) {
  std::vector<Run> runs;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto at = static_cast<Index>(i);
    if (!runs.empty()) {
      Run& last = runs.back();
      const bool filling = last.source == Sources::none;
      if (filling && steps[i] == Sources::none) {
        ++last.count;
        continue;
      }
      if (!filling && steps[i] != Sources::none) {
        const Index stride = last.count == 1 ? steps[i] - last.source : last.stride;
        if (steps[i] == last.source + last.count * stride) {
          last.stride = stride;
          ++last.count;
          continue;
        }
      }
    }
    runs.push_back({at, 1, steps[i], 1});
  }
  return runs;
}

bool is_progression(const std::vector<Index>& steps) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] == Sources::none ||
        steps[i] != steps[0] + static_cast<Index>(i) * (steps.size() > 1 ? steps[1] - steps[0] : 0))
      return false;
  return true;
}

// Axes of one element go into their neighbours, and neighbours that are one progression become one.
void collapse(Sources& from) {
  for (size_t axis = from.steps.size(); axis-- > 1;) {
    auto &outer = from.steps[axis - 1], &inner = from.steps[axis];
    if (!is_progression(outer) || !is_progression(inner) || outer.empty() || inner.empty()) continue;
    const auto stride = [](const std::vector<Index>& steps) { return steps.size() > 1 ? steps[1] - steps[0] : 0; };
    const auto size = static_cast<Index>(inner.size());
    const bool trivial = outer.size() == 1 || inner.size() == 1;
    if (!trivial && stride(outer) != stride(inner) * size) continue;
    std::vector<Index> joined;
    joined.reserve(outer.size() * inner.size());
    for (const Index a : outer)
      for (const Index b : inner) joined.push_back(a + b);
    inner = std::move(joined);
    from.steps.erase(from.steps.begin() + static_cast<std::ptrdiff_t>(axis) - 1);
  }
}

// The same choice among elements that lie in this order of axes.
void lay(Sources& from, const Shape& shape, const AxisOrder& order) {
  const auto strides = shape.strides(), dense = lying(shape, order).strides();
  std::vector<std::vector<Index>> steps;
  for (size_t i = 0; i < order.size(); ++i) {
    auto& axis = steps.emplace_back(std::move(from.steps[order[i]]));
    for (Index& step : axis)
      if (step != Sources::none) step = step / strides[order[i]] * dense[i];
  }
  from.steps = std::move(steps);
}

class SelectionKernel final : public OwnKernel {
 public:
  // In a network a Transpose is a view: axis j of the result is axis perm[j], wherever that lies. Slice and Pad choose
  // along every axis alone, in whatever order axes lie.
  void arrange(KernelSetup& setup) const override {
    if (setup.node.op == "Slice" || setup.node.op == "Pad") {
      const AxisOrder order = setup.input_orders[0];
      Kernel::arrange(setup);
      setup.input_orders[0] = setup.output_orders[0] = order;
      return;
    }
    if (setup.node.op != "Transpose") return OwnKernel::arrange(setup);
    const auto perm = setup.node.attributes.integers("perm");
    const size_t rank = setup.inputs[0].shape.rank();
    AxisOrder seen;
    for (size_t i = 0; i < rank; ++i) {
      const auto axis = static_cast<int64_t>(setup.input_orders[0].empty() ? i : setup.input_orders[0][i]);
      const auto place = std::ranges::find(perm, axis);
      seen.push_back(perm.empty() ? rank - 1 - static_cast<size_t>(axis) : static_cast<size_t>(place - perm.begin()));
    }
    setup.output_orders[0] = seen;
    setup.is_view = true;
  }

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (!dynamic_cast<const Selection*>(&setup.op)) return "its kernel knows operators that choose elements alone";
    for (size_t i = 1; i < setup.inputs.size(); ++i)
      if (setup.inputs[i].present && !setup.inputs[i].known && !is_filling(setup, i))
        return fmt::format("input {} must be known before the run", i);
    for (size_t i = 1; i < setup.wants_gradient.size(); ++i)
      if (setup.wants_gradient[i] && !is_filling(setup, i)) return fmt::format("input {} has no gradient", i);
    if (auto reason = not_whole_bytes(setup.inputs[0])) return reason;
    if (std::ranges::any_of(setup.wants_gradient, [](bool w) { return w; }) && !is_tile_type(setup.inputs[0].dtype))
      return wrong_type(setup.inputs[0]);
    return {};
  }

  bool knows_orders() const override { return true; }
  void build(const KernelSetup& setup) override {
    filling_.reset();
    backward_reads_nothing();
    std::vector<TensorSpec> specs = setup.inputs;
    for (size_t i = 1; i < specs.size(); ++i)
      if (is_filling(setup, i)) filling_ = i, specs[i] = TensorSpec::absent();
    Sources from = dynamic_cast<const Selection&>(setup.op).sources(specs);
    if (const AxisOrder order = lying_order(setup); !order.empty()) lay(from, setup.inputs[0].shape, order);
    type_ = setup.inputs[0].dtype;
    size_ = element_bytes(type_);
    elements_x_ = setup.inputs[0].elements();
    elements_y_ = setup.outputs[0].elements();
    wants_ = setup.wants_gradient;
    wants_filling_ = filling_ && wants_[*filling_];
    injective_ = from.most_readers() <= 1;
    covers_ = from.distinct() >= static_cast<double>(elements_x_);
    collapse(from);
    if (from.steps.empty()) from.add_axis(1, 0);
    parts_ = threads();
    streamed_ = exceeds_caches(setup.inputs[0].bytes() + setup.outputs[0].bytes());
    find_transposition(from);
    length_ = static_cast<Index>(from.steps.back().size());
    runs_ = runs_of(from.steps.back());
    outer_.assign(from.steps.begin(), from.steps.end() - 1);
    rows_ = 1;
    for (const auto& axis : outer_) rows_ *= static_cast<Index>(axis.size());
    find_order();

    ScratchPlan plan;
    sums_at_ = plan.take_floats(wants_[0] && !injective_ && type_ != DType::f32 ? elements_x_ : 0);
    tiles_at_ = plan.take(static_cast<size_t>(parts_) * copy_tile);
    need_scratch(plan.bytes());
  }

  void run(Pass pass, const Buffers& b) override {
    if (elements_y_ == 0 && pass == Pass::forward) return;
    if (pass == Pass::forward) return forward_rows(b);
    if (wants_[0]) backward_rows(b);
    if (wants_filling_) sum_filling(b);
  }

 private:
  static constexpr Index copy_tile = 8192;

  // Pad's constant is a value, not a choice.
  static bool is_filling(const KernelSetup& setup, size_t i) {
    return setup.node.op == "Pad" && i == 2 && setup.inputs[2].present;
  }

  // The innermost axis walks in large steps and another one through neighbours: the two are transposed in blocks.
  void find_transposition(const Sources& from) {
    transposed_.reset();
    if (size_ != 2 && size_ != 4) return;
    const auto stride = [](const std::vector<Index>& s) { return s.size() > 1 ? s[1] - s[0] : 0; };
    const auto& inner = from.steps.back();
    if (!is_progression(inner) || stride(inner) < 2 || inner.size() < 8) return;
    for (const auto& axis : from.steps)
      if (!is_progression(axis)) return;
    Index target = static_cast<Index>(inner.size());
    for (size_t axis = from.steps.size() - 1; axis-- > 0;) {
      const auto& steps = from.steps[axis];
      if (stride(steps) == 1 && steps.size() >= 8) {
        transposed_ = {static_cast<Index>(steps.size()), target, stride(inner)};
        return;
      }
      target *= static_cast<Index>(steps.size());
    }
  }

  // Rows of whole lines that go past the caches are taken in the order of the source, which is then read in long runs.
  void find_order() {
    order_.clear();
    const bool whole = length_ * size_ % 64 == 0 && runs_.size() == 1 && runs_[0].stride == 1;
    if (!streamed_ || !whole || runs_[0].source == Sources::none || outer_.empty() || outer_.size() > most_axes) return;
    Index target = length_ * size_;
    for (size_t axis = outer_.size(); axis-- > 0;) {
      const auto& steps = outer_[axis];
      if (!is_progression(steps)) return order_.clear();
      const auto count = static_cast<Index>(steps.size());
      order_.push_back({count, steps[0] * size_, (count > 1 ? steps[1] - steps[0] : 0) * size_, target});
      target *= count;
    }
    std::ranges::stable_sort(order_, {}, &OrderedAxis::source);
  }

  void copy_ordered(const char* from, char* to) const {
    for_each_part(parts_, rows_, [&](int, Index first, Index last) {
      std::array<Index, most_axes> at{};
      const char* source = from + runs_[0].source * size_;
      char* target = to;
      Index rest = first;
      for (size_t k = 0; k < order_.size(); ++k) {
        const OrderedAxis& axis = order_[k];
        at[k] = rest % axis.count;
        rest /= axis.count;
        source += axis.start + at[k] * axis.source;
        target += at[k] * axis.target;
      }
      for (Index row = first; row < last; ++row) {
        loops().stream(target, source, length_ * size_);
        for (size_t k = 0; k < order_.size(); ++k) {
          source += order_[k].source;
          target += order_[k].target;
          if (++at[k] < order_[k].count) break;
          source -= at[k] * order_[k].source;
          target -= at[k] * order_[k].target;
          at[k] = 0;
        }
      }
      loops().fence();
    });
  }

  // The place in the source of a row, or none.
  Index start_of(Index row) const {
    Index start = 0;
    for (size_t axis = outer_.size(); axis-- > 0;) {
      const auto size = static_cast<Index>(outer_[axis].size());
      const Index step = outer_[axis][row % size];
      if (step == Sources::none) return Sources::none;
      start += step;
      row /= size;
    }
    return start;
  }

  void fill(char* to, Index n, const Buffers& b) const {
    if (!filling_) {
      std::memset(to, 0, static_cast<size_t>(n * size_));
    } else {
      copy_strided(to, 1, static_cast<const char*>(b.inputs[*filling_]), 0, n, size_);
    }
  }

  void copy_row(char* to, const char* from, Index start, const Buffers& b) const {
    if (start == Sources::none) return fill(to, length_, b);
    for (const Run& run : runs_) {
      char* target = to + run.at * size_;
      if (run.source == Sources::none)
        fill(target, run.count, b);
      else if (run.stride == 1)
        std::memcpy(target, from + (start + run.source) * size_, static_cast<size_t>(run.count * size_));
      else
        copy_strided(target, 1, from + (start + run.source) * size_, run.stride, run.count, size_);
    }
  }

  void forward_rows(const Buffers& b) const {
    const char* from = static_cast<const char*>(b.inputs[0]);
    char* to = static_cast<char*>(b.outputs[0]);
    if (transposed_) return transpose(from, to, true);
    if (!order_.empty()) return copy_ordered(from, to);
    const Index row_bytes = length_ * size_, rows_in_tile = copy_tile / std::max<Index>(1, row_bytes);
    for_each_part(parts_, rows_, [&](int part, Index first, Index last) {
      char* tile = static_cast<char*>(b.scratch) + tiles_at_ + part * copy_tile;
      for (Index row = first; row < last;) {
        if (streamed_ && rows_in_tile > 0) {  // several rows together pass the caches by
          const Index taken = std::min(rows_in_tile, last - row);
          for (Index r = 0; r < taken; ++r) copy_row(tile + r * row_bytes, from, start_of(row + r), b);
          loops().stream(to + row * row_bytes, tile, taken * row_bytes);
          row += taken;
        } else {
          const Index start = start_of(row);
          if (streamed_ && start != Sources::none && runs_.size() == 1 && runs_[0].stride == 1)
            loops().stream(to + row * row_bytes, from + (start + runs_[0].source) * size_, row_bytes);
          else
            copy_row(to + row * row_bytes, from, start, b);
          ++row;
        }
      }
      if (streamed_) loops().fence();
    });
  }

  // y[.., k, .., i] = x[.. + k + i stride]; backward the other way.
  void transpose(const char* from, char* to, bool forward) const {
    const Transposition& t = *transposed_;
    const Index others = rows_ / t.count, inner_rows = t.target / length_;  // rows behind axis k
    // Forward bands of the innermost axis, backward of axis k: the source is read along its rows.
    const Index wide = forward ? length_ : t.count, bands = (wide + band - 1) / band;
    for_each_part(parts_, others * bands, [&](int, Index first, Index last) {
      for (Index job = first; job < last; ++job) {
        const Index other = job / bands, at = job % bands * band, count = std::min(band, wide - at);
        const Index row = other / inner_rows * t.count * inner_rows + other % inner_rows;
        const Index source = start_of(row) + runs_[0].source, target = row * length_;
        const auto move = [&]<class T>(auto loop, T) {
          if (forward)
            loop(reinterpret_cast<T*>(to) + target + at, t.target,
                 reinterpret_cast<const T*>(from) + source + at * t.stride, t.stride, t.count, count);
          else
            loop(reinterpret_cast<T*>(to) + source + at, t.stride,
                 reinterpret_cast<const T*>(from) + target + at * t.target, t.target, length_, count);
        };
        const auto wide_loop = [&](auto... arguments) { loops().transpose_4(arguments..., streamed_); };
        size_ == 2 ? move(loops().transpose_2, uint16_t{}) : move(wide_loop, uint32_t{});
      }
      if (streamed_) loops().fence();
    });
  }

  void backward_rows(const Buffers& b) const {
    const char* from = static_cast<const char*>(b.output_gradients[0]);
    char* to = static_cast<char*>(b.input_gradients[0]);
    if (!injective_) return add_rows(b);
    if (!covers_) zero_bytes(parts_, to, elements_x_ * size_);
    if (transposed_) return transpose(from, to, false);
    for_each_part(parts_, rows_, [&](int, Index first, Index last) {
      for (Index row = first; row < last; ++row) {
        const Index start = start_of(row);
        if (start == Sources::none) continue;
        for (const Run& run : runs_) {
          if (run.source == Sources::none) continue;
          char* target = to + (start + run.source) * size_;
          const char* source = from + (row * length_ + run.at) * size_;
          if (run.stride == 1)
            std::memcpy(target, source, static_cast<size_t>(run.count * size_));
          else
            copy_strided(target, run.stride, source, 1, run.count, size_);
        }
      }
    });
  }

  // Elements that were chosen more than once.
  void add_rows(const Buffers& b) const {
    const bool direct = type_ == DType::f32;
    float* sums = direct ? static_cast<float*>(b.input_gradients[0]) : floats(b.scratch, sums_at_);
    std::fill_n(sums, elements_x_, 0.0f);
    float values[tile_elements];
    for (Index row = 0; row < rows_; ++row) {
      const Index start = start_of(row);
      if (start == Sources::none) continue;
      for (const Run& run : runs_) {
        if (run.source == Sources::none) continue;
        for (Index at = 0; at < run.count; at += tile_elements) {
          const Index n = std::min(tile_elements, run.count - at);
          const float* dy = load(type_, b.output_gradients[0], row * length_ + run.at + at, n, values);
          float* to = sums + start + run.source + at * run.stride;
          if (run.stride == 1)
            loops().merge[0](to, dy, n);
          else
            for (Index i = 0; i < n; ++i) to[i * run.stride] += dy[i];
        }
      }
    }
    if (direct) return;
    for (Index at = 0; at < elements_x_; at += tile_elements)
      store(type_, b.input_gradients[0], at, sums + at, std::min(tile_elements, elements_x_ - at));
  }

  // The gradient of the filling: all of dy that stands where nothing was chosen.
  void sum_filling(const Buffers& b) const {
    float total = 0, values[tile_elements];
    for (Index row = 0; row < rows_; ++row) {
      const Index start = start_of(row);
      for (const Run& run : runs_) {
        if (start != Sources::none && run.source != Sources::none) continue;
        for (Index at = 0; at < run.count; at += tile_elements) {
          const Index n = std::min(tile_elements, run.count - at);
          total += loops().reduce[0](load(type_, b.output_gradients[0], row * length_ + run.at + at, n, values), n);
        }
      }
    }
    store(type_, b.input_gradients[*filling_], 0, &total, 1);
  }

  static constexpr size_t most_axes = 16;
  struct OrderedAxis {
    Index count, start, source, target;  // steps in bytes
  };

  static constexpr Index band = 64;  // elements of the transposed axis in one job
  struct Transposition {
    Index count, target, stride;  // elements of that axis, its stride in the result, the stride of the innermost
  };

  DType type_ = DType::f32;
  Index size_ = 4, elements_x_ = 0, elements_y_ = 0, rows_ = 1, length_ = 1;
  std::vector<std::vector<Index>> outer_;
  std::vector<Run> runs_;
  std::optional<Transposition> transposed_;
  std::vector<OrderedAxis> order_;  // the innermost first; empty: rows are taken in the order of the result
  std::optional<size_t> filling_;
  std::vector<bool> wants_;
  bool wants_filling_ = false, injective_ = true, covers_ = true, streamed_ = false;
  int parts_ = 1;
  size_t sums_at_ = 0, tiles_at_ = 0;
};

// Expand and Tile repeat: values are read along axes of stride 0, gradients are summed over them. Tile has an axis of
// copies before each axis.
class RepeatKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs[0].shape.rank() > 8) return "its kernel repeats at most 8 axes";
    for (const TensorSpec* spec : {&setup.inputs[0], &setup.outputs[0]})
      if (auto reason = wrong_type(*spec)) return reason;
    return {};
  }

  void build(const KernelSetup& setup) override {
    Shape space = setup.outputs[0].shape, from = setup.inputs[0].shape;
    if (setup.node.op == "Tile") {
      std::vector<Index> whole, once;
      for (size_t axis = 0; axis < from.rank(); ++axis) {
        const Index copies = from[axis] == 0 ? 1 : space[axis] / from[axis];
        whole.insert(whole.end(), {copies, from[axis]});
        once.insert(once.end(), {1, from[axis]});
      }
      space = Shape(whole);
      from = Shape(once);
    }
    const auto seen = [&](Operand operand, const Shape& shape) {
      operand.shape = shape;
      return operand;
    };
    Traversal& forward = add_walk(Pass::forward, space);
    forward.write(seen(output(setup, 0), space), {{nullptr, {forward.read(seen(input(setup, 0), from))}}});
    if (!setup.wants_gradient[0]) return;
    Traversal& backward = add_walk(Pass::backward, space);
    const Link link{nullptr, {backward.read(seen(output_gradient(setup, 0), space))}};
    if (from.elements() == space.elements())
      backward.write(seen(input_gradient(setup, 0), space), {link});
    else
      backward.reduce(seen(input_gradient(setup, 0), from), {link}, Reduce::sum, {});
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Transpose", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "Slice", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "Pad", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "DepthToSpace", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "SpaceToDepth", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "Trilu", "builtin", SelectionKernel);
D5_REGISTER_KERNEL(onednn, "Expand", "builtin", RepeatKernel);
D5_REGISTER_KERNEL(onednn, "Tile", "builtin", RepeatKernel);
}  // namespace d5::onednn::own
