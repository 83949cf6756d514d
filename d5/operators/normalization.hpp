// SPDX-License-Identifier: Apache-2.0
// What LayerNormalization, InstanceNormalization, GroupNormalization and RMSNormalization share: X is cut into rows of
// contiguous elements, and each row is normalised by its own statistics. With z the normalised row:
//   mean = sum x / n      s = sqrt(sum (x - mean)^2 / n + epsilon)      z = (x - mean) / s      y = scale z + bias
//   q = scale dy      dx = (q - mean(q) - z mean(q z)) / s      dscale = sum dy z      dbias = sum dy
// Not centred (RMS): mean = 0, and dx lacks the term mean(q). Each element of a row has its own element of scale, or
// shares it.
#pragma once

#include <vector>

#include "d5/operators/operator.hpp"

namespace d5 {

class Normalization : public Operator {
 public:
  // Reads inputs X, scale and, where it is there, bias; writes Y and, where they are there, outputs 1 and 2: the mean
  // and 1 / s of each row.
  void forward(Context&) const override;
  void backward(Context&) const override;
  std::optional<Batch> batch(std::span<const TensorSpec>) const override;
  Cost cost(std::span<const TensorSpec> in, Pass) const override;
  Rounding rounding(std::span<const TensorSpec> in, Pass, size_t index) const override;
  Tensor magnitude(const Context&, Pass, size_t index) const override;
  Tensor stored_magnitude(const Context&, Pass, size_t index, DType) const override;

 protected:
  explicit Normalization(double epsilon, bool centred = true) : epsilon_(epsilon), centred_(centred) {}

  // Element j of row r uses element (r mod cycle) advance + offset[j] of scale and bias.
  struct Rows {
    Index rows, length, cycle, advance;
    std::vector<Index> offset;
    Index parameter(Index row, Index j) const { return row % cycle * advance + offset[j]; }
  };
  virtual Rows rows(const Shape& x, const Shape& scale) const = 0;

 private:
  struct Statistics {
    double mean, deviation, absolute, square;  // the last two: of |x| and of x^2
  };
  Statistics statistics(const double* x, Index length) const;
  Rows bias_rows(const Context&) const;
  Tensor scale_of_errors(const Context&, Pass, size_t index, bool stored) const;

  double epsilon_;
  bool centred_;
};

// The sizes of X that are normalised together from `axis` on, for scale and bias that broadcast to them.
Shape normalized_shape(const Shape& x, Index axis, std::string_view place);

// The element type that ONNX's stash_type stands for: 1 is f32, 16 is bf16.
DType stash_type(const Attributes&, std::string_view place);

}  // namespace d5
