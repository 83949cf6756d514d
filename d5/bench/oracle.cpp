// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "d5/backends/tolerance.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/origin.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

void make_absolute(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.present() || tensor.dtype() != DType::f64) continue;
    const auto values = tensor.values<double>();
    parallel_for(tensor.elements(), 1 << 16, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) values[static_cast<size_t>(i)] = std::abs(values[static_cast<size_t>(i)]);
    });
  }
}

std::vector<Tensor> allocate(const std::vector<TensorSpec>& specs, const std::vector<bool>& wanted, Memory& memory,
                             unsigned char poison) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i) {
    const DType type = compute_dtype(specs[i].dtype);
    tensors.push_back(specs[i].present && wanted[i] ? Tensor(type, specs[i].shape, memory) : Tensor());
    if (tensors.back().present() && type != DType::string) tensors.back().fill_bytes(poison);
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

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.present() ? tensor.clone() : Tensor());
  return all;
}

// What the loops read must be what it was, and so must the bytes around it.
void check_read(const std::string& op, const std::vector<Tensor>& before, const std::vector<Tensor>& after,
                const char* what) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (!after[i].present()) continue;
    if (const std::string how = overrun(after[i]); !how.empty())
      throw Error("[{}] wrote {} of {} {}", op, how, what, i);
    if (std::memcmp(before[i].data(), after[i].data(), after[i].bytes()) != 0)
      throw Error("[{}] changed {} {}: it may only read it", op, what, i);
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
    o.backward() ? o.op.backward_at(o.context, index, at.subspan(begin, count), to)
                 : o.op.forward_at(o.context, index, at.subspan(begin, count), to);
  });
  return values;
}

Arithmetic arithmetic(const Oracle& o) { return {o.options.pass, o.options.math, o.options.narrow}; }

Expected expect_nothing_yet(const Oracle& o, size_t index) {
  const TensorSpec& spec = o.result(index);
  const bool backward = o.backward();
  Expected e{.value = (backward ? "x" : "y") + std::to_string(index),
             .role = backward ? Executable::Role::gradient : Executable::Role::value,
             .dtype = spec.dtype,
             .shape = spec.shape,
             .elements = spec.elements()};
  e.exact = !is_float(spec.dtype) ||
            (o.options.inputs == InputValues::integers && exact_on_integers(o.op, o.in, o.options.pass, index) &&
             bits(accumulator(arithmetic(o), o.in, spec.dtype)) >= 32);
  return e;
}

void set_tolerance(const Oracle& o, size_t index, std::span<const double> magnitude, std::span<const double> kept,
                   Expected& e) {
  e.tolerance = e.exact ? std::vector<double>(e.values.size())
                        : tolerances(o.op, o.in, index, e.dtype, arithmetic(o), e.values, magnitude, kept);
}

}  // namespace

int64_t exact_integer_range(double terms, std::span<const TensorSpec> in) {
  const double most = !in.empty() && in[0].dtype == DType::f64 ? 0x1p53 : 0x1p24;
  for (const int64_t range : {4, 2, 1})
    if (static_cast<double>(range * range) * terms < most) return range;
  return 0;
}

bool exact_on_integers(const Operator& op, std::span<const TensorSpec> in, Pass pass, size_t result) {
  const Rounding rounding = op.rounding(in, pass, result);
  return rounding.exact && exact_integer_range(rounding.terms, in) > 0;
}

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

Tensor widely_guarded(const Tensor& tensor) {
  Tensor guarded(tensor.dtype(), tensor.shape(), widely_guarded_memory());
  guarded.copy_from(tensor);
  return guarded;
}

void run_loops(const Oracle& o, Context& c, unsigned char poison) {
  const bool users = is_users<operators>(o.name);
  Memory& memory = users ? widely_guarded_memory() : guarded_memory();
  const std::vector<Tensor> inputs = users ? copies(c.inputs) : c.inputs;
  const std::vector<Tensor> gradients = users ? copies(c.output_gradients) : c.output_gradients;
  c.outputs = allocate(o.out, std::vector<bool>(o.out.size(), true), memory, poison);
  o.op.forward(c);
  check_made(o.name, o.out, c.outputs, "output");
  if (o.backward()) {
    c.input_gradients = allocate(o.in, o.wanted, memory, poison);
    o.op.backward(c);
    check_made(o.name, o.in, c.input_gradients, "the gradient of input");
  }
  if (!users) return;
  check_read(o.name, inputs, c.inputs, "input");
  check_read(o.name, gradients, c.output_gradients, "the gradient of output");
}

