// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/resample.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace d5 {
namespace {

struct Taps {
  Index first = 0, count = 0;
  size_t weights = 0;  // where they begin
};
struct Filter {
  std::vector<Taps> taps;
  std::vector<float> weights;
};

void make_filter(double begin, double size, Index of, Index count, Filter& filter) {
  filter.taps.clear();
  filter.weights.clear();
  const double step = size / static_cast<double>(count), reach = std::max(step, 1.0);
  for (Index i = 0; i < count; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * step;
    const auto first = std::clamp<Index>(static_cast<Index>(centre - reach + 0.5), 0, of - 1);
    const auto last = std::clamp<Index>(static_cast<Index>(centre + reach + 0.5), first + 1, of);
    Taps one{first, last - first, filter.weights.size()};
    double sum = 0;
    for (Index x = first; x < last; ++x) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(x) + 0.5 - centre) / reach);
      filter.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    if (sum <= 0) filter.weights[one.weights] = 1, sum = 1;
    for (Index k = 0; k < one.count; ++k)
      filter.weights[one.weights + static_cast<size_t>(k)] /= static_cast<float>(sum);
    filter.taps.push_back(one);
  }
}

}  // namespace

template <class T>
void resample(const Planes<T>& from, const Area& area, T* to, Index new_height, Index new_width) {
  thread_local Filter rows, columns;
  thread_local std::vector<float> line;  // of the source, once its rows are summed
  make_filter(area.top, area.height, from.height, new_height, rows);
  make_filter(area.left, area.width, from.width, new_width, columns);
  line.resize(static_cast<size_t>(from.width));
  for (Index plane = 0; plane < from.count; ++plane)
    for (const Taps& row : rows.taps) {
      std::ranges::fill(line, 0.0f);
      float* const sum = line.data();
      for (Index k = 0; k < row.count; ++k) {
        const T* const pixels = from.pixels + plane * from.plane + (row.first + k) * from.line;
        const float weight = rows.weights[row.weights + static_cast<size_t>(k)];
        for (Index x = 0; x < from.width; ++x) sum[x] += weight * static_cast<float>(pixels[x]);
      }
      for (const Taps& column : columns.taps) {
        const float* const weights = columns.weights.data() + column.weights;
        float value = 0;
        for (Index k = 0; k < column.count; ++k) value += weights[k] * sum[column.first + k];
        *to++ = std::is_same_v<T, float> ? static_cast<T>(value) : static_cast<T>(std::clamp(value + 0.5f, 0.f, 255.f));
      }
    }
}

template void resample(const Planes<uint8_t>&, const Area&, uint8_t*, Index, Index);
template void resample(const Planes<float>&, const Area&, float*, Index, Index);

}  // namespace d5
