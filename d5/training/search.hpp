// SPDX-License-Identifier: Apache-2.0
// Search for good values by trials. A method works on points of a unit cube; what a coordinate means is the caller's
// business (runner/search.hpp). Its answer is a function of the seed and of the trials so far, so that a search which
// was cut off goes on from its records. One file per method in searches/; it ends with
// D5_REGISTER(search_methods, "tpe", Tpe); the class has static members about and parameters().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/core/rng.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

struct Dimension {
  Index choices = 0;    // 0: any number from 0 to 1; else choice i is the interval [i, i + 1) / choices
  bool ordered = true;  // neighbours are alike
};
using Point = std::vector<double>;  // a coordinate from 0 to 1 for each dimension

struct Trial {
  Point point;
  double budget = 1;           // share of a whole training
  std::optional<double> cost;  // less is better, infinity: it failed; empty: under way
};

struct SearchSettings {
  std::vector<Dimension> space;
  Index trials = 0;  // how many; 0: the method's own number
  uint64_t seed = 1;
  Attributes values;  // the method's own
};

class SearchMethod {
 public:
  struct Next {
    enum class Kind { trial, wait, done } kind = Kind::done;  // wait: for trials that are under way
    Point point = {};
    double budget = 1;
  };
  virtual ~SearchMethod() = default;
  virtual Next next(std::span<const Trial> so_far) const = 0;
};

struct search_methods {
  static constexpr const char* kind = "search method";
  struct Entry {
    std::string about;
    std::vector<Parameter> parameters;
    std::function<std::unique_ptr<SearchMethod>(const SearchSettings&)> make;
  };
  template <class T>
  static Entry entry() {
    return {T::about, T::parameters(), [](const SearchSettings& settings) -> std::unique_ptr<SearchMethod> {
              return std::make_unique<T>(settings);
            }};
  }
};

// UsageError on unknown names and values, and where the method cannot work with them.
std::unique_ptr<SearchMethod> make_search(std::string_view method, SearchSettings);

// A point of which every coordinate is random; number `index` of this stream.
Point random_point(const std::vector<Dimension>& space, const Rng&, uint64_t index);
Index choice_of(const Dimension&, double coordinate);
double coordinate_of(const Dimension&, Index choice);  // the middle of its interval

}  // namespace d5
