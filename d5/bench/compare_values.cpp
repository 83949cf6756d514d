// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/compare_values.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/convert.hpp"

namespace d5 {
namespace {

std::string text_difference(const Tensor& stored, const Tensor& value) {
  const auto a = stored.values<std::string>(), b = value.values<std::string>();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return fmt::format("element {} is '{}', stored is '{}'", i, b[i], a[i]);
  return "";
}

bool near(double stored, double value, const ValueTolerance& tolerance) {
  if (std::isnan(stored) || std::isnan(value)) return std::isnan(stored) && std::isnan(value);
  if (std::isinf(stored) || std::isinf(value)) return stored == value;
  return std::abs(stored - value) <= tolerance.absolute + tolerance.relative * std::abs(value);
}

// Integers of 64 bits do not fit into a double.
template <class T>
std::string integer_difference(const Tensor& stored, const Tensor& value, const ValueTolerance& tolerance) {
  const auto a = stored.values<T>(), b = value.values<T>();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !near(static_cast<double>(a[i]) - static_cast<double>(b[i]), 0,
                              {0, tolerance.absolute + tolerance.relative * std::abs(static_cast<double>(b[i]))}))
      return fmt::format("element {} is {}, stored is {}", i, b[i], a[i]);
  return "";
}

std::string tensor_difference(const Tensor& stored, const Tensor& value, const ValueTolerance& tolerance) {
  const auto text = [](const Tensor& t) { return to_string(TensorSpec{t.dtype(), t.shape()}); };
  if (stored.dtype() != value.dtype() || !(stored.shape() == value.shape()))
    return fmt::format("{} came out, stored is {}", text(value), text(stored));
  if (!tolerance.values) return "";
  if (stored.dtype() == DType::string) return text_difference(stored, value);
  if (stored.dtype() == DType::i64) return integer_difference<int64_t>(stored, value, tolerance);
  if (stored.dtype() == DType::u64) return integer_difference<uint64_t>(stored, value, tolerance);
  Index wrong = 0, worst = 0;
  double most = -1;
  for (Index i = 0; i < stored.elements(); ++i) {
    const double a = load_as_double(stored.dtype(), stored.data(), i),
                 b = load_as_double(value.dtype(), value.data(), i);
    if (near(a, b, tolerance)) continue;
    ++wrong;
    const double by = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
    if (by > most) {
      most = by;
      worst = i;
    }
  }
  if (wrong == 0) return "";
  return fmt::format("{} of {} elements differ; the worst, {}, is {}, stored is {}", wrong, stored.elements(), worst,
                     load_as_double(value.dtype(), value.data(), worst),
                     load_as_double(stored.dtype(), stored.data(), worst));
}

}  // namespace

std::string difference(const GraphValue& stored, const GraphValue& value, const ValueTolerance& tolerance) {
  if (stored.kind != value.kind || stored.items().size() != value.items().size())
    return fmt::format("{} came out, stored is {}", to_string(value), to_string(stored));
  if (stored.kind == ValueKind::tensor) return tensor_difference(stored.tensor, value.tensor, tolerance);
  for (size_t i = 0; i < stored.items().size(); ++i)
    if (const std::string inner = difference(stored.items()[i], value.items()[i], tolerance); !inner.empty())
      return fmt::format("entry {}: {}", i, inner);
  return "";
}

}  // namespace d5
