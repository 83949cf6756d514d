// SPDX-License-Identifier: Apache-2.0
// Data movement. Where torch answers with a view of its input nothing is copied, as in its users' programs; the name of
// the function says so.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_reduce.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <numeric>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

constexpr std::string_view place = "[torch]";
constexpr const char* narrow_gradient = "gradients that meet in one element are added in the type of the tensors";

// Reshape, Flatten, Squeeze, Unsqueeze: the sizes of the result are known.
Prepared reshape(const Setup& setup) {
  const auto sizes = setup.outputs[0].shape.sizes();
  return elementwise([sizes](const at::Tensor& x) { return x.reshape(sizes); }, "reshape (a view)");
}

Prepared transpose(const Setup& setup) {
  std::vector<int64_t> order(setup.rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  order = setup.attributes.integers("perm", order);
  return elementwise([order](const at::Tensor& x) { return x.permute(order); }, "permute (a view)");
}

Prepared expand(const Setup& setup) {
  const auto sizes = setup.outputs[0].shape.sizes();
  return elementwise([sizes](const at::Tensor& x) { return x.expand(sizes); }, "expand (a view)");
}

Prepared tile(const Setup& setup) {
  const auto repeats = setup.integers(1);
  if (!repeats) return refuse("repeats must be known before the run");
  return elementwise([repeats = *repeats](const at::Tensor& x) { return x.repeat(repeats); }, "repeat");
}

// What is known before the run; only small values are carried along, larger ones are made here.
std::optional<d5::Tensor> known_value(const Setup& setup) {
  const TensorSpec& out = setup.outputs[0];
  if (out.known) return *out.known;
  Context c;
  for (const TensorSpec& spec : setup.inputs) {
    if (spec.present && !spec.known) return {};
    c.inputs.push_back(spec.present ? spec.known->cast(compute_dtype(spec.dtype)) : d5::Tensor());
    c.input_types.push_back(spec.dtype);
  }
  c.outputs.emplace_back(compute_dtype(out.dtype), out.shape);
  make_operator(setup.node)->forward(c);
  return c.outputs[0].cast(out.dtype);
}

// Constant, Shape, Size: the value is known before the run.
Prepared constant(const Setup& setup) {
  const auto known = known_value(setup);
  if (!known) return refuse("its value is not known before the run");
  const at::Tensor value = wrap(*known).to(setup.device, scalar_type(setup.outputs[0].dtype), false, true);
  return {[value](Inputs, Outputs out) { out[0] = value; }, "a constant"};
}

Prepared concat(const Setup& setup) {
  const int64_t axis = setup.axis("axis", 0);
  return {[axis](Inputs in, Outputs out) { out[0] = at::cat(at::TensorList(in.data(), in.size()), axis); },
          "aten::cat"};
}

Prepared split(const Setup& setup) {
  const int64_t axis = setup.axis("axis", 0);
  std::vector<int64_t> sizes;
  for (const TensorSpec& spec : setup.outputs) sizes.push_back(spec.shape[static_cast<size_t>(axis)]);
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != setup.inputs[0].shape[static_cast<size_t>(axis)])
    return refuse("not all parts are asked for");
  return {[=](Inputs in, Outputs out) {
            auto parts = in[0].split_with_sizes(sizes, axis);
            for (size_t i = 0; i < out.size(); ++i) out[i] = std::move(parts[i]);
          },
          "aten::split_with_sizes (views)"};
}

// Positive steps are views; against the direction of the axis it is flipped first, which copies.
Prepared slice(const Setup& setup) {
  const auto starts = setup.integers(1), ends = setup.integers(2);
  if (!starts || !ends) return refuse("starts and ends must be known before the run");
  std::vector<int64_t> axes(starts->size()), steps(starts->size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (setup.has(3)) axes = setup.integers(3).value_or(axes);
  if (setup.has(4)) steps = setup.integers(4).value_or(steps);
  struct Part {
    int64_t axis, start, step, count;
  };
  std::vector<Part> parts;
  bool flips = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int64_t>(valid_axis(axes[i], setup.rank(), place));
    const int64_t size = setup.inputs[0].shape[static_cast<size_t>(axis)],
                  count = setup.outputs[0].shape[static_cast<size_t>(axis)];
    const int64_t from = (*starts)[i] < 0 ? (*starts)[i] + size : (*starts)[i];
    const bool back = steps[i] < 0;
    const int64_t start = std::clamp<int64_t>(from, 0, std::max<int64_t>(0, back ? size - 1 : size));
    const int64_t step =
        std::min(back ? -std::max(steps[i], -std::max<int64_t>(size, 1)) : steps[i], std::max<int64_t>(size, 1));
    parts.push_back({back ? -1 - axis : axis, back ? size - 1 - start : start, step, count});
    flips = flips || back;
  }
  return elementwise(
      [parts](const at::Tensor& x) {
        at::Tensor y = x;
        for (const auto& [coded, start, step, count] : parts) {
          const int64_t axis = coded < 0 ? -1 - coded : coded;
          if (coded < 0) y = y.flip(axis);
          y = y.slice(axis, start, count == 0 ? start : start + (count - 1) * step + 1, step);
        }
        return y;
      },
      flips ? "flip, slice" : "slice (a view)");
}

