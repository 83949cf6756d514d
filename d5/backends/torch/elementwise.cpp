// SPDX-License-Identifier: Apache-2.0
// Functions of single elements. Those that are one ATen function are lines of the tables at the end.
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/add.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/div.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/le.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"
#include "d5/core/parallel.hpp"
#include "d5/operators/dropout.hpp"

namespace d5::libtorch {
namespace {

using at::Tensor;

template <Tensor (*function)(const Tensor&)>
struct Unary {
  static constexpr auto prepare = [](const char* name) {
    return [name](const Setup&) { return elementwise([](const Tensor& x) { return function(x); }, name); };
  };
};
#define D5_TORCH_UNARY(onnx, function) D5_TORCH_OPERATOR(onnx, Unary<at::function>::prepare(#function))

// ATen's functions of two tensors have overloads; the calls pick the right ones.
#define D5_TORCH_BINARY(onnx, function)                                                                       \
  D5_TORCH_OPERATOR(onnx, [](const Setup&) {                                                                  \
    return Prepared{[](Inputs in, Outputs out) { out[0] = at::function(in[0], in[1]); }, "aten::" #function}; \
  })

// Integers are divided towards zero.
Prepared div(const Setup& setup) {
  if (is_float(setup.dtype())) return {[](Inputs in, Outputs out) { out[0] = at::div(in[0], in[1]); }, "aten::div"};
  return {[](Inputs in, Outputs out) { out[0] = at::div(in[0], in[1], "trunc"); }, "aten::div trunc"};
}

// The base decides the type.
Prepared pow(const Setup& setup) {
  const at::ScalarType type = scalar_type(setup.dtype());
  return {[type](Inputs in, Outputs out) { out[0] = at::pow(in[0], in[1]).to(type); }, "aten::pow"};
}

Prepared mod(const Setup& setup) {
  if (setup.dtype() == DType::boolean) return refuse("torch has no remainder of bool");
  if (setup.attributes.flag("fmod", false))
    return {[](Inputs in, Outputs out) { out[0] = at::fmod(in[0], in[1]); }, "aten::fmod"};
  if (!is_float(setup.dtype()))
    return {[](Inputs in, Outputs out) { out[0] = at::remainder(in[0], in[1]); }, "aten::remainder"};
  return {[](Inputs in, Outputs out) {  // its zeros have no sign
            const Tensor rest = at::remainder(in[0], in[1]);
            const Tensor values = rest.detach();  // the same memory, without its gradient
            values.copy_(at::where(values.eq(0), values.copysign(in[1].detach()), values));
            out[0] = rest;
          },
          "aten::remainder"};
}

Prepared is_infinite(const Setup& setup) {
  const bool negative = setup.attributes.flag("detect_negative", true),
             positive = setup.attributes.flag("detect_positive", true);
  if (negative && positive) return elementwise([](const Tensor& x) { return at::isinf(x); }, "isinf");
  if (negative) return elementwise([](const Tensor& x) { return at::isneginf(x); }, "isneginf");
  if (positive) return elementwise([](const Tensor& x) { return at::isposinf(x); }, "isposinf");
  return elementwise([](const Tensor& x) { return at::zeros_like(x, at::kBool); }, "zeros_like");
}

Prepared leaky_relu(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 0.01);
  return elementwise([alpha](const Tensor& x) { return at::leaky_relu(x, alpha); }, "leaky_relu");
}

Prepared thresholded_relu(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1);
  return elementwise([alpha](const Tensor& x) { return at::threshold(x, alpha, 0); }, "threshold");
}

Prepared elu(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1);
  return elementwise([alpha](const Tensor& x) { return at::elu(x, alpha); }, "elu");
}

Prepared celu(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1);
  return elementwise([alpha](const Tensor& x) { return at::celu(x, alpha); }, "celu");
}

Prepared selu(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1.67326319217681884765625),
               gamma = setup.attributes.real("gamma", 1.05070102214813232421875);
  return elementwise([=](const Tensor& x) { return at::elu(x, alpha, gamma); }, "elu (selu with ONNX's constants)");
}

// ATen's own hardsigmoid has a slope of 1/6, ONNX's any.
Prepared hard_sigmoid(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 0.2), beta = setup.attributes.real("beta", 0.5);
  return elementwise([=](const Tensor& x) { return at::clamp(x.mul(alpha).add(beta), 0, 1); }, "mul, add, clamp")
      .rounds_between();
}

// On CUDA ATen's own multiplies f64 by the 1/6 of f32.
Prepared hard_swish(const Setup& setup) {
  if (!setup.device.is_cuda() || setup.dtype() != DType::f64)
    return elementwise([](const Tensor& x) { return at::hardswish(x); }, "hardswish");
  return elementwise([](const Tensor& x) { return x.mul(at::clamp(x.add(3), 0, 6)).div(6); },
                     "add, clamp, mul, div (the 1/6 of hardswish is an f32 number)");
}

