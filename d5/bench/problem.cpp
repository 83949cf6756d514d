// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
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

// What the operator's own loops work on: the whole case, or a few samples of it.
struct Oracle {
  const std::string& name;  // of the operator
  const Operator& op;
  const ProblemOptions& options;
  std::vector<TensorSpec> in, out;
  std::vector<bool> wanted;  // gradients of inputs
  Context context;

  bool backward() const { return options.pass == Pass::backward; }
  size_t results() const { return backward() ? in.size() : out.size(); }
  bool is_wanted(size_t i) const { return !backward() || (in[i].present && wanted[i]); }
  const TensorSpec& result(size_t i) const { return backward() ? in[i] : out[i]; }

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

Expected expect_nothing_yet(const Oracle& o, size_t index) {
  const TensorSpec& spec = o.result(index);
  Expected e{.value = (o.backward() ? "x" : "y") + std::to_string(index),
             .role = o.backward() ? Executable::Role::gradient : Executable::Role::value,
             .dtype = spec.dtype,
             .shape = spec.shape,
             .elements = spec.elements()};
  e.exact = !is_float(spec.dtype) ||
            (o.op.rounding(o.in, o.options.pass, index).exact && o.options.inputs == InputValues::integers);
  return e;
}

// How far a correct kernel may be from the values of result `index`. `kept`: the scale of what is stored on the way,
// rounded to the result's type (empty: nothing is).
void set_tolerance(const Oracle& o, size_t index, std::span<const double> magnitude, std::span<const double> kept,
                   Expected& e) {
  const Rounding rounding = o.op.rounding(o.in, o.options.pass, index);
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

// Every result as the operator's loops give it, with the scale of its errors.
std::vector<Expected> expect_whole(Oracle& o) {
  const auto run = [&](Context& c) {
    c.outputs = allocate(o.out, std::vector<bool>(o.out.size(), true));
    o.op.forward(c);
    check_made(o.name, o.out, c.outputs, "output");
    if (!o.backward()) return;
    c.input_gradients = allocate(o.in, o.wanted);
    o.op.backward(c);
    check_made(o.name, o.in, c.input_gradients, "the gradient of input");
  };
  run(o.context);
  std::vector<Expected> all;
  Context of_absolutes;  // sums of products: the scale of errors is the operator applied to absolute values
  bool have_absolutes = false;
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.is_wanted(i)) continue;
    const Tensor whole = o.backward() ? o.context.input_gradient(i) : o.context.output(i);
    Tensor magnitude = o.op.magnitude(o.context, o.options.pass, i);
    if (!magnitude.present() && is_float(o.result(i).dtype)) {
      if (!have_absolutes) {
        of_absolutes = o.absolute_context();
        run(of_absolutes);
        have_absolutes = true;
      }
      magnitude = o.backward() ? of_absolutes.input_gradient(i) : of_absolutes.output(i);
    } else if (!magnitude.present()) {
      magnitude = whole;
    }
    Expected e = expect_nothing_yet(o, i);
    e.values = doubles(whole);
    const Tensor kept = o.op.stored_magnitude(o.context, o.options.pass, i, e.dtype);
    set_tolerance(o, i, doubles(magnitude), kept.present() ? doubles(kept) : std::vector<double>(), e);
    all.push_back(std::move(e));
  }
  return all;
}

// The elements `at` of result `index`, on all threads.
std::vector<double> elements_at(const Oracle& o, size_t index, std::span<const Index> at) {
  std::vector<double> values(at.size());
  const auto part = static_cast<int64_t>(at.size() + static_cast<size_t>(threads()) - 1) / threads();
  parallel_for(static_cast<int64_t>(at.size()), std::max<int64_t>(1, part), [&](int64_t first, int64_t last) {
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(last - first);
    const std::span<double> to(values.data() + begin, count);
    o.backward() ? o.op.backward_at(o.context, index, at.subspan(begin, count), to)
                 : o.op.forward_at(o.context, index, at.subspan(begin, count), to);
  });
  return values;
}

