// SPDX-License-Identifier: Apache-2.0
// Convolutions work on pieces of the batch: of at most so many samples (micro-batch:8), or as measured times say within
// the limit of the run (micro-batch:auto; micro-batch:side-by-side counts as if every convolution had a workspace of
// its own, by the integer program).
#include "d5/graph/micro_batch.hpp"

#include <charconv>

#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

class MicroBatch final : public Transform {
 public:
  explicit MicroBatch(const std::string& value) {
    if (value == "auto") divide_ = Execution::Division::shared;
    if (value == "side-by-side") divide_ = Execution::Division::side_by_side;
    if (divide_ != Execution::Division::none) return;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), most_);
    if (error != std::errc() || end != value.data() + value.size() || most_ < 1)
      throw UsageError(
          "[micro-batch] '{}' is no number of samples of at least 1, as in micro-batch:8; also legal: auto, "
          "side-by-side",
          value);
  }
  static constexpr const char* about =
      "convolutions on pieces of at most so many samples: micro-batch:8; auto, side-by-side: the fastest pieces within "
      "--arena-limit, by measured times";

  Graph apply(Graph graph) const override {
    if (divide_ != Execution::Division::none) return graph;
    const Specs specs = infer_specs(graph);
    std::map<std::string, std::vector<Index>> pieces;
    for (const Node& node : graph.nodes) {
      if (node.op != "Conv") continue;
      for (Index left = specs.at(node.inputs[0]).shape[0]; left > 0; left -= most_)
        pieces[node.name].push_back(std::min(left, most_));
    }
    return with_micro_batches(std::move(graph), pieces);
  }
  void ask(Execution& execution) const override {
    if (divide_ != Execution::Division::none) execution.divide = divide_;
  }

 private:
  Index most_ = 0;
  Execution::Division divide_ = Execution::Division::none;
};

}  // namespace
D5_REGISTER(transforms, "micro-batch", MicroBatch);
}  // namespace d5
