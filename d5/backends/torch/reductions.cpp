// SPDX-License-Identifier: Apache-2.0
// Reductions, extremes, sorting and running sums.
#include <ATen/core/Tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

struct Over {
  std::vector<int64_t> axes;  // counted from the front, rising
  bool keep;
  at::ScalarType type;
};
using Reduction = at::Tensor (*)(const at::Tensor&, const Over&);

at::Tensor sum(const at::Tensor& x, const Over& o) { return at::sum(x, o.axes, o.keep, o.type); }
at::Tensor mean(const at::Tensor& x, const Over& o) {
  if (x.is_floating_point()) return at::mean(x, o.axes, o.keep);
  int64_t count = 1;
  for (const int64_t axis : o.axes) count *= x.size(axis);
  return at::div(sum(x, o), count, "trunc").to(o.type);
}
at::Tensor maximum(const at::Tensor& x, const Over& o) { return at::amax(x, o.axes, o.keep); }
at::Tensor minimum(const at::Tensor& x, const Over& o) { return at::amin(x, o.axes, o.keep); }
at::Tensor product(const at::Tensor& x, const Over& o) {
  at::Tensor y = x;
  for (size_t i = o.axes.size(); i-- > 0;) y = at::prod(y, o.axes[i], o.keep, o.type);
  return y;
}
at::Tensor l1(const at::Tensor& x, const Over& o) {
  return x.is_floating_point() ? at::linalg_vector_norm(x, 1, o.axes, o.keep) : sum(x.abs(), o);
}
// What integers do not have is computed in double and loses its fraction.
template <at::Tensor (*f)(const at::Tensor&, const Over&)>
at::Tensor in_double(const at::Tensor& x, const Over& o) {
  return x.is_floating_point() ? f(x, o) : f(x.to(at::kDouble), {o.axes, o.keep, at::kDouble}).to(o.type);
}
at::Tensor l2(const at::Tensor& x, const Over& o) { return at::linalg_vector_norm(x, 2, o.axes, o.keep); }
at::Tensor sum_of_squares(const at::Tensor& x, const Over& o) { return sum(x.square(), o); }
at::Tensor log_sum(const at::Tensor& x, const Over& o) { return sum(x, o).log(); }
at::Tensor log_sum_exp(const at::Tensor& x, const Over& o) { return at::logsumexp(x, o.axes, o.keep); }

