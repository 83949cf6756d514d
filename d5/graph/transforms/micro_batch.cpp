// SPDX-License-Identifier: Apache-2.0
// Every convolution works on pieces of at most so many samples: micro-batch:8.
#include <charconv>

#include "d5/graph/micro_batch.hpp"
#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

class MicroBatch final : public Transform {
 public:
  explicit MicroBatch(const std::string& value) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), most_);
    if (error != std::errc() || end != value.data() + value.size() || most_ < 1)
      throw UsageError("[micro-batch] '{}' is no number of samples of at least 1, as in micro-batch:8", value);
  }
  static constexpr const char* about = "convolutions on pieces of at most so many samples: micro-batch:8";

  Graph apply(Graph graph) const override {
    const Specs specs = infer_specs(graph);
    std::map<std::string, std::vector<Index>> pieces;
    for (const Node& node : graph.nodes) {
      if (node.op != "Conv") continue;
      for (Index left = specs.at(node.inputs[0]).shape[0]; left > 0; left -= most_)
        pieces[node.name].push_back(std::min(left, most_));
    }
    return with_micro_batches(std::move(graph), pieces);
  }

 private:
  Index most_ = 0;
};

}  // namespace
D5_REGISTER(transforms, "micro-batch", MicroBatch);
}  // namespace d5
