// SPDX-License-Identifier: Apache-2.0
// What must come out of a case, by the operator's own loops: all of it, single elements, or a few samples of a batch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "d5/bench/problem.hpp"
#include "d5/core/rng.hpp"

namespace d5 {

struct Oracle {
  const std::string& name;
  const Operator& op;
  const ProblemOptions& options;
  std::vector<TensorSpec> in, out;
  std::vector<bool> wanted;  // gradients of inputs
  Context context;           // inputs and output gradients
  std::string doubt = {};    // why the loops are not to be believed: a result differs from run to run

  bool backward() const { return options.pass == Pass::backward; }
  size_t results() const { return backward() ? in.size() : out.size(); }
  bool is_wanted(size_t i) const { return !backward() || (in[i].present && wanted[i]); }
  const TensorSpec& result(size_t i) const { return backward() ? in[i] : out[i]; }
};

// Integers from -range to range are small enough that a sum of `terms` products of them stays exact in the accumulator.
// 0: not even ones are.
int64_t exact_integer_range(double terms, std::span<const TensorSpec> in);
// Whether that result is free of rounding on such integers.
bool exact_on_integers(const Operator&, std::span<const TensorSpec> in, Pass, size_t result);

// A seeded sample without the bias of a stride, plus the ends of every axis. Empty: there are no more than `count`.
std::vector<Index> sample_indices(const Shape&, size_t count, const Rng&);

// Every result as the operator's loops give it. Those of a user run twice: what they leave out is not the same then.
std::vector<Expected> expect_whole(Oracle&);

// Forward, and backward where gradients are wanted, by the operator's own loops, into tensors of the context, which are
// full of `poison` before. Error where they do not make what infer() promised, write beside it or into what they read.
void run_loops(const Oracle&, Context&, unsigned char poison = 0xff);

// Where code of a user computes: a tensor with wide guards.
Tensor widely_guarded(const Tensor&);

// The scale of errors in result i, elementwise: what its rounding is relative to. The context holds inputs and results.
// `of_absolutes` keeps what several results share.
Tensor error_scale(const Oracle&, size_t i, std::optional<Context>& of_absolutes);

// A seeded sample of every result, where the operator can give single elements. Leaves absolute values in the context.
std::optional<std::vector<Expected>> expect_elements(Oracle&);

// ---- a few samples of a batch
struct Entries {
  Operator::Batch axes;
  std::vector<Index> chosen;  // in order

  Index input_axis(size_t i) const { return axes.inputs.at(i); }
  Index output_axis(size_t i) const { return axes.outputs.at(i); }
  Index result_axis(size_t i, Pass pass) const { return pass == Pass::backward ? input_axis(i) : output_axis(i); }
};

// Which entries of the batch are computed: a few that the loops can afford, at most half of them. Empty: no batch.
std::optional<Entries> choose_entries(const Oracle&);
Tensor zero_elsewhere(const Tensor&, Index axis, const std::vector<Index>& chosen);

// The results of those entries alone; the context holds the whole in its own types. What has no such axis (a gradient
// of weights) comes from them whole, since the output gradients of all others must be zero.
std::vector<Expected> expect_entries(const Oracle&, const Entries&);

}  // namespace d5
