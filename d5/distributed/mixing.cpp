// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/mixing.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

int torus_rows(int ranks) {
  int rows = static_cast<int>(std::sqrt(static_cast<double>(ranks)));
  while (rows > 1 && ranks % rows != 0) --rows;
  return rows;
}

int power_phases(int ranks) {
  int phases = 0;
  while ((1 << phases) < ranks) ++phases;
  return std::max(phases, 1);
}

std::set<int> neighbours(const std::string& topology, int ranks, int rank, Index step) {
  const auto back = [&](int distance) { return ((rank - distance) % ranks + ranks) % ranks; };
  std::set<int> found;
  if (topology == "ring") {
    found = {back(1), back(-1)};
  } else if (topology == "torus") {
    const int rows = torus_rows(ranks), columns = ranks / rows, row = rank / columns, column = rank % columns;
    for (const int d : {1, -1}) {
      found.insert((row + d + rows) % rows * columns + column);
      found.insert(row * columns + (column + d + columns) % columns);
    }
  } else if (topology == "exponential") {
    for (int distance = 1; distance < ranks; distance *= 2) found.insert(back(distance));
  } else {
    found = {back(1 << (step % power_phases(ranks)))};
  }
  found.erase(rank);
  return found;
}

void check(const std::string& topology, int ranks, int rank) {
  if (std::ranges::find(topologies(), topology) == topologies().end())
    fail_unknown("[mixing]", "topology", topology, topologies());
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw UsageError("[mixing] rank {} of {}; legal: 0 to ranks - 1, of at least 1", rank, ranks);
  if (topology == "torus" && torus_rows(ranks) < 2)
    throw UsageError(
        "[mixing] a torus of {} ranks has one row; legal: ranks that are a product of two numbers above 1 "
        "(4, 6, 8, 9, ...), or the topology ring",
        ranks);
}

}  // namespace

const std::vector<std::string>& topologies() {
  static const std::vector<std::string> names{"ring", "torus", "exponential", "one-peer"};
  return names;
}

int mixing_phases(const std::string& topology, int ranks) { return topology == "one-peer" ? power_phases(ranks) : 1; }

std::vector<MixingWeight> mixing_row(const std::string& topology, int ranks, int rank, Index step) {
  check(topology, ranks, rank);
  const std::set<int> others = neighbours(topology, ranks, rank, step);
  const double weight = 1 / static_cast<double>(others.size() + 1);
  std::vector<MixingWeight> row{{rank, weight}};
  for (const int other : others) row.push_back({other, weight});
  return row;
}

std::vector<int> mixing_receivers(const std::string& topology, int ranks, int rank, Index step) {
  check(topology, ranks, rank);
  std::vector<int> receivers;
  for (int other = 0; other < ranks; ++other)
    if (neighbours(topology, ranks, other, step).contains(rank)) receivers.push_back(other);
  return receivers;
}

}  // namespace d5
