// SPDX-License-Identifier: Apache-2.0
// A picture of one number per element of a tensor: rows are all axes but the last, columns the last; at most 64 x 64
// cells, each the largest number in it. Written as SVG, with its scale in the title. Inner part of metrics/.
#pragma once

#include <string>
#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

class HeatMap {
 public:
  explicit HeatMap(const Shape& shape);
  void add(Index place, double number);  // of the element at this flat index; NaN counts as infinite
  double largest() const;
  std::string svg(const std::string& title) const;

 private:
  Index rows_, columns_, cell_rows_, cell_columns_;
  std::vector<double> cells_;  // negative: nothing was added
};

// "gradient of x1" -> PREFIX-gradient-of-x1.svg; gives the name of the file without its folder. Error where it cannot
// be written.
std::string write_heat_map(const HeatMap&, const std::string& prefix, const std::string& result,
                           const std::string& title);

}  // namespace d5
