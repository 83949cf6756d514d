// SPDX-License-Identifier: Apache-2.0
// Level 3, communication: collectives x algorithms x sizes. A plan goes to every rank as one line of JSON; rank 0
// answers with one line for every slice, and the parent makes records of them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "d5/distributed/communicator.hpp"
#include "d5/report/record.hpp"

namespace d5 {

// Algorithms are compared within a group: they run interleaved. "plain": the library in a loop, with nothing of d5
// between; "auto": what tuning on this machine chose; "messages": send and receive of the communicator, beside its
// stream; "windows": its one-sided puts and gets.
struct CommGroup {
  Collective collective = Collective::allreduce;
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
  int64_t bytes = 0;  // of n blocks where there are blocks, as nccl-tests has it; rounded down to whole elements
  int root = 0;
  double density = 1;  // share of elements that are not zero
  std::vector<std::string> algorithms;
  std::string topology = {};  // of neighbour_exchange
};

struct CommPlan {
  std::string communicator = "mpi";
  int ranks = 2, ranks_per_node = 0;  // per node: of threads alone; 0: all
  std::vector<CommGroup> groups;
  int rounds = 4;
  double slice_s = 0.1, time_limit_s = 60;
  uint64_t seed = 1;
};
nlohmann::json to_json(const CommPlan&);
CommPlan comm_plan_from_json(const nlohmann::json&);

// The elements of a group for n ranks, as an operation without buffers. `neighbours` must outlive it.
Operation operation_of(const CommGroup&, int ranks, std::span<const int> neighbours = {});
// With whom a rank exchanges: of a topology in which who sends to a rank also receives from it. Empty: of other
// collectives.
std::vector<int> neighbours_of(const CommGroup&, int ranks, int rank);
const std::vector<std::string>& exchange_topologies();
bool is_direct(Collective);  // from rank to rank: neighbours, messages, windows
// All there are, where the user named none; those that cannot are then left out of the results.
std::vector<std::string> usual_algorithms(const CommGroup&, const std::string& communicator);

// ---- in the ranks: every rank calls it; `tell` is called on rank 0 alone.
using Tell = std::function<void(const nlohmann::json&)>;
void run_comm_plan(Communicator&, const communicators::Entry&, const CommPlan&, const Tell& tell);

// Inputs are small integers, whose sums are exact in every type and order, so one wrong bit shows; a second pass on
// reals is held against a bound on rounding: |error| <= (n + 1) u sum |x|.
class CommCheck {
 public:
  CommCheck(const CommGroup&, const Operation&, int rank, int ranks);
  void fill_exact(void* input) const;
  int64_t wrong_exact(const void* output) const;  // elements; `output` as it lies after the operation
  void fill_real(void* input) const;
  int64_t wrong_real(const void* output) const;

 private:
  double exact(int rank, int64_t i) const;
  double real(int rank, int64_t i) const;
  bool present(int rank, int64_t i) const;
  template <class F>
  double expected(int64_t i, const F& value, double* magnitude) const;
  const CommGroup& group_;
  Operation op_;
  int rank_, ranks_;
  double amplitude_;
  std::vector<std::byte> wanted_;
  std::vector<int64_t> places_;  // of neighbour_exchange: which of its blocks neighbour i sends here
};

// ---- in the parent
struct CommRun {
  nlohmann::json fields;  // what all cases share: communicator, ranks, hosts, ...
  std::vector<std::string> warnings;
  int launches = 0;
  bool all_named = true;  // false: algorithms that cannot are left out
};
// From what rank 0 told in all launches: one record for every group and algorithm, in the order of the plan.
std::vector<Record> comm_records(const CommPlan&, const CommRun&, const std::vector<nlohmann::json>& told);

// Time that no algorithm can beat if a message of b bytes between machines costs alpha + beta b, ranks of one machine
// share its link, and what stays within a machine costs nothing: ceil(log2 m) alpha + f S beta, with f S what must go
// through the link of one of m machines; of one message alpha + S beta. On a single machine every rank stands for one,
// and f is that of the bus bandwidth. `nodes`: the machine of each rank.
double alpha_beta_bound(Collective, std::span<const int> nodes, int root, double bytes, double alpha_s,
                        double beta_s_per_byte);
// Bus bandwidth = bytes / time x this: what links carry if the algorithm is the best there is.
double bus_factor(Collective, int ranks);

}  // namespace d5
