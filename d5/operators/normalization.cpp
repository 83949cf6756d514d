// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/normalization.hpp"

#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

const double* data(const Tensor& t) { return t.present() ? t.values<double>().data() : nullptr; }

template <class F>
void for_each_row(Index rows, Index length, F&& f) {
  parallel_for(rows, std::max<Index>(1, (1 << 18) / std::max<Index>(1, length)), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) f(row);
  });
}

}  // namespace

Normalization::Statistics Normalization::statistics(const double* x, Index length) const {
  const auto n = static_cast<double>(length);
  Statistics s{};
  double variance = 0;
  for (Index j = 0; j < length; ++j) {
    s.mean += x[j] / n;
    s.absolute += std::abs(x[j]) / n;
    s.square += x[j] * x[j] / n;
  }
  if (!centred_) s.mean = s.absolute = 0;
  for (Index j = 0; j < length; ++j) variance += (x[j] - s.mean) * (x[j] - s.mean) / n;
  s.deviation = std::sqrt(variance + epsilon_);
  return s;
}

Normalization::Rows Normalization::bias_rows(const Context& c) const {
  return rows(c.input(0).shape(), c.input(c.input(2).present() ? 2 : 1).shape());
}

void Normalization::forward(Context& c) const {
  const Rows r = rows(c.input(0).shape(), c.input(1).shape());
  const Rows b = bias_rows(c);
  const double *x = data(c.input(0)), *scale = data(c.input(1)), *bias = data(c.input(2));
  const auto y = c.output(0).values<double>();
  for_each_row(r.rows, r.length, [&](Index row) {
    const Statistics s = statistics(x + row * r.length, r.length);
    for (Index j = 0; j < r.length; ++j) {
      const Index i = row * r.length + j;
      y[i] = scale[r.parameter(row, j)] * (x[i] - s.mean) / s.deviation + (bias ? bias[b.parameter(row, j)] : 0);
    }
    if (c.output(1).present()) c.output(1).values<double>()[row] = s.mean;
    if (c.output(2).present()) c.output(2).values<double>()[row] = 1 / s.deviation;
  });
}

void Normalization::backward(Context& c) const {
  const Rows r = rows(c.input(0).shape(), c.input(1).shape());
  const double *x = data(c.input(0)), *scale = data(c.input(1)), *dy = data(c.output_gradient(0));
  const auto n = static_cast<double>(r.length);
  if (c.input_gradient(0).present()) {
    const auto dx = c.input_gradient(0).values<double>();
    for_each_row(r.rows, r.length, [&](Index row) {
      const Statistics s = statistics(x + row * r.length, r.length);
      const auto z = [&](Index j) { return (x[row * r.length + j] - s.mean) / s.deviation; };
      const auto q = [&](Index j) { return scale[r.parameter(row, j)] * dy[row * r.length + j]; };
      double sum = 0, dot = 0;
      for (Index j = 0; j < r.length; ++j) {
        sum += centred_ ? q(j) : 0;
        dot += q(j) * z(j);
      }
      for (Index j = 0; j < r.length; ++j) dx[row * r.length + j] = (q(j) - sum / n - z(j) * dot / n) / s.deviation;
    });
  }
  const bool wants_scale = c.input_gradient(1).present(), wants_bias = c.input_gradient(2).present();
  if (!wants_scale && !wants_bias) return;
  const auto dscale = wants_scale ? cleared(c.input_gradient(1)) : std::span<double>();
  const auto dbias = wants_bias ? cleared(c.input_gradient(2)) : std::span<double>();
  const Rows b = bias_rows(c);
  for (Index row = 0; row < r.rows; ++row) {
    const Statistics s = statistics(x + row * r.length, r.length);
    for (Index j = 0; j < r.length; ++j) {
      const Index i = row * r.length + j;
      if (wants_scale) dscale[r.parameter(row, j)] += dy[i] * (x[i] - s.mean) / s.deviation;
      if (wants_bias) dbias[b.parameter(row, j)] += dy[i];
    }
  }
}

// Rows never span two samples where X has more axes than are normalised.
std::optional<Operator::Batch> Normalization::batch(std::span<const TensorSpec> in) const {
  if (rows(in[0].shape, in[1].shape).rows < in[0].shape[0]) return {};
  Batch axes{.inputs = {0}, .outputs = {0, 0, 0}};
  axes.inputs.resize(in.size(), -1);
  return axes;
}

// Forward: the mean, the squares of differences, subtract, divide, scale, add. Backward: two sums, then dx, and the
// sums of dscale and dbias.
Cost Normalization::cost(std::span<const TensorSpec> in, Pass pass) const {
  const double elements = static_cast<double>(in[0].elements()), parameters = input_bytes(in.subspan(1));
  const std::vector<TensorSpec> out = infer(in);
  if (pass == Pass::forward) return {(centred_ ? 7 : 5) * elements, in[0].bytes() + parameters + out[0].bytes()};
  return {(centred_ ? 13 : 11) * elements, 2 * in[0].bytes() + out[0].bytes() + in[1].bytes() + parameters};
}

