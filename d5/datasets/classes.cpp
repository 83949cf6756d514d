// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/classes.hpp"

#include "d5/core/convert.hpp"

namespace d5 {
namespace {

size_t class_at(const Tensor& labels, Index i, size_t classes) {
  const double value = load_as_double(labels.dtype(), labels.data(), i);
  if (!(value >= 0 && value < static_cast<double>(classes)))
    throw SampleError("[classes] class {}; legal: 0 to {}", value, classes - 1);
  return static_cast<size_t>(value);
}

}  // namespace

std::optional<size_t> class_field(const std::vector<Field>& fields) {
  constexpr Index most = 1 << 20;  // a damaged label must not take the memory
  for (size_t f = 0; f < fields.size(); ++f)
    if (fields[f].classes && *fields[f].classes > 1 && *fields[f].classes <= most && fields[f].shape &&
        fields[f].shape->elements() == 1)
      return f;
  return {};
}

void count_classes(const Tensor& labels, std::span<Index> counts) {
  for (Index i = 0; i < labels.elements(); ++i) ++counts[class_at(labels, i, counts.size())];
}

std::vector<double> balancing_weights(const Dataset& data) {
  const auto field = class_field(data.fields());
  if (!field) throw UsageError("[classes] no field of the data set has classes that could be balanced");
  std::vector<Index> counts(static_cast<size_t>(*data.fields()[*field].classes));
  std::vector<std::optional<size_t>> classes(static_cast<size_t>(data.size()));
  for (Index i = 0; i < data.size(); ++i) try {
      const size_t own = class_at(data.at(i)[*field], 0, counts.size());
      classes[static_cast<size_t>(i)] = own;
      ++counts[own];
    } catch (const SampleError&) {
    }
  std::vector<double> weights;
  for (const auto& own : classes) weights.push_back(own ? 1 / static_cast<double>(counts[*own]) : 0);
  return weights;
}

}  // namespace d5
