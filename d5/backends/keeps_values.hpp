// SPDX-License-Identifier: Apache-2.0
// An Executable may also be a KeepsValues: it moves values of a run into parameters itself (running statistics), so
// that on a device they do not pass through the host.
#pragma once

#include <span>
#include <string>
#include <utility>

namespace d5 {

class KeepsValues {
 public:
  virtual ~KeepsValues() = default;
  // Each parameter becomes the value that the last forward made, both by name. Copies may still be under way on return.
  virtual void keep_values(std::span<const std::pair<std::string, std::string>> parameters_and_values,
                           int slot = 0) = 0;
};

}  // namespace d5