// Units: the square root, the division, epsilon, the subtraction, two products, a sum.
Rounding Normalization::rounding(std::span<const TensorSpec> in, Pass pass, size_t index) const {
  const auto length = static_cast<double>(rows(in[0].shape, in[1].shape).length);
  if (pass == Pass::forward || index == 0) return {.terms = length, .units = 7};
  const double shared = static_cast<double>(in[0].elements()) / static_cast<double>(in[index].elements());
  return {.terms = shared + length, .units = 7};
}

Tensor Normalization::magnitude(const Context& c, Pass pass, size_t index) const {
  return scale_of_errors(c, pass, index, false);
}
Tensor Normalization::stored_magnitude(const Context& c, Pass pass, size_t index, DType) const {
  return scale_of_errors(c, pass, index, true);
}

// First-order errors, in units of u of the accumulator or, where `stored`, of the element type. With a the mean of |x|
// the mean errs by a. The variance errs by E[x^2] where it is taken as E[x^2] - mean^2, as many do in one pass, so s
// has a relative error of k = 1 + (E[x^2] + epsilon) / s^2, and z errs by ez = k (|x| + a) / s. Stored: ONNX computes z
// in stash_type, rounds it to the element type and multiplies and adds there; frameworks keep the mean and 1 / s in it
// too. Then ez = 2 |z| + |mean| / s, and each product that is written down errs by itself once.
//   y:       |scale| (ez + stored |z|) + |bias| (where not stored)         mean: a      1 / s: k / s
//   dscale:  sum |dy| (ez + |z|)                                           dbias: sum |dy| (where not stored)
//   dx:      (3 (|q| + mean|q| + |z| mean|q z|) + ez mean|q z| + |z| mean(|q| ez)) / s times k (1 where stored): q and
//            1 / s err, sums err, z errs in both of its places
Tensor Normalization::scale_of_errors(const Context& c, Pass pass, size_t index, bool stored) const {
  const Rows r = rows(c.input(0).shape(), c.input(1).shape()), b = bias_rows(c);
  const double *x = data(c.input(0)), *scale = data(c.input(1)), *bias = data(c.input(2));
  const double* dy = pass == Pass::backward ? data(c.output_gradient(0)) : nullptr;
  const Tensor result(DType::f64, pass == Pass::forward ? c.output(index).shape() : c.input(index).shape());
  const auto out = cleared(result);
  const auto n = static_cast<double>(r.length);
  for (Index row = 0; row < r.rows; ++row) {
    const Statistics s = statistics(x + row * r.length, r.length);
    const double k = stored ? 1 : 1 + (s.square + epsilon_) / (s.deviation * s.deviation);
    const auto z = [&](Index i) { return std::abs(x[i] - s.mean) / s.deviation; };
    const auto z_error = [&](Index i) {
      return stored ? 2 * z(i) + std::abs(s.mean) / s.deviation : k * (std::abs(x[i]) + s.absolute) / s.deviation;
    };
    if (pass == Pass::forward && index > 0) {
      if (!stored) out[row] = index == 1 ? s.absolute : k / s.deviation;
      continue;
    }
    double sum = 0, dot = 0, dot_error = 0;
    for (Index j = 0; j < r.length && dy; ++j) {
      const Index i = row * r.length + j;
      const double q = std::abs(scale[r.parameter(row, j)] * dy[i]);
      sum += centred_ ? q / n : 0;
      dot += q * z(i) / n;
      dot_error += q * z_error(i) / n;
    }
    for (Index j = 0; j < r.length; ++j) {
      const Index i = row * r.length + j, p = r.parameter(row, j);
      if (pass == Pass::forward)
        out[i] = std::abs(scale[p]) * (z_error(i) + z(i)) + (bias && !stored ? std::abs(bias[b.parameter(row, j)]) : 0);
      else if (index == 0)
        out[i] = k / s.deviation *
                 (3 * (std::abs(scale[p] * dy[i]) + sum + z(i) * dot) + z_error(i) * dot + z(i) * dot_error);
      else if (index == 1)
        out[p] += std::abs(dy[i]) * (z_error(i) + z(i));
      else if (!stored)
        out[b.parameter(row, j)] += std::abs(dy[i]);
    }
  }
  return result;
}

Shape normalized_shape(const Shape& x, Index axis, std::string_view place) {
  const auto first = static_cast<std::ptrdiff_t>(valid_axis(axis, x.rank(), place));
  return Shape(std::vector<Index>(x.begin() + first, x.end()));
}

DType stash_type(const Attributes& a, std::string_view place) {
  const int64_t type = a.integer("stash_type", 1);
  if (type == 1) return DType::f32;
  if (type == 11) return DType::f64;  // not ONNX's: of networks that compute in double throughout
  if (type != 16) throw Error("{} stash_type is {}; legal: 1 (f32), 16 (bf16)", place, type);
  return DType::bf16;
}

}  // namespace d5
