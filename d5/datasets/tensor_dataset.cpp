// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/tensor_dataset.hpp"

#include "d5/datasets/file_bytes.hpp"

namespace d5 {

TensorDataset::TensorDataset(std::string name, std::vector<Field> fields, std::vector<Tensor> rows)
    : name_(std::move(name)), fields_(std::move(fields)), rows_(std::move(rows)) {
  if (fields_.size() != rows_.size()) throw Error("[{}] {} fields, {} tensors", name_, fields_.size(), rows_.size());
  for (size_t f = 0; f < fields_.size(); ++f) {
    Field& field = fields_[f];
    const Shape& shape = rows_[f].shape();
    if (rows_[f].dtype() != field.dtype || field.dtype == DType::string || shape.rank() == 0 ||
        !rows_[f].memory().is_host())
      throw Error("[{}] field '{}' is {}: its tensor is {}[{}]", name_, field.name, d5::name(field.dtype),
                  d5::name(rows_[f].dtype()), to_string(shape));
    if (f > 0 && shape[0] != size_)
      throw Error("[{}] field '{}' has {} samples, '{}' has {}", name_, field.name, shape[0], fields_[0].name, size_);
    size_ = shape[0];
    field.shape = Shape({shape.begin() + 1, shape.end()});
    row_bytes_.push_back(static_cast<size_t>(storage_bytes(field.dtype, field.shape->elements())));
  }
}

void TensorDataset::read(Index i, Sample& into) const {
  if (i < 0 || i >= size_) throw Error("[{}] sample {} of {}", name_, i, size_);
  for (size_t f = 0; f < rows_.size(); ++f) {
    char* row = static_cast<char*>(rows_[f].data()) + static_cast<size_t>(i) * row_bytes_[f];
    if (into[f].present())
      std::memcpy(into[f].data(), row, row_bytes_[f]);
    else
      into[f] = rows_[f].slice(i, 1).reshaped(*fields_[f].shape);
  }
}

void TensorDataset::expect(Index i) const {
  if (i < 0 || i >= size_) return;
  for (size_t f = 0; f < rows_.size(); ++f)
    expect_bytes(static_cast<const char*>(rows_[f].data()) + static_cast<size_t>(i) * row_bytes_[f], row_bytes_[f]);
}

std::string TensorDataset::where(Index i) const { return fmt::format("{}, sample {}", name_, i); }

}  // namespace d5
