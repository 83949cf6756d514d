// SPDX-License-Identifier: Apache-2.0
// A network with its parameters and inputs, and what must come out of it.
//
// The oracle is the reference backend in double precision. How far rounding may move a result is found by doing the
// same to the oracle: it runs a few times more, and whatever a node has computed, results and gradients, is moved at
// random by up to the error that a correct kernel may make there (operators/operator.hpp). What a result then has
// moved, as a norm, is what rounding may do to it; a few times that is its tolerance. Of integers it is how many become
// others: none where no float leads to them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

struct NetExpected {
  std::string value;  // an output of the graph, or a parameter whose gradient this is
  Executable::Role role;
  Tensor values;         // floats in f64, integers in their own type
  double tolerance = 0;  // of the Euclidean norm of the difference; of integers: how many may differ
};

struct NetProblem {
  std::vector<std::pair<std::string, Tensor>> parameters, inputs, output_gradients;  // in the graph's own types
  std::vector<NetExpected> expected;
};

// Why there is no telling what an input may hold; empty: make_net_inputs() makes values of all.
std::optional<std::string> why_no_inputs(const Graph&);

// Values of parameters and inputs by name and seed; integers stay within what their readers can take. Output gradients
// are one where the network learns. A sample is the same whatever the batch.
NetProblem make_net_inputs(const Graph&, Mode, uint64_t seed);

// Runs the oracle, or finds its results in the cache of the user.
void add_expected(const Graph&, Mode, Math, uint64_t seed, NetProblem&);

// What the executable holds now as what is expected, with the tolerances (in proportion) of a problem of the same
// network: for a batch that is too large for the oracle. Error where something is not finite that was.
NetProblem remembered(const NetProblem& like, Executable&);

void write_values(const NetProblem&, Executable&);

struct NetCheck {
  bool passed = true;
  bool powerless = false;  // rounding alone may move every result by a tenth of itself
  std::string reason;
  std::string not_finite;  // which of the expected results are not, so that nothing can be said of them
  double linf = 0, l1 = 0, l2 = 0;
  double worst_share = 0;  // largest |error| / tolerance, as norms
  int64_t compared = 0;
  int64_t integers = 0, integers_off = 0;  // of those: integers, and how many differ
  double integers_may_be_off = 0;
};
// The first rows of outputs where the executable has a larger batch than the problem.
NetCheck check_network(const NetProblem&, Executable&);

double finite_norm(const Tensor&);              // of doubles: the Euclidean norm of those that are finite
Index differing(const Tensor&, const Tensor&);  // elements, of tensors of one type and shape

}  // namespace d5
