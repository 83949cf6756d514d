// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/metrics/heat_map.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

constexpr Index most_cells = 64;
constexpr int pixel = 8, above = 24;

// From white over yellow and red to black, evenly in the logarithm over six decades; zero is light blue.
std::string colour(double number, double largest) {
  if (number == 0) return "#d8e8f8";
  if (!std::isfinite(number)) return "#ff00ff";
  const double share = std::clamp(1 + std::log10(number / largest) / 6, 0.0, 1.0);
  const auto channel = [&](double from, double to) {
    return static_cast<int>(255 * (1 - std::clamp((share - from) / (to - from), 0.0, 1.0)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0.67, 1.0), channel(0.33, 0.67), channel(0, 0.33));
}

}  // namespace

HeatMap::HeatMap(const Shape& shape)
    : rows_(std::max<Index>(1, shape.rank() > 0 ? shape.elements(0, shape.rank() - 1) : 1)),
      columns_(std::max<Index>(1, shape.rank() > 0 ? shape[shape.rank() - 1] : 1)),
      cell_rows_(std::min(rows_, most_cells)),
      cell_columns_(std::min(columns_, most_cells)),
      cells_(static_cast<size_t>(cell_rows_ * cell_columns_), -1) {}

void HeatMap::add(Index place, double number) {
  // In double: the product of two indices may overflow, and a cell is a rough place.
  const auto part = [](Index i, Index n, Index cells) {
    return std::min(cells - 1,
                    static_cast<Index>(static_cast<double>(i) * static_cast<double>(cells) / static_cast<double>(n)));
  };
  double& cell = cells_[static_cast<size_t>(part(place / columns_, rows_, cell_rows_) * cell_columns_ +
                                            part(place % columns_, columns_, cell_columns_))];
  cell = std::max(cell, std::isnan(number) ? INFINITY : number);
}

double HeatMap::largest() const { return std::max(0.0, *std::ranges::max_element(cells_)); }

std::string HeatMap::svg(const std::string& title) const {
  double scale = 0;
  for (const double cell : cells_)
    if (std::isfinite(cell)) scale = std::max(scale, cell);
  const Index width = std::max<Index>(cell_columns_ * pixel, 480), height = cell_rows_ * pixel + above;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<text x=\"2\" y=\"16\" font-family=\"sans-serif\" font-size=\"12\">{2}: {3} x {4}, largest {5:.3g}</text>\n",
      width, height, title, rows_, columns_, largest());
  for (Index row = 0; row < cell_rows_; ++row)
    for (Index column = 0; column < cell_columns_; ++column) {
      const double cell = cells_[static_cast<size_t>(row * cell_columns_ + column)];
      if (cell < 0) continue;
      text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", column * pixel,
                          row * pixel + above, pixel, pixel, colour(cell, scale));
    }
  return text + "</svg>\n";
}

std::string write_heat_map(const HeatMap& map, const std::string& prefix, const std::string& result,
                           const std::string& title) {
  std::string name = result;
  std::ranges::replace(name, ' ', '-');
  const std::string path = fmt::format("{}-{}.svg", prefix, name);
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream file(path);
  file << map.svg(title + " of " + result);
  if (!file.flush()) throw Error("[heat map] {} cannot be written", path);
  return std::filesystem::path(path).filename().string();
}

}  // namespace d5
