// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "d5/core/convert.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

// Integers small enough that a sum of `terms` products stays exact in the accumulator.
int64_t exact_integer_range(double terms, DType dtype) {
  const double most = dtype == DType::f64 ? 0x1p53 : 0x1p24;
  for (int64_t range : {4, 2})
    if (static_cast<double>(range * range) * terms < most) return range;
  return 1;
}

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

// A seeded sample without the bias of a stride, plus the first, the last and the ends of the last axis.
std::vector<Index> sample_indices(const Shape& shape, size_t count, const Rng& rng) {
  std::set<Index> chosen;
  const Index n = shape.elements();
  if (static_cast<size_t>(n) <= count) return {};
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    const Index inner = shape.elements(axis + 1, shape.rank());
    chosen.insert((shape[axis] - 1) * inner);
    chosen.insert(n - 1 - (shape[axis] - 1) * inner);
  }
  chosen.insert(0);
  chosen.insert(n - 1);
  for (uint64_t i = 0; chosen.size() < count + 2 * shape.rank() + 2 && i < 4 * count; ++i)
    chosen.insert(static_cast<Index>(rng.below(i, static_cast<uint64_t>(n))));
  return {chosen.begin(), chosen.end()};
}

Tensor absolute(const Tensor& tensor) {
  if (!tensor.present() || tensor.dtype() != DType::f64) return tensor;
  Tensor result = tensor.clone();
  for (double& v : result.values<double>()) v = std::abs(v);
  return result;
}

void make_absolute(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.present() || tensor.dtype() != DType::f64) continue;
    const auto values = tensor.values<double>();
    parallel_for(tensor.elements(), 1 << 16, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) values[static_cast<size_t>(i)] = std::abs(values[static_cast<size_t>(i)]);
    });
  }
}

double growth(double terms) { return std::min(terms, 6 * std::sqrt(terms)); }

// Extra relative error of every product where the arithmetic itself is allowed to be coarser than the accumulator.
double math_round_off(Math math, DType dtype) {
  if (dtype != DType::f32) return 0;
  switch (math) {
    case Math::tf32: return 2 * 0x1p-11;
    case Math::bf16: return 2 * round_off(DType::bf16);
    default: return 0;
  }
}
// Winograd F(2x2,3x3): the product of the infinity norms of its transforms, (3 * 2 * 1.5)^2, multiplies the bound.
double math_amplification(Math math) { return math == Math::winograd ? 81 : 1; }

struct Oracle {
  const std::string& name;
  const OperatorCase& one;
  const ProblemOptions& options;
  std::unique_ptr<Operator> op;
  std::vector<TensorSpec> in, out;
  Context context;

  Context absolute_context() const {
    Context c;
    for (const Tensor& t : context.inputs) c.inputs.push_back(absolute(t));
    for (const Tensor& t : context.outputs) c.outputs.push_back(absolute(t));
    for (const Tensor& t : context.output_gradients) c.output_gradients.push_back(absolute(t));
    c.saved = context.saved;
    return c;
  }
};

std::vector<Tensor> allocate(const std::vector<TensorSpec>& specs, const std::vector<bool>& wanted) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i) {
    const DType type = compute_dtype(specs[i].dtype);
    tensors.push_back(specs[i].present && wanted[i] ? Tensor(type, specs[i].shape, guarded_memory()) : Tensor());
    if (tensors.back().present() && type != DType::string) tensors.back().fill_bytes(0xff);
  }
  return tensors;
}

