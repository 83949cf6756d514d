// SPDX-License-Identifier: Apache-2.0
// Changes of a network that leave its results as they are (up to rounding), by name: --transform
// dead-code,precision:bf16. One file each in graph/transforms/; it ends with one line, D5_REGISTER(transforms,
// "dead-code", DeadCode);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Graph apply(Graph) const = 0;
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

}  // namespace d5
