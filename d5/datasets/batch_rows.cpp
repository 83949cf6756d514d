// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/batch_rows.hpp"

namespace d5 {

Shape batch_shape(const Field& field, Index batch) {
  if (!field.shape)
    throw UsageError("[batch] field '{}' differs in shape from sample to sample: resize or crop it first", field.name);
  if (field.dtype == DType::string ||
      storage_bytes(field.dtype, field.shape->elements()) * 8 != field.shape->elements() * bits(field.dtype))
    throw UsageError("[batch] field '{}' is {}[{}]: its rows are no whole number of bytes", field.name,
                     name(field.dtype), to_string(*field.shape));
  std::vector<Index> sizes{batch};
  sizes.insert(sizes.end(), field.shape->begin(), field.shape->end());
  return Shape(std::move(sizes));
}

std::vector<Field> batch_fields(const std::vector<Field>& of_samples, Index batch, bool same_size) {
  std::vector<Field> fields = of_samples;
  for (Field& field : fields) {
    const Shape shape = batch_shape(field, batch);
    field.shape = same_size ? std::optional(shape) : std::nullopt;
  }
  return fields;
}

Sample batch_row(const Sample& batch, const std::vector<Field>& of_samples, Index i) {
  Sample row;
  for (size_t f = 0; f < batch.size(); ++f) {
    const Field& field = of_samples[f];
    char* data = static_cast<char*>(batch[f].data()) + i * storage_bytes(field.dtype, field.shape->elements());
    row.push_back(Tensor::view(field.dtype, *field.shape, data, {}, batch[f].memory()));
  }
  return row;
}

}  // namespace d5
