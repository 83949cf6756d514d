// SPDX-License-Identifier: Apache-2.0
// A case of one operator with its inputs, and what must come out of it by the double-precision oracle.
#pragma once

#include <string>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

enum class InputValues { uniform, normal, integers, nan };
InputValues parse_input_values(std::string_view);

// One output, or the gradient of one input: all of it, or a seeded sample where the whole is too much for plain loops:
// single elements, or all elements of a few samples of a batch (then only these have output gradients that are not 0).
struct Expected {
  std::string value;  // its name in single_node_graph: "y0"; for a gradient the input's, "x1"
  Executable::Role role;
  DType dtype;
  Shape shape;
  Index elements = 0;     // of the whole
  std::vector<Index> at;  // flat indices of the sample; empty: all
  std::vector<double> values, tolerance;
  bool exact = false;  // must agree bit for bit after one rounding to dtype
};

std::string result_name(const Expected&);  // "y0", "gradient of x1"

struct ProblemOptions {
  Pass pass = Pass::forward;
  InputValues inputs = InputValues::uniform;
  Math math = Math::strict;
  bool narrow = false;  // sums are held in the tensors' own type (Executable::narrow_arithmetic)
  uint64_t seed = 1;
  double full_flops = 5e7;  // up to here the oracle computes everything
  size_t sample = 1000;     // beyond: this many elements, and the edges
};

struct Problem {
  Pass pass;
  std::vector<std::pair<std::string, Tensor>> inputs, output_gradients;  // in the case's own types, row-major
  std::vector<Expected> expected;
  std::string doubt = {};  // why they are not to be believed; empty: they are as good as the operator's loops
};

// Backward problems expect the gradients of every differentiable input.
Problem make_problem(const std::string& op, const OperatorCase&, const ProblemOptions&);

// Whether a case can be checked bit for bit on small integers (InputValues::integers).
bool exact_on_integers(const std::string& op, const OperatorCase&, Pass);

void write_inputs(const Problem&, Executable&);
void poison_results(const Problem&, Executable&);  // NaN (or all ones) where results will be

struct CheckResult {
  bool passed = true;
  bool powerless = false;  // nothing that could differ: all zero, or nothing compared
  std::string reason;      // of the failure: the worst element, its place, both values and the tolerance
  double linf = 0, l1 = 0, l2 = 0, linf_relative = 0;
  double worst_share = 0;  // largest |error| / tolerance
  int64_t compared = 0, elements = 0;
};
CheckResult check_results(const Problem&, Executable&);

}  // namespace d5
