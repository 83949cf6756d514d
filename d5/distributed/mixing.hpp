// SPDX-License-Identifier: Apache-2.0
// Who mixes with whom, and how much: rows of doubly stochastic matrices. Every rank of a topology has equally many
// neighbours, and a rank and its neighbours count the same: 1 / (neighbours + 1).
//   ring         r - 1, r + 1
//   torus        the four beside it in a grid as near to a square as can be, which closes at its edges
//   exponential  r - 1, r - 2, r - 4, ... (Ying et al., 2021): a message reaches everyone in log2 n steps
//   one-peer     of these the next one in every step: r - 2^(step mod ceil(log2 n))
#pragma once

#include <string>
#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

struct MixingWeight {
  int rank;
  double weight;
};
const std::vector<std::string>& topologies();
// Row `rank` of the matrix of this step: from whom, itself included. UsageError where the topology cannot have so many.
std::vector<MixingWeight> mixing_row(const std::string& topology, int ranks, int rank, Index step);
// To whom it goes: the ranks in whose rows it is, without itself.
std::vector<int> mixing_receivers(const std::string& topology, int ranks, int rank, Index step);
int mixing_phases(const std::string& topology, int ranks);  // the matrix of step s is that of s mod this

}  // namespace d5
