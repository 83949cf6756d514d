// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/byte_pixels.hpp"

#include "d5/datasets/decoder.hpp"

namespace d5 {

bool has_byte_pixels(const std::vector<Field>& fields) {
  for (const Field& field : fields)
    if (field.shape && field.shape->rank() == 3) return field.dtype == DType::u8;
  return false;
}

bool gives_byte_pixels(const Dataset& data) { return has_byte_pixels(data.fields()) || holds_encoded(data); }

}  // namespace d5
