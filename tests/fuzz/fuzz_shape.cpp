// SPDX-License-Identifier: Apache-2.0
// Shapes and attributes as a user writes them. What is read must survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "d5/core/attributes.hpp"
#include "d5/core/error.hpp"
#include "d5/core/shape.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_shape(std::string_view text) {
  try {
    const d5::Shape shape = d5::parse_shape(text);
    require(d5::parse_shape(d5::to_string(shape)) == shape);
    require(shape.strides().size() == shape.rank());
  } catch (const d5::Error&) {  // a reason in words is a right answer
  }
}

void read_attributes(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return;
  try {
    const d5::Attributes attributes = d5::attributes_from_json(json);
    for (const auto& [name, value] : attributes.values()) d5::to_string(value);
    require(d5::attributes_from_json(d5::to_json(attributes)) == attributes);
  } catch (const d5::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_shape(text);
  read_attributes(text);
  return 0;
}