namespace {

// The first element that two runs on the same inputs give differently. What is NaN says enough by itself, and a sum may
// be taken in another order.
std::string difference_of_runs(const Oracle& o, const Context& first, const Context& second) {
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.is_wanted(i)) continue;
    const std::vector<double> a = doubles(o.backward() ? first.input_gradient(i) : first.output(i)),
                              b = doubles(o.backward() ? second.input_gradient(i) : second.output(i));
    const double share = is_float(o.result(i).dtype) ? 1e-6 : 0;
    for (size_t at = 0; at < a.size(); ++at) {
      if (std::isnan(a[at]) || a[at] == b[at]) continue;
      if (std::abs(a[at] - b[at]) <= share * std::max(std::abs(a[at]), std::abs(b[at]))) continue;
      return fmt::format("{}{}[{}] differs between two runs on the same inputs: never written, or random?",
                         o.backward() ? "gradient of x" : "y", i, at);
    }
  }
  return {};
}

}  // namespace

Tensor error_scale(const Oracle& o, size_t i, std::optional<Context>& of_absolutes) {
  const Tensor magnitude = o.op.magnitude(o.context, o.options.pass, i);
  if (magnitude.present()) return magnitude;
  if (!is_float(o.result(i).dtype)) return o.backward() ? o.context.input_gradient(i) : o.context.output(i);
  // Sums of products: the scale of errors is the operator applied to absolute values.
  if (!of_absolutes) {
    of_absolutes = absolute_context(o.context);
    run_loops(o, *of_absolutes);
  }
  return o.backward() ? of_absolutes->input_gradient(i) : of_absolutes->output(i);
}

std::vector<Expected> expect_whole(Oracle& o) {
  run_loops(o, o.context);
  if (is_users<operators>(o.name)) {
    Context again{.inputs = o.context.inputs,
                  .output_gradients = o.context.output_gradients,
                  .input_types = o.context.input_types};
    run_loops(o, again, 0x5a);
    o.doubt = difference_of_runs(o, o.context, again);
  }
  o.context.round_off = round_off(accumulator(arithmetic(o), o.in, DType::f32));
  std::vector<Expected> all;
  std::optional<Context> of_absolutes;
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.is_wanted(i)) continue;
    const Tensor magnitude = error_scale(o, i, of_absolutes);
    Expected e = expect_nothing_yet(o, i);
    e.values = doubles(o.backward() ? o.context.input_gradient(i) : o.context.output(i));
    const Tensor kept = o.op.stored_magnitude(o.context, o.options.pass, i, e.dtype);
    set_tolerance(o, i, doubles(magnitude), kept.present() ? doubles(kept) : std::vector<double>(), e);
    all.push_back(std::move(e));
  }
  return all;
}

std::optional<std::vector<Expected>> expect_elements(Oracle& o) {
  const std::vector<Index> first{0};
  std::vector<double> value(1);
  std::vector<size_t> indices;
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.is_wanted(i)) continue;
    if (!(o.backward() ? o.op.backward_at(o.context, i, first, value) : o.op.forward_at(o.context, i, first, value)))
      return {};
    indices.push_back(i);
  }
  std::vector<Expected> all;
  for (const size_t i : indices) {
    Expected e = expect_nothing_yet(o, i);
    e.at = sample_indices(e.shape, o.options.sample, Rng(o.options.seed, stream_of("sample") + i));
    if (e.at.empty())
      for (Index at = 0; at < e.elements; ++at) e.at.push_back(at);
    e.values = elements_at(o, i, e.at);
    all.push_back(std::move(e));
  }
  // First all values, then all magnitudes: in between the context becomes its absolute values in place, because these
  // tensors may be most of the memory.
  make_absolute(o.context.inputs);
  make_absolute(o.context.output_gradients);
  for (size_t k = 0; k < indices.size(); ++k)
    set_tolerance(o, indices[k], all[k].exact ? all[k].values : elements_at(o, indices[k], all[k].at), {}, all[k]);
  return all;
}

}  // namespace d5