// Single elements of every result, where the operator can give them. First all values, then all magnitudes: in between
// the context becomes its absolute values in place, because these tensors may be most of the memory.
std::optional<std::vector<Expected>> expect_elements(Oracle& o) {
  const std::vector<Index> first{0};
  std::vector<double> value(1);
  std::vector<size_t> wanted;
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.is_wanted(i)) continue;
    if (!(o.backward() ? o.op.backward_at(o.context, i, first, value) : o.op.forward_at(o.context, i, first, value)))
      return {};
    wanted.push_back(i);
  }
  std::vector<Expected> all;
  for (const size_t i : wanted) {
    Expected e = expect_nothing_yet(o, i);
    e.at = sample_indices(o.result(i).shape, o.options.sample, Rng(o.options.seed, stream_of("sample") + i));
    if (e.at.empty())
      for (Index at = 0; at < e.elements; ++at) e.at.push_back(at);
    e.values = elements_at(o, i, e.at);
    all.push_back(std::move(e));
  }
  make_absolute(o.context.inputs);
  make_absolute(o.context.output_gradients);
  for (size_t k = 0; k < all.size(); ++k) {
    const bool exact = all[k].exact;  // needs no scale
    set_tolerance(o, wanted[k], exact ? all[k].values : elements_at(o, wanted[k], all[k].at), {}, all[k]);
  }
  return all;
}

// ---- a few samples of a batch
struct Entries {
  Operator::Batch axes;
  std::vector<Index> chosen;  // in order

  Index input_axis(size_t i) const { return axes.inputs.at(i); }
  Index output_axis(size_t i) const { return axes.outputs.at(i); }
  Index result_axis(size_t i, Pass pass) const { return pass == Pass::backward ? input_axis(i) : output_axis(i); }
};

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

// Which entries of the batch are computed: a few that the loops can afford, at most half of them. The last is among
// them where there are two, because ranges go wrong at their ends.
std::optional<Entries> choose_entries(const Oracle& o) {
  auto axes = o.op.batch(o.in);
  if (!axes) return {};
  Index all = 0;
  for (size_t i = 0; i < o.in.size(); ++i)
    if (o.in[i].present && axes->inputs.at(i) >= 0) all = o.in[i].shape[axes->inputs[i]];
  if (all < 2) return {};
  constexpr double affordable = 2e10, most = 8;
  const double one = o.op.cost(sliced(o.in, *axes, 1), o.options.pass).flops;
  const auto count = static_cast<size_t>(std::clamp(affordable / one, 1.0, std::min(most, all / 2.0)));
  std::set<Index> chosen;
  if (count > 1) chosen.insert(all - 1);
  const Rng rng(o.options.seed, stream_of("entries"));
  for (uint64_t i = 0; chosen.size() < count; ++i)
    chosen.insert(static_cast<Index>(rng.below(i, static_cast<uint64_t>(all))));
  return Entries{std::move(*axes), {chosen.begin(), chosen.end()}};
}

// The results of those entries alone. What has no such axis (a gradient of weights) comes from them whole, since the
// output gradients of all others are zero; of very many elements a sample is kept.
std::vector<Expected> expect_entries(const Oracle& whole, const Entries& entries) {
  Oracle few{whole.name,   whole.op, whole.options, sliced(whole.in, entries.axes, entries.chosen.size()), {},
             whole.wanted, {}};
  few.out = few.op.infer(few.in);
  few.out.resize(whole.out.size());
  const auto wide = [&](const Tensor& tensor, Index axis) {
    return tensor.present() ? sliced(tensor, axis, entries.chosen).cast(compute_dtype(tensor.dtype())) : Tensor();
  };
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
  const auto op = registered<operators>(name).make(one.attributes);
  Oracle o{name, *op, options, one.specs(), {}, {}, {}};
  o.out = op->infer(o.in);
  o.out.resize(std::min(o.out.size(), one.outputs));
  for (size_t i = 0; i < o.in.size(); ++i) o.wanted.push_back(one.inputs[i].differentiable && is_float(o.in[i].dtype));

  double terms = 1;
  for (size_t i = 0; i < o.results(); ++i)
    if (!o.backward() || one.inputs[i].differentiable)
      terms = std::max(terms, op->rounding(o.in, options.pass, i).terms);
  const int64_t integers = exact_integer_range(terms, o.in.empty() ? DType::f32 : o.in[0].dtype);

  const bool large = op->cost(o.in, options.pass).flops > options.full_flops;
  const std::optional<Entries> entries = large ? choose_entries(o) : std::nullopt;
  // Whoever computes a few samples alone widens them alone.
  const auto widened = [&](const Tensor& tensor) {
    return entries ? tensor : tensor.cast(compute_dtype(tensor.dtype()));
  };

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
  return problem;
}

}  // namespace d5