Prepared gelu(const Setup& setup) {
  const std::string approximate = setup.attributes.text("approximate", "none");
  return elementwise([approximate](const Tensor& x) { return at::gelu(x, approximate); }, "gelu");
}

Prepared softplus(const Setup&) {
  return elementwise([](const Tensor& x) { return at::softplus(x); }, "softplus");
}

Prepared softsign(const Setup&) {
  return elementwise([](const Tensor& x) { return at::div(x, at::abs(x).add(1)); }, "abs, add, div").rounds_between();
}

Prepared swish(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1);
  if (alpha == 1) return elementwise([](const Tensor& x) { return at::silu(x); }, "silu");
  return elementwise([alpha](const Tensor& x) { return at::mul(x, at::sigmoid(x.mul(alpha))); }, "mul, sigmoid, mul")
      .rounds_between();
}

// A view: torch copies nothing where nothing changes.
Prepared identity(const Setup&) {
  return elementwise([](const Tensor& x) { return at::alias(x); }, "alias (a view)");
}

Prepared clip(const Setup& setup) {
  if (!setup.has(1) && !setup.has(2)) return identity(setup);
  const auto given = [](Inputs in, size_t i) {
    return i < in.size() && in[i].defined() ? std::optional(in[i]) : std::nullopt;
  };
  return {[given](Inputs in, Outputs out) { out[0] = at::clamp(in[0], given(in, 1), given(in, 2)); }, "aten::clamp"};
}

Prepared where(const Setup&) {
  return {[](Inputs in, Outputs out) { out[0] = at::where(in[0], in[1], in[2]); }, "aten::where"};
}

// ATen's own prelu has one slope, or one for each channel (axis 1).
Prepared prelu(const Setup& setup) {
  const Shape &x = setup.inputs[0].shape, &slope = setup.inputs[1].shape;
  const bool channels = x.rank() > 1 && slope.rank() == x.rank() - 1 && slope[0] == x[1] && slope.elements() == x[1];
  if (is_float(setup.dtype()) && (slope.elements() == 1 || channels))
    return {[](Inputs in, Outputs out) { out[0] = at::prelu(in[0], in[1].reshape({-1})); }, "aten::prelu"};
  return Prepared{[](Inputs in, Outputs out) { out[0] = at::where(at::gt(in[0], 0), in[0], at::mul(in[0], in[1])); },
                  "aten::gt, mul, where"}
      .rounds_between();
}

Prepared sum(const Setup& setup) {
  const bool mean = setup.node.op == "Mean";
  return Prepared{[mean](Inputs in, Outputs out) {
                    Tensor total = in.size() == 1 ? at::alias(in[0]) : at::add(in[0], in[1]);
                    for (size_t i = 2; i < in.size(); ++i) total = at::add(total, in[i]);
                    out[0] = mean ? total.div(static_cast<double>(in.size())) : total;
                  },
                  mean ? "aten::add, div" : "aten::add"}
      .rounds_between();
}

Prepared extreme(const Setup& setup) {
  const bool largest = setup.node.op == "Max";
  return Prepared{[largest](Inputs in, Outputs out) {
                    out[0] = at::alias(in[0]);
                    for (size_t i = 1; i < in.size(); ++i)
                      out[0] = largest ? at::maximum(out[0], in[i]) : at::minimum(out[0], in[i]);
                  },
                  largest ? "aten::maximum" : "aten::minimum"};
}

Prepared cast(const Setup& setup) {
  const at::ScalarType type = scalar_type(setup.outputs[0].dtype);
  return elementwise([type](const Tensor& x) { return x.to(type); }, "to");
}

