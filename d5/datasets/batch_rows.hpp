// SPDX-License-Identifier: Apache-2.0
// A batch: a tensor per field with the samples along its first axis; its rows are what samples are read into.
#pragma once

#include "d5/datasets/dataset.hpp"

namespace d5 {

// The shape of so many samples of a field. Error where its samples differ in shape or are strings.
Shape batch_shape(const Field&, Index batch);
// The fields of a batch; without a shape where its size may differ.
std::vector<Field> batch_fields(const std::vector<Field>& of_samples, Index batch, bool same_size);
// Row i of every tensor, as views that own nothing: the batch must outlive them.
Sample batch_row(const Sample& batch, const std::vector<Field>& of_samples, Index i);

}  // namespace d5
