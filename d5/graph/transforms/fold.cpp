// SPDX-License-Identifier: Apache-2.0
// Computes before the run what can be (graph/fold.hpp).
#include "d5/graph/fold.hpp"

#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

class Fold final : public Transform {
 public:
  explicit Fold(const std::string& value) {
    if (!value.empty()) throw UsageError("[fold] it takes no value; '{}' was given", value);
  }
  static constexpr const char* about = "computes before the run what depends on constants and sizes alone";
  Graph apply(Graph graph) const override {
    fold_constants(graph);
    return graph;
  }
};

}  // namespace
D5_REGISTER(transforms, "fold", Fold);
}  // namespace d5
