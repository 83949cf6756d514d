// SPDX-License-Identifier: Apache-2.0
// A formula bound to a parameter set and run over a part of its arena: one pass over memory, and before it one for
// norms, where there are any (one more for norms of what depends on norms); a few parameters at a time, so that the
// small ones are still in the cache when they are updated. Threads take parts of the arena; every
// element is computed alone and sums are made of fixed chunks, so that neither threads nor ranges change a bit. The
// rounding and denormal mode of the calling thread holds in all of them. In 16 bits the gradient is widened on the way
// in, and the parameter is written to both regions. Parameters that are not trainable stay as they are. On a device
// programs run there (device_loop.hpp), in f32; what is one in all or one a parameter is computed here, so that norms
// make the host wait.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "d5/core/parameter_set.hpp"
#include "d5/training/formula.hpp"
#include "d5/training/program.hpp"

namespace d5 {

class DeviceLoop;

// States by name, of a part of the arena: formulas of one optimizer share them.
class UpdateState {
 public:
  explicit UpdateState(ParameterSet& set) : UpdateState(set, set.all()) {}
  UpdateState(ParameterSet& set, ParameterSet::Range part) : set_(&set), part_(part) {}
  Tensor find_or_make(const Formula::Slot&);
  struct Entry {
    std::string name;
    Tensor values;
    bool like_parameters;
  };
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their making
  ParameterSet::Range part() const { return part_; }

 private:
  ParameterSet* set_;
  ParameterSet::Range part_;
  std::vector<Entry> entries_;
};

class Update {
 public:
  using PerParameter = std::function<double(std::string_view name, const ParameterSet::Parameter&)>;
  using MakeLoop = std::function<std::unique_ptr<Loop>(const Program&)>;
  // The set and the states outlive it. CannotRun where the parameters are on a device that runs no formulas.
  Update(const Formula&, ParameterSet&, UpdateState&, const PerParameter&, const MakeLoop& = make_loop);

  void set(std::string_view scalar, double value);  // one that the formula does not use is ignored
  void run(ParameterSet::Range);                    // Error where a norm would be of a part, or there is no state

  bool uses_norms() const { return uses_norms_; }  // a range is made of whole parameters
  bool needs_all() const { return needs_all_; }    // a range is the whole arena
  bool assigns() const { return assigns_; }

 private:
  struct Pass {
    Program program;
    std::shared_ptr<const Loop> loop;    // on the host
    std::shared_ptr<DeviceLoop> device;  // or where the parameters are
    std::vector<int> norms;              // the nodes that it makes
    std::vector<int> squared;            // on the host: the stream that each of them is of
  };
  struct Piece {  // a part of a parameter
    size_t parameter;
    Index first, count;
  };
  using Pieces = std::span<const Piece>;
  struct Scratch;
  void make_passes(const Formula&, std::span<const int> stream_of, const std::vector<std::vector<int>>& norms,
                   std::vector<Wanted> stores, const MakeLoop&);
  std::vector<Piece> pieces(ParameterSet::Range) const;
  double value(int node, size_t parameter) const;
  void evaluate_uniforms(Pieces);
  std::vector<float> table(const Pass&, Pieces) const;
  template <class Done>
  void run_blocks(const Pass&, const Piece&, const float* numbers, Scratch&, Done) const;
  std::vector<double> squares_on_host(const Pass&, Pieces) const;
  template <class Call>
  auto on_device(const Pass&, Pieces, Call) const;
  void sum_norms(const Pass&, Pieces);
  void store(Pieces);
  size_t group(Pieces) const;

  ParameterSet* set_;
  std::vector<Formula::Node> nodes_;
  std::vector<int> stage_;  // of nodes: how many passes for norms come before
  std::vector<std::string> names_;
  std::vector<double> scalars_;  // by name
  struct ScalarState {
    Tensor values;
    int node;  // what is assigned
  };
  std::vector<ScalarState> scalar_states_;                              // by slot
  std::vector<std::vector<double>> per_parameter_;                      // by name, then by parameter
  std::vector<double> all_;                                             // by node: numbers that are one in all
  std::vector<std::vector<double>> each_;                               // by node: numbers that are one a parameter
  std::vector<float*> streams_;                                         // parameter, gradient (null in 16 bits), states
  std::byte *narrow_gradients_ = nullptr, *narrow_computes_ = nullptr;  // in 16 bits
  ParameterSet::Range part_;                                            // that states are of
  std::vector<Pass> norm_passes_;
  Pass last_;
  bool uses_norms_ = false, needs_all_ = false, assigns_ = false;
};

}  // namespace d5
