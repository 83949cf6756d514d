// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/strings.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace d5 {
namespace {

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  const size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  text = text.substr(first, text.find_last_not_of(spaces) - first + 1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <class T>
bool read_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The shortest digits, in scientific notation, and then the point where Python has it: "0.0001", "1e-05", "100.0".
template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const T magnitude = std::abs(value);
  const bool fixed = magnitude == 0 || (magnitude >= static_cast<T>(1e-4) && magnitude < static_cast<T>(1e16));
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.data(), end);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string print(double value, DType type) {
  if (type == DType::f64) return shortest(value);
  if (type == DType::f32 || !std::isfinite(value)) return shortest(static_cast<float>(value));
  // Narrower: the fewest digits of which the nearest value of the type is this one.
  std::array<char, 64> buffer;
  char* const last = buffer.data() + buffer.size();
  for (int digits = 0; digits < 8; ++digits) {
    const auto end = std::to_chars(buffer.data(), last, value, std::chars_format::scientific, digits).ptr;
    double read = 0;
    std::from_chars(buffer.data(), end, read);
    if (Tensor::scalar(read, type).cast(DType::f64).values<double>()[0] == value) return shortest(read);
  }
  return shortest(static_cast<float>(value));
}

}  // namespace

std::vector<std::string> text_list(const Attributes& a, const std::string& name, std::string_view place) {
  if (!a.has(name)) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(&a.values().at(name))) return *list;
  throw UsageError("{} {} is '{}'; a list of words is wanted", place, name, to_string(a.values().at(name)));
}

double number_of(const std::string& text, std::string_view place) {
  const std::string_view number = without_spaces(text);
  double value = 0;
  if (!read_whole(number, value)) throw Error("{} '{}' is no number", place, text);
  return value;
}

void parse_numbers(const Tensor& strings, const Tensor& numbers, std::string_view place) {
  const auto texts = strings.values<std::string>();
  with_compute_type(numbers.dtype(), [&]<class T>() {
    const auto to = numbers.values<T>();
    for (size_t i = 0; i < texts.size(); ++i) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        if (read_whole(without_spaces(texts[i]), to[i])) continue;
      to[i] = Tensor::scalar(number_of(texts[i], place)).cast(dtype_of<T>::value).template values<T>()[0];
    }
  });
}

void print_numbers(const Tensor& numbers, DType type, const Tensor& strings) {
  const auto texts = strings.values<std::string>();
  with_compute_type(numbers.dtype(), [&]<class T>() {
    const auto from = numbers.values<T>();
    for (size_t i = 0; i < texts.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>)
        texts[i] = from[i] ? "True" : "False";
      else if constexpr (std::is_integral_v<T>)
        texts[i] = std::to_string(from[i]);
      else
        texts[i] = print(from[i], type);
    }
  });
}

}  // namespace d5