// A constant is an input with a gradient, so it is chosen where the padding is. Other modes pick elements axis by axis.
Prepared pad(const Setup& setup) {
  const auto list = setup.integers(1);
  if (!list) return refuse("pads must be known before the run");
  const std::string mode = setup.attributes.text("mode", "constant");
  std::vector<int64_t> axes(setup.rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (setup.has(3)) axes = setup.integers(3).value_or(axes);
  const Shape& shape = setup.inputs[0].shape;
  std::vector<int64_t> before(setup.rank(), 0), after(setup.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = valid_axis(axes[i], setup.rank(), place);
    before[axis] = (*list)[i];
    after[axis] = (*list)[i + axes.size()];
  }
  if (mode == "constant") {
    std::vector<int64_t> pads;  // the last axis first
    for (size_t axis = setup.rank(); axis-- > 0;) {
      pads.push_back(before[axis]);
      pads.push_back(after[axis]);
    }
    if (!setup.has(2))
      return elementwise([pads](const at::Tensor& x) { return at::constant_pad_nd(x, pads); }, "constant_pad_nd");
    const at::Tensor inside =
        at::constant_pad_nd(at::ones(shape.sizes(), at::dtype(at::kBool).device(setup.device)), pads);
    return {[=](Inputs in, Outputs out) {
              out[0] = at::where(inside, at::constant_pad_nd(in[0], pads), in[2].reshape({}));
            },
            "aten::constant_pad_nd, where"};
  }
  std::vector<std::pair<int64_t, at::Tensor>> picks;
  for (size_t axis = 0; axis < setup.rank(); ++axis) {
    if (before[axis] == 0 && after[axis] == 0) continue;
    // Negative pads remove elements; the others are made of what is left.
    const int64_t first = std::max<int64_t>(-before[axis], 0);
    const int64_t size = shape[axis] + std::min<int64_t>(after[axis], 0) - first;
    const int64_t period = mode == "wrap" ? size : std::max<int64_t>(1, 2 * (size - 1));
    std::vector<int64_t> sources;
    for (int64_t i = -before[axis] - first; i < shape[axis] + after[axis] - first; ++i) {
      const int64_t phase = (i % period + period) % period;
      const int64_t source = mode == "edge" ? std::clamp<int64_t>(i, 0, size - 1)
                             : phase < size ? phase
                                            : period - phase;
      sources.push_back(first + source);
    }
    const d5::Tensor host = d5::Tensor::from<int64_t>({static_cast<Index>(sources.size())}, sources);
    picks.emplace_back(static_cast<int64_t>(axis), wrap(host).to(setup.device, at::kLong, false, true));
  }
  return elementwise(
             [picks](const at::Tensor& x) {
               at::Tensor y = x;
               for (const auto& [axis, sources] : picks) y = at::index_select(y, axis, sources);
               return y;
             },
             "index_select of each axis")
      .rounds_between();
}

// ATen's indices count from the front.
at::Tensor from_front(const at::Tensor& indices, int64_t size) { return at::remainder(indices, size); }

Prepared gather(const Setup& setup) {
  const int64_t axis = setup.axis("axis", 0), size = setup.inputs[0].shape[static_cast<size_t>(axis)];
  const auto sizes = setup.outputs[0].shape.sizes();
  return {[=](Inputs in, Outputs out) {
            out[0] = at::index_select(in[0], axis, from_front(in[1].reshape({-1}), size)).reshape(sizes);
          },
          "aten::index_select",
          false,
          "",
          "",
          narrow_gradient};
}

Prepared gather_elements(const Setup& setup) {
  const int64_t axis = setup.axis("axis", 0), size = setup.inputs[0].shape[static_cast<size_t>(axis)];
  return {[=](Inputs in, Outputs out) { out[0] = at::gather(in[0], axis, from_front(in[1].to(at::kLong), size)); },
          "aten::gather",
          false,
          "",
          "",
          narrow_gradient};
}

// Tuples of coordinates as numbers of rows, of the axes `first` .. `first + tuple` of the data.
class TupleNumbers {
 public:
  TupleNumbers(const Setup& setup, const Shape& x, size_t first, size_t tuple) : tuple_(static_cast<int64_t>(tuple)) {
    std::vector<int64_t> sizes, steps(tuple, 1);
    for (size_t k = 0; k < tuple; ++k) sizes.push_back(x[first + k]);
    for (size_t k = tuple; k-- > 1;) steps[k - 1] = steps[k] * sizes[k];
    const auto list = [&](const std::vector<int64_t>& values) {
      return wrap(d5::Tensor::from<int64_t>({static_cast<Index>(values.size())}, values))
          .to(setup.device, at::kLong, false, true);
    };
    sizes_ = list(sizes);
    steps_ = list(steps);
  }
  at::Tensor operator()(const at::Tensor& indices, int64_t batch, int64_t tuples) const {
    const at::Tensor coordinates = indices.to(at::kLong).reshape({batch, tuples, tuple_});
    return at::remainder(coordinates, sizes_).mul(steps_).sum(-1);
  }

 private:
  int64_t tuple_;
  at::Tensor sizes_, steps_;
};

Prepared gather_nd(const Setup& setup) {
  const Shape &x = setup.inputs[0].shape, &indices = setup.inputs[1].shape;
  const auto batch_axes = static_cast<size_t>(setup.attributes.integer("batch_dims", 0));
  const auto tuple = static_cast<size_t>(indices.back());
  const int64_t batch = x.elements(0, batch_axes), tuples = indices.elements(batch_axes, indices.rank() - 1),
                rows = x.elements(batch_axes, batch_axes + tuple), rest = x.elements(batch_axes + tuple, x.rank());
  const TupleNumbers numbers(setup, x, batch_axes, tuple);
  const at::Tensor first = at::arange(batch, at::dtype(at::kLong).device(setup.device)).mul(rows).unsqueeze(1);
  const auto sizes = setup.outputs[0].shape.sizes();
  return {[=](Inputs in, Outputs out) {
            const at::Tensor at = numbers(in[1], batch, tuples).add(first).reshape({-1});
            out[0] = at::index_select(in[0].reshape({batch * rows, rest}), 0, at).reshape(sizes);
          },
          "aten::index_select",
          false,
          "",
          "",
          narrow_gradient};
}

Prepared scatter_elements(const Setup& setup) {
  const int64_t axis = setup.axis("axis", 0), size = setup.inputs[0].shape[static_cast<size_t>(axis)];
  const std::string reduction = setup.attributes.text("reduction", "none");
  const auto indices = [size](Inputs in) { return from_front(in[1].to(at::kLong), size); };
  if (reduction == "none")
    return {[=](Inputs in, Outputs out) { out[0] = at::scatter(in[0], axis, indices(in), in[2]); }, "aten::scatter"};
  if (reduction == "add")
    return Prepared{[=](Inputs in, Outputs out) { out[0] = at::scatter_add(in[0], axis, indices(in), in[2]); },
                    "aten::scatter_add"}
        .narrow("aten::scatter_add adds in the type of the tensors", "");
  const std::string word = reduction == "mul" ? "prod" : reduction == "max" ? "amax" : "amin";
  return Prepared{[=](Inputs in, Outputs out) { out[0] = at::scatter_reduce(in[0], axis, indices(in), in[2], word); },
                  "aten::scatter_reduce"}
      .rounds_between();
}

// The rows that tuples of coordinates mean: the data is rows x rest.
Prepared scatter_nd(const Setup& setup) {
  const Shape &x = setup.inputs[0].shape, &indices = setup.inputs[1].shape;
  const auto tuple = static_cast<size_t>(indices.back());
  const int64_t tuples = indices.elements(0, indices.rank() - 1), rows = x.elements(0, tuple),
                rest = x.elements(tuple, x.rank());
  const TupleNumbers numbers(setup, x, 0, tuple);
  const auto sizes = x.sizes();
  const std::string reduction = setup.attributes.text("reduction", "none");
  const std::string word = reduction == "mul" ? "prod" : reduction == "max" ? "amax" : "amin";
  return Prepared{[=](Inputs in, Outputs out) {
                    const at::Tensor data = in[0].reshape({rows, rest}), updates = in[2].reshape({tuples, rest});
                    const at::Tensor at = numbers(in[1], 1, tuples).reshape({-1});
                    out[0] = (reduction == "none"  ? at::index_copy(data, 0, at, updates)
                              : reduction == "add" ? at::index_add(data, 0, at, updates)
                                                   : at::index_reduce(data, 0, at, updates, word))
                                 .reshape(sizes);
                  },
                  reduction == "none"  ? "aten::index_copy"
                  : reduction == "add" ? "aten::index_add"
                                       : "aten::index_reduce"}
      .rounds_between();
}

Prepared triangle(const Setup& setup) {
  const auto diagonal = setup.real(1, 0);
  if (!diagonal) return refuse("k must be known before the run");
  const auto k = static_cast<int64_t>(*diagonal);
  if (setup.attributes.flag("upper", true))
    return elementwise([k](const at::Tensor& x) { return at::triu(x, k); }, "triu");
  return elementwise([k](const at::Tensor& x) { return at::tril(x, k); }, "tril");
}

Prepared one_hot(const Setup& setup) {
  const auto axis = static_cast<int64_t>(valid_axis(setup.attributes.integer("axis", -1), setup.rank() + 1, place));
  const int64_t depth = setup.outputs[0].shape[static_cast<size_t>(axis)];
  std::vector<int64_t> sizes(setup.rank() + 1, 1);
  sizes[static_cast<size_t>(axis)] = depth;
  const at::Tensor classes = at::arange(depth, at::dtype(at::kLong).device(setup.device)).view(sizes);
  return {[=](Inputs in, Outputs out) {
            const at::Tensor given = in[0].to(at::kLong), from_start = at::where(given.lt(0), given.add(depth), given);
            out[0] = at::where(from_start.unsqueeze(axis).eq(classes), in[2].select(0, 1), in[2].select(0, 0));
          },
          "aten::eq, where"};
}

Prepared non_zero(const Setup&) {
  return {[](Inputs in, Outputs out) { out[0] = at::nonzero(in[0].dim() == 0 ? in[0].reshape({1}) : in[0]).t(); },
          "aten::nonzero"};
}

Prepared depth_to_space(const Setup& setup) {
  const int64_t block = setup.attributes.integer("blocksize", 1);
  if (setup.attributes.text("mode", "DCR") == "CRD")
    return elementwise([block](const at::Tensor& x) { return at::pixel_shuffle(x, block); }, "pixel_shuffle");
  const Shape &x = setup.inputs[0].shape, &y = setup.outputs[0].shape;
  const std::vector<int64_t> apart{x[0], block, block, y[1], x[2], x[3]}, sizes = y.sizes();
  return elementwise(
      [=](const at::Tensor& in) {
        return in.reshape(apart).permute({0, 3, 4, 1, 5, 2}).reshape(sizes);
      },
      "reshape, permute, reshape");
}

Prepared space_to_depth(const Setup& setup) {
  const int64_t block = setup.attributes.integer("blocksize", 1);
  const Shape &x = setup.inputs[0].shape, &y = setup.outputs[0].shape;
  const std::vector<int64_t> apart{x[0], x[1], y[2], block, y[3], block}, sizes = y.sizes();
  const bool channels_first = setup.attributes.text("mode", "DCR") == "CRD";
  const std::vector<int64_t> order =
      channels_first ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  return elementwise([=](const at::Tensor& in) { return in.reshape(apart).permute(order).reshape(sizes); },
                     "reshape, permute, reshape");
}

Prepared einsum(const Setup& setup) {
  std::string equation = setup.attributes.text("equation", "");
  std::erase(equation, ' ');
  return Prepared{
      [equation](Inputs in, Outputs out) { out[0] = at::einsum(equation, at::TensorList(in.data(), in.size())); },
      "aten::einsum"}
      .rounds_between();
}

}  // namespace
D5_TORCH_OPERATOR("Reshape", reshape);
D5_TORCH_OPERATOR("Flatten", reshape);
D5_TORCH_OPERATOR("Squeeze", reshape);
D5_TORCH_OPERATOR("Unsqueeze", reshape);
D5_TORCH_OPERATOR("Transpose", transpose);
D5_TORCH_OPERATOR("Expand", expand);
D5_TORCH_OPERATOR("Tile", tile);
D5_TORCH_OPERATOR("Constant", constant);
D5_TORCH_OPERATOR("ConstantOfShape", constant);
D5_TORCH_OPERATOR("Shape", constant);
D5_TORCH_OPERATOR("Size", constant);
D5_TORCH_OPERATOR("Concat", concat);
D5_TORCH_OPERATOR("Split", split);
D5_TORCH_OPERATOR("Slice", slice);
D5_TORCH_OPERATOR("Pad", pad);
D5_TORCH_OPERATOR("Gather", gather);
D5_TORCH_OPERATOR("GatherElements", gather_elements);
D5_TORCH_OPERATOR("GatherND", gather_nd);
D5_TORCH_OPERATOR("ScatterElements", scatter_elements);
D5_TORCH_OPERATOR("ScatterND", scatter_nd);
D5_TORCH_OPERATOR("Trilu", triangle);
D5_TORCH_OPERATOR("OneHot", one_hot);
D5_TORCH_OPERATOR("NonZero", non_zero);
D5_TORCH_OPERATOR("Range", constant);
D5_TORCH_OPERATOR("DepthToSpace", depth_to_space);
D5_TORCH_OPERATOR("SpaceToDepth", space_to_depth);
D5_TORCH_OPERATOR("Einsum", einsum);
}  // namespace d5::libtorch
