// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "d5/bench/comm.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/mixing.hpp"

namespace d5 {

using Json = nlohmann::json;

Json to_json(const CommPlan& plan) {
  Json groups = Json::array();
  for (const CommGroup& g : plan.groups)
    groups.push_back({{"collective", name(g.collective)},
                      {"dtype", name(g.dtype)},
                      {"reduction", name(g.reduction)},
                      {"bytes", g.bytes},
                      {"root", g.root},
                      {"density", g.density},
                      {"topology", g.topology},
                      {"algorithms", g.algorithms}});
  return {{"communicator", plan.communicator},
          {"ranks", plan.ranks},
          {"ranks_per_node", plan.ranks_per_node},
          {"groups", groups},
          {"rounds", plan.rounds},
          {"slice_s", plan.slice_s},
          {"time_limit_s", plan.time_limit_s},
          {"seed", plan.seed}};
}

CommPlan comm_plan_from_json(const Json& json) {
  CommPlan plan;
  plan.communicator = json.at("communicator");
  plan.ranks = json.at("ranks");
  plan.ranks_per_node = json.at("ranks_per_node");
  plan.rounds = json.at("rounds");
  plan.slice_s = json.at("slice_s");
  plan.time_limit_s = json.at("time_limit_s");
  plan.seed = json.at("seed");
  for (const Json& g : json.at("groups"))
    plan.groups.push_back({parse_collective(g.at("collective").get<std::string>()),
                           parse_dtype(g.at("dtype").get<std::string>()),
                           parse_reduction(g.at("reduction").get<std::string>()), g.at("bytes"), g.at("root"),
                           g.at("density"), g.at("algorithms").get<std::vector<std::string>>(), g.at("topology")});
  return plan;
}

Operation operation_of(const CommGroup& group, int ranks, std::span<const int> neighbours) {
  Operation op{.collective = group.collective,
               .count = group.bytes / storage_bytes(group.dtype, 1),
               .dtype = group.dtype,
               .reduction = group.reduction,
               .root = group.root,
               .neighbours = neighbours};
  if (!neighbours.empty())
    op.count /= static_cast<int64_t>(neighbours.size());
  else if (total_bytes(op, ranks) > storage_bytes(op.dtype, op.count))
    op.count /= ranks;
  return op;
}

std::vector<int> neighbours_of(const CommGroup& group, int ranks, int rank) {
  std::vector<int> others;
  if (group.collective != Collective::neighbour_exchange) return others;
  for (const MixingWeight& other : mixing_row(group.topology, ranks, rank, 0))
    if (other.rank != rank) others.push_back(other.rank);
  return others;
}

const std::vector<std::string>& exchange_topologies() {
  static const std::vector<std::string> names{"ring", "torus"};
  return names;
}

bool is_direct(Collective collective) {
  switch (collective) {
    case Collective::neighbour_exchange:
    case Collective::send:
    case Collective::send_receive:
    case Collective::put:
    case Collective::get: return true;
    default: return false;
  }
}

std::vector<std::string> usual_algorithms(const CommGroup& group, const std::string& communicator) {
  if (group.collective == Collective::put || group.collective == Collective::get) return {"windows"};
  std::vector<std::string> names;
  if (communicator == "mpi") names = {"plain", "library"};
  for (const std::string& algorithm : registry_names(algorithms::kind))
    if (algorithm != "library" && (algorithm != "sparse" || group.density < 1)) names.push_back(algorithm);
  if (is_direct(group.collective)) names.push_back("messages");
  return names;
}

double bus_factor(Collective collective, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  switch (collective) {
    case Collective::allreduce: return 2 * part;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::barrier: return 1;
    default: return is_direct(collective) ? 1 : part;
  }
}

namespace {

// Of the bytes of all ranks: what goes through the link of the machine that has most to do. `machines`: ranks of each.
double link_factor(Collective collective, const std::vector<double>& machines, double of_root) {
  const auto m = static_cast<double>(machines.size());
  const double n = std::accumulate(machines.begin(), machines.end(), 0.0), least = std::ranges::min(machines);
  switch (collective) {
    case Collective::allreduce: return 2 * (m - 1) / m;
    case Collective::allgather:
    case Collective::reduce_scatter: return (n - least) / n;
    case Collective::gather:
    case Collective::scatter: return (n - of_root) / n;
    case Collective::all_to_all: {
      double most = 0;
      for (const double ranks : machines) most = std::max(most, ranks * (n - ranks) / n);
      return most;
    }
    default: return 1;
  }
}

}  // namespace

double alpha_beta_bound(Collective collective, std::span<const int> nodes, int root, double bytes, double alpha_s,
                        double beta_s_per_byte) {
  if (nodes.size() < 2) return 0;
  if (is_direct(collective)) return alpha_s + bytes * beta_s_per_byte;
  std::vector<double> machines(static_cast<size_t>(std::ranges::max(nodes)) + 1);
  for (const int node : nodes) ++machines[static_cast<size_t>(node)];
  double of_root = machines[static_cast<size_t>(nodes[static_cast<size_t>(root)])];
  if (machines.size() == 1) {
    machines.assign(nodes.size(), 1.0);
    of_root = 1;
  }
  int steps = 0;
  while (size_t{1} << steps < machines.size()) ++steps;
  return steps * alpha_s + link_factor(collective, machines, of_root) * bytes * beta_s_per_byte;
}

}  // namespace d5
