// SPDX-License-Identifier: Apache-2.0
// What one node of a network must give for the inputs it had, by the operator's own loops, and how far a correct kernel
// may be from that. Private to validate.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "d5/backends/tolerance.hpp"

namespace d5 {

struct Wanted {
  std::vector<Index> at;  // flat indices; empty: all
  std::vector<double> values, tolerance;
};

class NodeOracle {
 public:
  NodeOracle(const Node&, const Specs&, const std::map<std::string, Tensor>& values);

  const std::vector<TensorSpec>& inputs() const { return in_; }
  const std::vector<TensorSpec>& outputs() const { return out_; }
  double flops(Pass pass) const { return op_->cost(in_, pass).flops; }

  // Before gradients are asked for: by output, absent where there is none, and which inputs want one.
  void set_output_gradients(const std::vector<Tensor>& gradients, std::vector<bool> wanted);

  // Output `index` or, in a backward pass, the gradient of input `index`.
  Wanted all(size_t index, const Arithmetic&);
  // `count` random elements and the last one. Nothing where the operator cannot give single elements, or has fewer.
  std::optional<Wanted> some(size_t index, const Arithmetic&, size_t count, uint64_t seed);

 private:
  const TensorSpec& result(size_t index, Pass pass) const { return pass == Pass::forward ? out_[index] : in_[index]; }
  void run(Context&, Pass) const;  // what has not run yet
  std::vector<Tensor> allocate(const std::vector<TensorSpec>&, const std::vector<bool>& wanted) const;

  std::unique_ptr<Operator> op_;
  std::vector<TensorSpec> in_, out_;
  std::vector<bool> wanted_;
  Context context_;
  std::optional<Context> absolutes_;  // of the same with absolute values
};

}  // namespace d5
