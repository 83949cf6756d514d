// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include "d5/bench/oracle.hpp"

namespace d5 {
namespace {

Shape sliced(const Shape& shape, Index axis, size_t count) {
  std::vector<Index> sizes = shape.sizes();
  if (axis >= 0) sizes[axis] = static_cast<Index>(count);
  return Shape(std::move(sizes));
}

std::vector<TensorSpec> sliced(const std::vector<TensorSpec>& in, const Operator::Batch& axes, size_t count) {
  std::vector<TensorSpec> few = in;
  for (size_t i = 0; i < few.size(); ++i)
    if (few[i].present) few[i].shape = sliced(in[i].shape, axes.inputs.at(i), count);
  return few;
}

// f(elements before in the slice, elements before in the whole, how many) for each contiguous piece.
template <class F>
void for_each_piece(const Shape& shape, Index axis, const std::vector<Index>& chosen, F&& f) {
  const auto at = static_cast<size_t>(axis);
  const Index inner = shape.elements(at + 1, shape.rank());
  Index done = 0;
  for (Index outer = 0; outer < shape.elements(0, at); ++outer)
    for (const Index entry : chosen) {
      f(done, (outer * shape[at] + entry) * inner, inner);
      done += inner;
    }
}

Tensor sliced(const Tensor& tensor, Index axis, const std::vector<Index>& chosen) {
  if (axis < 0) return tensor;
  Tensor few(tensor.dtype(), sliced(tensor.shape(), axis, chosen.size()));
  const size_t width = static_cast<size_t>(bits(tensor.dtype())) / 8;
  for_each_piece(tensor.shape(), axis, chosen, [&](Index to, Index from, Index count) {
    std::memcpy(static_cast<char*>(few.data()) + to * width, static_cast<const char*>(tensor.data()) + from * width,
                count * width);
  });
  return few;
}

}  // namespace

Tensor zero_elsewhere(const Tensor& tensor, Index axis, const std::vector<Index>& chosen) {
  Tensor result(tensor.dtype(), tensor.shape());
  result.fill_bytes(0);
  const size_t width = static_cast<size_t>(bits(tensor.dtype())) / 8;
  for_each_piece(tensor.shape(), axis, chosen, [&](Index, Index from, Index count) {
    std::memcpy(static_cast<char*>(result.data()) + from * width,
                static_cast<const char*>(tensor.data()) + from * width, count * width);
  });
  return result;
}

// The last entry is among them where there are two, because ranges go wrong at their ends.
std::optional<Entries> choose_entries(const Oracle& o) {
  auto axes = o.op.batch(o.in);
  if (!axes) return {};
  Index all = 0;
  for (size_t i = 0; i < o.in.size(); ++i)
    if (o.in[i].present && axes->inputs.at(i) >= 0) all = o.in[i].shape[axes->inputs[i]];
  if (all < 2) return {};
  constexpr double affordable = 2e10, most = 4;
  const double one = o.op.cost(sliced(o.in, *axes, 1), o.options.pass).flops;
  const auto count = static_cast<size_t>(std::clamp(affordable / one, 1.0, std::min(most, all / 2.0)));
  std::set<Index> chosen;
  if (count > 1) chosen.insert(all - 1);
  const Rng rng(o.options.seed, stream_of("entries"));
  for (uint64_t i = 0; chosen.size() < count; ++i)
    chosen.insert(static_cast<Index>(rng.below(i, static_cast<uint64_t>(all))));
  return Entries{std::move(*axes), {chosen.begin(), chosen.end()}};
}

std::vector<Expected> expect_entries(const Oracle& whole, const Entries& entries) {
  Oracle few{whole.name,   whole.op, whole.options, sliced(whole.in, entries.axes, entries.chosen.size()), {},
             whole.wanted, {}};
  few.out = few.op.infer(few.in);
  few.out.resize(whole.out.size());
  const auto wide = [&](const Tensor& tensor, Index axis) {
    return tensor.present() ? sliced(tensor, axis, entries.chosen).cast(compute_dtype(tensor.dtype())) : Tensor();
  };
  few.context.input_types = whole.context.input_types;
  for (size_t i = 0; i < few.in.size(); ++i)
    few.context.inputs.push_back(wide(whole.context.input(i), entries.input_axis(i)));
  for (size_t i = 0; i < whole.context.output_gradients.size(); ++i)
    few.context.output_gradients.push_back(wide(whole.context.output_gradient(i), entries.output_axis(i)));
  std::vector<Expected> all = expect_whole(few);
  size_t next = 0;
  for (size_t i = 0; i < whole.results(); ++i) {
    if (!whole.is_wanted(i)) continue;
    Expected& e = all[next++];
    const Shape& shape = whole.result(i).shape;
    e.shape = shape;
    e.elements = shape.elements();
    if (const Index axis = entries.result_axis(i, whole.options.pass); axis >= 0) {
      for_each_piece(shape, axis, entries.chosen, [&](Index, Index from, Index count) {
        for (Index k = 0; k < count; ++k) e.at.push_back(from + k);
      });
    } else {
      e.at = sample_indices(shape, 100 * whole.options.sample, Rng(whole.options.seed, stream_of("sample") + i));
      for (size_t k = 0; k < e.at.size(); ++k) {
        e.values[k] = e.values[e.at[k]];  // places are in order, so none is overwritten before it is read
        e.tolerance[k] = e.tolerance[e.at[k]];
      }
      if (!e.at.empty()) {
        e.values.resize(e.at.size());
        e.tolerance.resize(e.at.size());
        e.values.shrink_to_fit();
        e.tolerance.shrink_to_fit();
      }
    }
  }
  return all;
}

}  // namespace d5