// What the operator's loops made must be what infer() promised, and nothing beside it may have been written.
void check_made(const std::string& op, const std::vector<TensorSpec>& specs, const std::vector<Tensor>& made,
                const char* what) {
  for (size_t i = 0; i < made.size() && i < specs.size(); ++i) {
    if (!made[i].present()) continue;
    const TensorSpec promised{compute_dtype(specs[i].dtype), specs[i].shape}, came{made[i].dtype(), made[i].shape()};
    if (came.dtype != promised.dtype || !(came.shape == promised.shape))
      throw Error("[{}] made {} {} as {}; infer() promised {}", op, what, i, to_string(came), to_string(promised));
    if (const std::string how = overrun(made[i]); !how.empty()) throw Error("[{}] wrote {} of {} {}", op, how, what, i);
  }
}

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor wide = tensor.dtype() == DType::f64 ? tensor : tensor.cast(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

// The elements `at` of result `index`, on all threads.
std::vector<double> elements_at(const Oracle& o, size_t index, std::span<const Index> at) {
  std::vector<double> values(at.size());
  const auto part = static_cast<int64_t>(at.size() + static_cast<size_t>(threads()) - 1) / threads();
  parallel_for(static_cast<int64_t>(at.size()), std::max<int64_t>(1, part), [&](int64_t first, int64_t last) {
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(last - first);
    const std::span<double> to(values.data() + begin, count);
    o.options.pass == Pass::backward ? o.op->backward_at(o.context, index, at.subspan(begin, count), to)
                                     : o.op->forward_at(o.context, index, at.subspan(begin, count), to);
  });
  return values;
}

Expected expect_nothing_yet(const Oracle& o, size_t index, const TensorSpec& spec) {
  const bool backward = o.options.pass == Pass::backward;
  Expected e{.value = (backward ? "x" : "y") + std::to_string(index),
             .role = backward ? Executable::Role::gradient : Executable::Role::value,
             .dtype = spec.dtype,
             .shape = spec.shape,
             .elements = spec.elements()};
  e.exact = !is_float(spec.dtype) ||
            (o.op->rounding(o.in, o.options.pass, index).exact && o.options.inputs == InputValues::integers);
  return e;
}

// How far a correct kernel may be from the values of result `index`. `kept`: the scale of what is stored on the way,
// rounded to the result's type (empty: nothing is).
void set_tolerance(const Oracle& o, size_t index, std::span<const double> magnitude, std::span<const double> kept,
                   Expected& e) {
  const Rounding rounding = o.op->rounding(o.in, o.options.pass, index);
  const double accumulate = round_off(e.dtype == DType::f64 ? DType::f64 : DType::f32);
  const double stored = rounding.stored_outputs ? round_off(e.dtype) : 0;
  const double relative =
      ((growth(rounding.terms) + rounding.units) * accumulate + math_round_off(o.options.math, e.dtype) + stored) *
      math_amplification(o.options.math);
  // Below the smallest normal number rounding is absolute, not relative.
  const double tiny = e.dtype == DType::f64 ? 0x1p-1022 : e.dtype == DType::f16 ? 0x1p-14 : 0x1p-126;
  e.tolerance.resize(e.values.size());
  for (size_t i = 0; i < e.values.size(); ++i) {
    const double rounded = std::abs(e.values[i]) + (kept.empty() ? 0 : kept[i]);
    e.tolerance[i] = e.exact ? 0 : relative * std::abs(magnitude[i]) + round_off(e.dtype) * rounded + tiny;
  }
}

using IsWanted = std::function<bool(size_t)>;

size_t results_of(const Oracle& o) { return o.options.pass == Pass::backward ? o.in.size() : o.out.size(); }
const TensorSpec& result_spec(const Oracle& o, size_t i) {
  return o.options.pass == Pass::backward ? o.in[i] : o.out[i];
}

// A seeded sample of every result. First all values, then all magnitudes: in between the context becomes its absolute
// values in place, because these tensors may be most of the memory.
void expect_samples(Oracle& o, const IsWanted& is_wanted, Problem& problem) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < results_of(o); ++i) {
    if (!is_wanted(i)) continue;
    const TensorSpec& spec = result_spec(o, i);
    Expected e = expect_nothing_yet(o, i, spec);
    e.at = sample_indices(spec.shape, o.options.sample, Rng(o.options.seed, stream_of("sample") + i));
    if (e.at.empty())
      for (Index at = 0; at < spec.elements(); ++at) e.at.push_back(at);
    e.values = elements_at(o, i, e.at);
    indices.push_back(i);
    problem.expected.push_back(std::move(e));
  }
  make_absolute(o.context.inputs);
  make_absolute(o.context.output_gradients);
  for (size_t k = 0; k < indices.size(); ++k) {
    Expected& e = problem.expected[k];
    set_tolerance(o, indices[k], e.exact ? e.values : elements_at(o, indices[k], e.at), {}, e);
  }
}

