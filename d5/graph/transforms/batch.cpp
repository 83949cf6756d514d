// SPDX-License-Identifier: Apache-2.0
// Another number of samples: the first size of data inputs, where it is free.
#include <charconv>

#include "d5/graph/sizes.hpp"
#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

class BatchSize final : public Transform {
 public:
  explicit BatchSize(const std::string& value) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), samples_);
    if (error != std::errc() || end != value.data() + value.size() || samples_ < 1)
      throw UsageError("[batch] '{}' is no number of samples of at least 1, as in batch:8", value);
  }
  static constexpr const char* about = "another number of samples in a step: batch:8";
  Graph apply(Graph graph) const override {
    bind_batch(graph, samples_);
    return graph;
  }

 private:
  Index samples_ = 0;
};

}  // namespace
D5_REGISTER(transforms, "batch", BatchSize);
}  // namespace d5
