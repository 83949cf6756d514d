// SPDX-License-Identifier: Apache-2.0
// HOW a collective is carried out. An algorithm is one file that ends with D5_REGISTER(algorithms, "ring", Ring); it is
// written over Ranks and serves every communicator.
#pragma once

#include <functional>
#include <optional>

#include "d5/core/registry.hpp"
#include "d5/distributed/ranks.hpp"

namespace d5 {

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual std::string about() const = 0;
  virtual std::optional<std::string> why_not(const Operation&, const Ranks&) const = 0;
  virtual void run(const Operation&, const Ranks&) const = 0;  // by all ranks at once, with two ranks or more
};

struct algorithms {
  static constexpr const char* kind = "algorithm";
  using Entry = std::shared_ptr<const Algorithm>;
  template <class T>
  static Entry entry() {
    return std::make_shared<const T>();
  }
};

// Runs it by name. Sizes of one rank are copied; UsageError where the algorithm cannot.
void run_algorithm(std::string_view name, const Operation&, const Ranks&);
void run_algorithm(const Algorithm&, const Operation&, const Ranks&);

// What every rank of a collective does of it when it is alone.
void run_alone(const Operation&);

}  // namespace d5