// Every element. Sums of products: the scale of errors is the operator applied to absolute values.
void expect_all(Oracle& o, const std::vector<bool>& wanted, const IsWanted& is_wanted, Problem& problem) {
  const bool backward = o.options.pass == Pass::backward;
  Context of_absolutes;
  bool have_absolutes = false;
  for (size_t i = 0; i < results_of(o); ++i) {
    if (!is_wanted(i)) continue;
    const TensorSpec& spec = result_spec(o, i);
    const Tensor whole = backward ? o.context.input_gradient(i) : o.context.output(i);
    Tensor magnitude = o.op->magnitude(o.context, o.options.pass, i);
    if (!magnitude.present() && is_float(spec.dtype)) {
      if (!have_absolutes) {
        of_absolutes = o.absolute_context();
        of_absolutes.outputs = allocate(o.out, std::vector<bool>(o.out.size(), true));
        o.op->forward(of_absolutes);
        if (backward) {
          of_absolutes.input_gradients = allocate(o.in, wanted);
          o.op->backward(of_absolutes);
        }
        have_absolutes = true;
      }
      magnitude = backward ? of_absolutes.input_gradient(i) : of_absolutes.output(i);
    } else if (!magnitude.present()) {
      magnitude = whole;
    }
    Expected e = expect_nothing_yet(o, i, spec);
    e.values = doubles(whole);
    const Tensor kept = o.op->stored_magnitude(o.context, o.options.pass, i, spec.dtype);
    set_tolerance(o, i, doubles(magnitude), kept.present() ? doubles(kept) : std::vector<double>(), e);
    problem.expected.push_back(std::move(e));
  }
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
  if (pass == Pass::forward) return made->rounding(in, pass, 0).exact;
  for (size_t i = 0; i < in.size(); ++i)
    if (one.inputs[i].differentiable && in[i].present && !made->rounding(in, pass, i).exact) return false;
  return true;
}

Problem make_problem(const std::string& name, const OperatorCase& one, const ProblemOptions& options) {
  Oracle o{name, one, options, registered<operators>(name).make(one.attributes), one.specs()};
  o.out = o.op->infer(o.in);
  o.out.resize(std::min(o.out.size(), one.outputs));
  const bool backward = options.pass == Pass::backward;

  double terms = 1;
  for (size_t i = 0; i < (backward ? o.in.size() : o.out.size()); ++i)
    if (!backward || one.inputs[i].differentiable) terms = std::max(terms, o.op->rounding(o.in, options.pass, i).terms);
  const int64_t integers = exact_integer_range(terms, o.in.empty() ? DType::f32 : o.in[0].dtype);

  Problem problem{.pass = options.pass};
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
    o.context.inputs.push_back(tensor.cast(compute_dtype(tensor.dtype())));
  }

  const Cost cost = o.op->cost(o.in, options.pass);
  // Whole results where plain loops are quick, or where the operator cannot give single elements.
  std::vector<Index> first{0};
  std::vector<double> value(1);
  const auto can_sample = [&](size_t index) {
    return backward ? o.op->backward_at(o.context, index, first, value)
                    : o.op->forward_at(o.context, index, first, value);
  };

  if (backward) {
    for (size_t i = 0; i < o.out.size(); ++i) {
      const std::string gradient = "y" + std::to_string(i);
      const bool seeded = is_float(o.out[i].dtype) && i < one.differentiable_outputs;
      if (!seeded) {
        o.context.output_gradients.emplace_back();
        continue;
      }
      const Tensor tensor =
          random_input({.spec = o.out[i]}, options.inputs == InputValues::nan ? InputValues::uniform : options.inputs,
                       Rng(options.seed, stream_of("gradient " + gradient)), integers);
      problem.output_gradients.emplace_back(gradient, tensor);
      o.context.output_gradients.push_back(tensor.cast(compute_dtype(tensor.dtype())));
    }
  }

  std::vector<bool> wanted(o.in.size());
  for (size_t i = 0; i < o.in.size(); ++i) wanted[i] = one.inputs[i].differentiable && is_float(o.in[i].dtype);
  const auto is_wanted = [&](size_t i) { return backward ? o.in[i].present && wanted[i] : true; };

  bool sampled = cost.flops > options.full_flops;
  for (size_t i = 0; sampled && i < results_of(o); ++i) sampled = !is_wanted(i) || can_sample(i);
  if (!sampled) {
    o.context.outputs = allocate(o.out, std::vector<bool>(o.out.size(), true));
    o.op->forward(o.context);
    check_made(name, o.out, o.context.outputs, "output");
    if (backward) {
      o.context.input_gradients = allocate(o.in, wanted);
      o.op->backward(o.context);
      check_made(name, o.in, o.context.input_gradients, "the gradient of input");
    }
  }

  sampled ? expect_samples(o, is_wanted, problem) : expect_all(o, wanted, is_wanted, problem);
  return problem;
}

