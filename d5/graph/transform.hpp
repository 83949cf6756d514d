// SPDX-License-Identifier: Apache-2.0
// Changes of a network that leave its results as they are (up to rounding), by name: --transform
// dead-code,precision:bf16. One file each in graph/transforms/; it ends with one line, D5_REGISTER(transforms,
// "dead-code", DeadCode). What a graph alone cannot say, a transform asks of whoever compiles it (Execution).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

struct Execution {
  bool fuse = true;
  std::optional<size_t> tile_cache;  // bytes that steps on a few samples may count on; 0: no such steps
  // Values are computed again in backward, so that memory stays within the limit of the run, or within these bytes.
  bool recompute = false;
  size_t recompute_bytes = 0;
  // Convolutions are divided by measured times within the limit of the run (graph/micro_batch.hpp).
  enum class Division { none, shared, side_by_side } divide = Division::none;
  // A step is several of fewer samples whose gradients are added up; 0 samples: as many as the limit allows.
  bool split = false;
  Index split_samples = 0;
};

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Graph apply(Graph graph) const { return graph; }
  virtual void ask(Execution&) const {}
};

struct transforms {
  static constexpr const char* kind = "transform";
  struct Entry {
    std::string about;
    std::function<std::unique_ptr<Transform>(const std::string& value)> make;  // UsageError on a value it cannot take
  };
  template <class T>
  static Entry entry() {
    return {T::about,
            [](const std::string& value) -> std::unique_ptr<Transform> { return std::make_unique<T>(value); }};
  }
};

// "name" or "name:value", several separated by commas, one after the other. UsageError names the unknown one.
Graph transformed(Graph, const std::string& names);
// What they ask for beside the graph.
Execution execution_of(const std::string& names);

}  // namespace d5
