// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/bench/oracle.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/origin.hpp"

namespace d5 {
namespace {

Tensor random_input(const OperatorInput& input, InputValues kind, const Rng& rng, int64_t integers) {
  Tensor tensor(input.spec.dtype, input.spec.shape);
  const bool is_unsigned = input.spec.dtype >= DType::u8 && input.spec.dtype <= DType::boolean;
  if (!is_float(input.spec.dtype)) {  // an index has its own range, whatever the kind
    const auto low = static_cast<int64_t>(std::ceil(input.low)), high = static_cast<int64_t>(std::floor(input.high));
    fill_integers(tensor, rng, is_unsigned ? std::max<int64_t>(0, low) : low, high);
  } else if (kind == InputValues::integers) {
    fill_integers(tensor, rng, -integers, integers);
  } else if (kind == InputValues::normal && input.low < 0) {
    fill_normal(tensor, rng, 0.5 * (input.low + input.high), 0.25 * (input.high - input.low));
  } else {
    fill_uniform(tensor, rng, input.low, input.high);
  }
  if (kind == InputValues::nan && is_float(input.spec.dtype))
    for (Index i = 0; i < tensor.elements(); i += 97)
      store_from_double(input.spec.dtype, tensor.data(), i, std::nan(""));
  return tensor;
}

}  // namespace

std::string result_name(const Expected& e) {
  return (e.role == Executable::Role::gradient ? "gradient of " : "") + e.value;
}

InputValues parse_input_values(std::string_view text) {
  static const std::vector<std::string> legal{"uniform", "normal", "integers", "nan"};
  const auto found = std::ranges::find(legal, text);
  if (found == legal.end()) fail_unknown("[op]", "kind of inputs", text, legal);
  return static_cast<InputValues>(found - legal.begin());
}

bool exact_on_integers(const std::string& op, const OperatorCase& one, Pass pass) {
  const auto made = registered<operators>(op).make(one.attributes);
  const auto in = one.specs();
  if (pass == Pass::forward) return exact_on_integers(*made, in, pass, 0);
  for (size_t i = 0; i < in.size(); ++i)
    if (one.inputs[i].differentiable && in[i].present && !exact_on_integers(*made, in, pass, i)) return false;
  return true;
}

Problem make_problem(const std::string& name, const OperatorCase& one, const ProblemOptions& options) {
  const auto op = registered<operators>(name).make(one.attributes);
  const bool users = is_users<operators>(name);
  Oracle o{name, *op, options, one.specs(), {}, {}, {}};
  o.out = op->infer(o.in);
  o.out.resize(std::min(o.out.size(), one.outputs));
  for (size_t i = 0; i < o.in.size(); ++i) o.wanted.push_back(one.inputs[i].differentiable && is_float(o.in[i].dtype));

  double terms = 1;
  for (size_t i = 0; i < o.results(); ++i)
    if (!o.backward() || one.inputs[i].differentiable)
      terms = std::max(terms, op->rounding(o.in, options.pass, i).terms);
  // A user may ask for integers where no sum of them is exact: ones, then, judged by the tolerance.
  const int64_t integers = std::max<int64_t>(1, exact_integer_range(terms, o.in));

  const bool large = op->cost(o.in, options.pass).flops > options.full_flops;
  const std::optional<Entries> entries = large ? choose_entries(o) : std::nullopt;
  // Whoever computes a few samples alone widens them alone.
  const auto widened = [&](const Tensor& tensor) {
    if (entries) return tensor;
    const Tensor wide = tensor.cast(compute_dtype(tensor.dtype()));
    return users ? widely_guarded(wide) : wide;
  };

  Problem problem{.pass = options.pass};
  for (const TensorSpec& spec : o.in) o.context.input_types.push_back(spec.dtype);
  for (size_t i = 0; i < o.in.size(); ++i) {
    const std::string value = "x" + std::to_string(i);
    if (!o.in[i].present) {
      o.context.inputs.emplace_back();
      continue;
    }
    const Tensor tensor =
        o.in[i].known ? *o.in[i].known
                      : random_input(one.inputs[i], options.inputs, Rng(options.seed, stream_of(value)), integers);
    problem.inputs.emplace_back(value, tensor);
    o.context.inputs.push_back(widened(tensor));
  }
  for (size_t i = 0; o.backward() && i < o.out.size(); ++i) {
    const std::string gradient = "y" + std::to_string(i);
    const bool seeded = is_float(o.out[i].dtype) && i < one.differentiable_outputs;
    if (!seeded) {
      o.context.output_gradients.emplace_back();
      continue;
    }
    Tensor tensor =
        random_input({.spec = o.out[i]}, options.inputs == InputValues::nan ? InputValues::uniform : options.inputs,
                     Rng(options.seed, stream_of("gradient " + gradient)), integers);
    if (entries) tensor = zero_elsewhere(tensor, entries->output_axis(i), entries->chosen);
    problem.output_gradients.emplace_back(gradient, tensor);
    o.context.output_gradients.push_back(widened(tensor));
  }

  if (entries) {
    problem.expected = expect_entries(o, *entries);
  } else if (auto elements = large ? expect_elements(o) : std::nullopt) {
    problem.expected = std::move(*elements);
  } else {
    problem.expected = expect_whole(o);
  }
  problem.doubt = o.doubt;
  return problem;
}

}  // namespace d5