void write_inputs(const Problem& problem, Executable& executable) {
  for (const auto& [value, tensor] : problem.inputs) executable.write(Executable::Role::value, value, tensor);
  for (const auto& [value, tensor] : problem.output_gradients)
    executable.write(Executable::Role::gradient, value, tensor);
}

void poison_results(const Problem& problem, Executable& executable) {
  for (const Expected& e : problem.expected) {
    Tensor poison = executable.read(e.role, e.value);
    poison.fill_bytes(0xff);
    executable.write(e.role, e.value, poison);
  }
}

CheckResult check_results(const Problem& problem, Executable& executable) {
  CheckResult result;
  double largest = 0;
  for (const Expected& e : problem.expected) {
    const Tensor actual = executable.read(e.role, e.value);
    const auto fail = [&](size_t i, Index at, double got) {
      if (!result.passed) return;
      result.passed = false;
      result.reason = fmt::format("{}[{}] is {:.9g}, expected {:.9g} +- {:.2g}", result_name(e), at, got, e.values[i],
                                  e.tolerance[i]);
    };
    if (actual.elements() != e.elements) {
      result.passed = false;
      result.reason = fmt::format("{} has {} elements, expected {}", e.value, actual.elements(), e.elements);
      return result;
    }
    if (actual.dtype() != e.dtype || actual.shape() != e.shape) {
      result.passed = false;
      result.reason =
          fmt::format("{}{} is {}[{}], expected {}[{}]", e.role == Executable::Role::gradient ? "gradient of " : "",
                      e.value, name(actual.dtype()), to_string(actual.shape()), name(e.dtype), to_string(e.shape));
      return result;
    }
    // What is exact is compared after the one rounding that the type asks for.
    for (size_t i = 0; i < e.values.size(); ++i) {
      const Index at = e.at.empty() ? static_cast<Index>(i) : e.at[i];
      const double got = load_as_double(e.dtype, actual.data(), at);
      double wanted = e.values[i];
      if (e.exact) {
        alignas(8) unsigned char cell[8] = {};
        store_from_double(e.dtype, cell, 0, wanted);
        wanted = load_as_double(e.dtype, cell, 0);
      }
      largest = std::max(largest, std::abs(wanted));
      ++result.compared;
      if (std::isnan(wanted) && std::isnan(got)) continue;
      if (wanted == got) continue;
      const double error = std::abs(got - wanted);
      if (!(error <= e.tolerance[i])) fail(i, at, got);
      result.l1 += error;
      result.l2 += error * error;
      result.linf = std::isnan(error) ? INFINITY : std::max(result.linf, error);
      if (e.tolerance[i] > 0) result.worst_share = std::max(result.worst_share, error / e.tolerance[i]);
    }
    result.elements += e.elements;
  }
  result.l2 = std::sqrt(result.l2);
  result.linf_relative = largest > 0 ? result.linf / largest : 0;
  result.powerless = result.compared == 0 || largest == 0;
  return result;
}

}  // namespace d5