// Without axes all are reduced, or none: then an axis of one element is added and reduced.
Prepared reduce(const Setup& setup, Reduction f, const char* function) {
  std::vector<int64_t> axes;
  if (setup.has(1)) {
    const auto given = setup.integers(1);
    if (!given) return refuse("the axes must be known before the run");
    for (const int64_t axis : *given) axes.push_back(static_cast<int64_t>(valid_axis(axis, setup.rank(), "[torch]")));
    std::ranges::sort(axes);
  }
  const bool none = axes.empty() && setup.attributes.flag("noop_with_empty_axes", false);
  const auto rank = static_cast<int64_t>(setup.rank());
  if (none) axes = {rank};
  if (axes.empty() && rank > 0) {
    axes.resize(setup.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  const Over over{axes, !none && setup.attributes.flag("keepdims", true), scalar_type(setup.dtype())};
  if (none || rank == 0) {  // one element
    const Over last{{rank}, false, over.type};
    return {[=](Inputs in, Outputs out) { out[0] = f(in[0].unsqueeze(-1), last); }, std::string("aten::") + function};
  }
  return {[=](Inputs in, Outputs out) { out[0] = f(in[0], over); }, std::string("aten::") + function};
}

template <Reduction f>
Prepare plain(const char* function) {
  return [function](const Setup& setup) {
    const bool extreme = setup.node.op == "ReduceMax" || setup.node.op == "ReduceMin";
    if (extreme && setup.inputs[0].elements() == 0) return refuse("torch finds no extreme among no elements");
    return reduce(setup, f, function);
  };
}
template <Reduction f>
Prepare composed(const char* function) {
  return [function](const Setup& setup) { return reduce(setup, f, function).rounds_between(); };
}

// Among equal elements ATen takes the first.
Prepared arg_extreme(const Setup& setup) {
  const bool largest = setup.node.op == "ArgMax", keep = setup.attributes.flag("keepdims", true);
  const int64_t axis = setup.axis("axis", 0);
  const auto find = [=](const at::Tensor& x) {
    return largest ? at::argmax(x, axis, keep) : at::argmin(x, axis, keep);
  };
  const char* function = largest ? "argmax" : "argmin";
  if (!setup.attributes.flag("select_last_index", false)) return elementwise(find, function);
  const int64_t last = setup.inputs[0].shape[static_cast<size_t>(axis)] - 1;
  return elementwise([=](const at::Tensor& x) { return find(x.flip(axis)).neg().add(last); },
                     std::string("flip, ") + function);
}

// ONNX wants equal elements in the order of their indices, which topk leaves open and a stable sort keeps.
Prepared top_k(const Setup& setup) {
  const auto k = setup.integers(1);
  if (!k) return refuse("K must be known before the run");
  const int64_t axis = setup.axis("axis", -1), count = k->at(0);
  const bool largest = setup.attributes.flag("largest", true);
  return {[=](Inputs in, Outputs out) {
            const auto [values, indices] = at::sort(in[0], /*stable=*/true, axis, largest);
            out[0] = values.narrow(axis, 0, count);
            if (out.size() > 1) out[1] = indices.narrow(axis, 0, count);
          },
          "aten::sort (stable; topk leaves the order of equal elements open)"};
}

Prepared cum_sum(const Setup& setup) {
  const auto given = setup.integers(1);
  if (!given) return refuse("the axis must be known before the run");
  const auto axis = static_cast<int64_t>(valid_axis(given->at(0), setup.rank(), "[torch]"));
  const bool exclusive = setup.attributes.flag("exclusive", false), reverse = setup.attributes.flag("reverse", false);
  const at::ScalarType type = scalar_type(setup.dtype());
  const auto run = [=](const at::Tensor& input) {
    const at::Tensor x = reverse ? input.flip(axis) : input;
    at::Tensor y = at::cumsum(x, axis, type);
    if (exclusive && y.size(axis) > 0)
      y = at::cat({at::zeros_like(y.narrow(axis, 0, 1)), y.narrow(axis, 0, y.size(axis) - 1)}, axis);
    return reverse ? y.flip(axis) : y;
  };
  const std::string narrow = setup.device.is_cuda() ? "CUDA's scan adds in the type of the tensors" : "";
  return elementwise(run, std::string(reverse ? "flip, " : "") + "cumsum" + (exclusive ? ", cat" : "") +
                              (reverse ? ", flip" : ""))
      .narrow(narrow, narrow);
}

}  // namespace
D5_TORCH_OPERATOR("ReduceSum", plain<sum>("sum"));
D5_TORCH_OPERATOR("ReduceMean", plain<mean>("mean"));
D5_TORCH_OPERATOR("ReduceMax", plain<maximum>("amax"));
D5_TORCH_OPERATOR("ReduceMin", plain<minimum>("amin"));
D5_TORCH_OPERATOR("ReduceProd", composed<product>("prod"));
D5_TORCH_OPERATOR("ReduceL1", plain<l1>("linalg_vector_norm"));
D5_TORCH_OPERATOR("ReduceL2", composed<in_double<l2>>("linalg_vector_norm"));
D5_TORCH_OPERATOR("ReduceSumSquare", composed<sum_of_squares>("square, sum"));
D5_TORCH_OPERATOR("ReduceLogSum", composed<in_double<log_sum>>("sum, log"));
D5_TORCH_OPERATOR("ReduceLogSumExp", composed<in_double<log_sum_exp>>("logsumexp"));
D5_TORCH_OPERATOR("ArgMax", arg_extreme);
D5_TORCH_OPERATOR("ArgMin", arg_extreme);
D5_TORCH_OPERATOR("TopK", top_k);
D5_TORCH_OPERATOR("CumSum", cum_sum);
}  // namespace d5::libtorch
