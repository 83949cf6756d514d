// SPDX-License-Identifier: Apache-2.0
// Runs one operator on given tensors, as a test writes it down.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "d5/operators/gradient_check.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

inline Tensor doubles(Shape shape, const std::vector<double>& values) {
  return Tensor::from<double>(std::move(shape), values);
}

// Small quarters without much order, exact in every float type: ((i (2 seed + 3) + 5 seed) mod 13 - 6) / 4.
inline Tensor pattern(Shape shape, int seed) {
  Tensor t(DType::f64, std::move(shape));
  const auto values = t.values<double>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<double>((static_cast<int>(i) * (2 * seed + 3) + 5 * seed) % 13) - 6) / 4;
  return t;
}

inline std::vector<double> list(const Tensor& t) {
  const Tensor wide = t.cast(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

inline std::unique_ptr<Operator> made(const std::string& op, const Attributes& attributes = {}) {
  return registered<operators>(op).make(attributes);
}

// Inputs of any type, widened here; outputs as the operator made them.
inline Context forward(const Operator& op, const std::vector<Tensor>& inputs) {
  Context c;
  for (const Tensor& input : inputs) {
    const bool wide = !input.present() || input.dtype() == compute_dtype(input.dtype());
    c.inputs.push_back(wide ? input : input.cast(compute_dtype(input.dtype())));
    c.input_types.push_back(input.dtype());
  }
  for (const TensorSpec& spec : op.infer(known_specs(inputs)))
    c.outputs.emplace_back(compute_dtype(spec.dtype), spec.shape);
  op.forward(c);
  return c;
}

// Gradients of all inputs of f64 for this gradient of output 0.
inline void backward(const Operator& op, Context& c, Tensor gradient) {
  c.output_gradients = {std::move(gradient)};
  for (const Tensor& t : c.inputs)
    c.input_gradients.push_back(t.present() && t.dtype() == DType::f64 ? Tensor(DType::f64, t.shape()) : Tensor());
  op.backward(c);
}

inline void expect_near(const Tensor& got, const Shape& shape, const std::vector<double>& wanted,
                        double tolerance = 1e-12) {
  ASSERT_EQ(to_string(got.shape()), to_string(shape));
  const auto values = list(got);
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i], tolerance) << "element " << i;
}

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::string infer_error(const std::string& op, const Attributes& attributes, const std::vector<TensorSpec>& in) {
  return message_of([&] { made(op, attributes)->infer(in); });
}

// What holds for every case of every operator: sampled elements equal the whole result, and the gradient is that of
// central differences.
inline void expect_cases_hold(const std::string& op) {
  const OperatorEntry& entry = registered<operators>(op);
  for (const Attributes& values : entry.cases) {
    const OperatorCase one = entry.describe(complete_values(op, entry, values), DType::f32);
    std::string text = op;
    for (const auto& [name, value] : values.values()) text += " " + name + "=" + to_string(value);
    SCOPED_TRACE(text);
    const auto made_op = entry.make(one.attributes);
    Context c = separated_context(*made_op, one, 7);
    made_op->forward(c);
    const bool has_gradient = std::ranges::any_of(c.input_gradients, &Tensor::present);
    if (has_gradient) made_op->backward(c);
    const auto compare = [&](const Tensor& whole, auto&& sampled, double scale) {
      std::vector<Index> at;
      const Index step = std::max<Index>(1, whole.elements() / 2000);
      for (Index i = 0; i < whole.elements(); i += step) at.push_back(i);
      std::vector<double> some(at.size(), std::numeric_limits<double>::quiet_NaN());
      if (!sampled(at, some)) return;
      const auto all = list(whole);
      for (size_t i = 0; i < at.size(); ++i) ASSERT_NEAR(some[i], all[at[i]], 1e-12 * scale) << "element " << at[i];
    };
    for (size_t i = 0; i < one.outputs; ++i)
      compare(
          c.outputs[i], [&](auto& at, auto& some) { return made_op->forward_at(c, i, at, some); }, 1e2);
    for (size_t i = 0; i < c.inputs.size(); ++i)
      if (c.input_gradient(i).present())
        compare(
            c.input_gradients[i], [&](auto& at, auto& some) { return made_op->backward_at(c, i, at, some); }, 1e3);
    for (const GradientDeviation& d : check_gradient(*made_op, one, 11)) {
      EXPECT_LE(d.worst, d.tolerance) << "gradient of input " << d.input;
      EXPECT_LT(d.tolerance, 1e-4) << "gradient of input " << d.input;
    }
    const auto specs = one.specs();
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (pass == Pass::backward && !has_gradient) continue;
      EXPECT_GT(made_op->cost(specs, pass).bytes, 0);
      EXPECT_TRUE(std::isfinite(made_op->cost(specs, pass).flops));
    }
  }
}

}  // namespace d5