// The mask is the project's own, so that all backends drop the same elements; it is made on the host in every forward.
Prepared dropout(const Setup& setup) {
  const auto ratio = setup.real(1, 0.5), training = setup.real(2, 0);
  if (!ratio || !training) return refuse("ratio and training_mode must be known before the run");
  const double keep = *training == 0 ? 1 : 1 - *ratio;
  const Shape shape = setup.inputs[0].shape;
  const at::Device device = setup.device;
  if (keep == 1)
    return {[=](Inputs in, Outputs out) {
              out[0] = at::alias(in[0]);
              if (out.size() > 1) out[1] = at::zeros_like(in[0], at::kBool).logical_not();
            },
            "aten::alias (a view)"};
  const Index inner = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
  return Prepared{[=, seed = setup.attributes.integer("seed", 0), position = setup.position](Inputs in, Outputs out) {
                    const d5::Tensor mask(DType::boolean, shape);
                    const auto kept = mask.values<bool>();
                    const DropoutNumbers numbers(seed, *position);
                    parallel_for(shape.elements(), 1 << 12, [&](Index first, Index last) {
                      for (Index i = first; i < last; ++i) kept[i] = numbers.at(i / inner, i % inner) >= 1 - keep;
                    });
                    const Tensor there = wrap(mask).to(device, at::kBool, false, true);
                    out[0] = keep == 0 ? at::zeros_like(in[0]) : at::mul(in[0], there).div(keep);
                    if (out.size() > 1) out[1] = there;
                  },
                  "mask by libd5 on the host, aten::mul, div"}
      .rounds_between();
}

}  // namespace
D5_TORCH_UNARY("Abs", abs);
D5_TORCH_UNARY("Neg", neg);
D5_TORCH_UNARY("Sign", sign);
D5_TORCH_UNARY("Floor", floor);
D5_TORCH_UNARY("Ceil", ceil);
D5_TORCH_UNARY("Round", round);
D5_TORCH_UNARY("Exp", exp);
D5_TORCH_UNARY("Log", log);
D5_TORCH_UNARY("Sqrt", sqrt);
D5_TORCH_UNARY("Reciprocal", reciprocal);
D5_TORCH_UNARY("Erf", erf);
D5_TORCH_UNARY("Sin", sin);
D5_TORCH_UNARY("Cos", cos);
D5_TORCH_UNARY("Tan", tan);
D5_TORCH_UNARY("Asin", asin);
D5_TORCH_UNARY("Acos", acos);
D5_TORCH_UNARY("Atan", atan);
D5_TORCH_UNARY("Sinh", sinh);
D5_TORCH_UNARY("Cosh", cosh);
D5_TORCH_UNARY("Asinh", asinh);
D5_TORCH_UNARY("Acosh", acosh);
D5_TORCH_UNARY("Atanh", atanh);
D5_TORCH_UNARY("IsNaN", isnan);
D5_TORCH_UNARY("Relu", relu);
D5_TORCH_UNARY("Sigmoid", sigmoid);
D5_TORCH_UNARY("Tanh", tanh);
D5_TORCH_UNARY("Mish", mish);
D5_TORCH_UNARY("Not", logical_not);
D5_TORCH_UNARY("BitwiseNot", bitwise_not);
D5_TORCH_BINARY("Add", add);
D5_TORCH_BINARY("Sub", sub);
D5_TORCH_BINARY("Mul", mul);
D5_TORCH_BINARY("BitwiseAnd", bitwise_and);
D5_TORCH_BINARY("BitwiseOr", bitwise_or);
D5_TORCH_BINARY("BitwiseXor", bitwise_xor);
D5_TORCH_BINARY("Equal", eq);
D5_TORCH_BINARY("Greater", gt);
D5_TORCH_BINARY("GreaterOrEqual", ge);
D5_TORCH_BINARY("Less", lt);
D5_TORCH_BINARY("LessOrEqual", le);
D5_TORCH_BINARY("And", logical_and);
D5_TORCH_BINARY("Or", logical_or);
D5_TORCH_BINARY("Xor", logical_xor);
D5_TORCH_OPERATOR("Div", div);
D5_TORCH_OPERATOR("Pow", pow);
D5_TORCH_OPERATOR("Mod", mod);
D5_TORCH_OPERATOR("IsInf", is_infinite);
D5_TORCH_OPERATOR("LeakyRelu", leaky_relu);
D5_TORCH_OPERATOR("ThresholdedRelu", thresholded_relu);
D5_TORCH_OPERATOR("Elu", elu);
D5_TORCH_OPERATOR("Celu", celu);
D5_TORCH_OPERATOR("Selu", selu);
D5_TORCH_OPERATOR("HardSigmoid", hard_sigmoid);
D5_TORCH_OPERATOR("HardSwish", hard_swish);
D5_TORCH_OPERATOR("Gelu", gelu);
D5_TORCH_OPERATOR("Softplus", softplus);
D5_TORCH_OPERATOR("Softsign", softsign);
D5_TORCH_OPERATOR("Swish", swish);
D5_TORCH_OPERATOR("Identity", identity);
D5_TORCH_OPERATOR("Clip", clip);
D5_TORCH_OPERATOR("Where", where);
D5_TORCH_OPERATOR("PRelu", prelu);
D5_TORCH_OPERATOR("Sum", sum);
D5_TORCH_OPERATOR("Mean", sum);
D5_TORCH_OPERATOR("Max", extreme);
D5_TORCH_OPERATOR("Min", extreme);
D5_TORCH_OPERATOR("Cast", cast);
D5_TORCH_OPERATOR("Dropout", dropout);
}  // namespace d5::libtorch
