// SPDX-License-Identifier: Apache-2.0
// Samples that lie in memory already: sample i is row i of every tensor. Absent tensors are given as views.
#pragma once

#include "d5/datasets/dataset.hpp"

namespace d5 {

class TensorDataset final : public Dataset {
 public:
  // One tensor per field, each with the samples along its first axis. Error where they disagree.
  TensorDataset(std::string name, std::vector<Field> fields, std::vector<Tensor> rows);
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  void read(Index i, Sample& into) const override;
  void expect(Index i) const override;
  std::string where(Index i) const override;

 private:
  std::string name_;
  std::vector<Field> fields_;
  std::vector<Tensor> rows_;
  std::vector<size_t> row_bytes_;
  Index size_ = 0;
};

}  // namespace d5
