// SPDX-License-Identifier: Apache-2.0
// A network with its loss, compiled for one number of samples, and fed from batches of a loader. Several of them (whole
// batches, the last short one, the test) share one ParameterSet.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/datasets/loader.hpp"

namespace d5 {

// Which field of a sample goes where.
struct Feed {
  size_t input = 0, target = 1;
};
// The target is the field of that name, "label", "target", "next" or "mask", else the second; the input is the first of
// the others. UsageError where a field does not fit: sizes that differ, more classes than the network has.
Feed choose_feed(const std::vector<Field>&, const Graph& with_loss, const TensorSpec& scores);

class BoundNetwork {
 public:
  // `graph` has its loss; `scores` is kept, for the task's quality. Gradients are those of loss_weight x loss.
  BoundNetwork(const Graph& graph, const std::string& scores, Backend&, ParameterSet&, CompileOptions,
               double loss_weight = 1);

  void feed(const Feed&, const Batch&);  // one copy where the input's layout is row-major
  void forward(Position);
  void backward(bool add_gradients, Observer*);
  void keep_statistics();  // running means and variances of this batch become the set's

  double loss();
  Tensor scores();                                  // f32, row-major, on the host
  const Tensor& target() const { return target_; }  // of the last batch, in the network's type
  const TensorSpec& scores_spec() const { return scores_spec_; }
  Executable& executable() { return *executable_; }

 private:
  struct Place {
    std::string name;
    TensorSpec spec;
    Tensor bound;  // absent: write() converts
  };
  Place place_of(const std::string& name, const TensorSpec&);
  Tensor give(const Place&, const Tensor& from);
  Tensor take(const std::string& name);

  ParameterSet& parameters_;
  std::unique_ptr<Executable> executable_;
  Place input_, target_place_;
  std::string scores_name_;
  TensorSpec scores_spec_;
  std::vector<std::pair<std::string, std::string>> statistics_;  // parameter, output
  Tensor target_;
};

}  // namespace d5
