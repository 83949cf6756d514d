// SPDX-License-Identifier: Apache-2.0
// First-order errors of Attention, for one query. A score s_j errs by e_j, so that p_j errs by p_j r_j with r_j = 1 +
// e_j + sum_l p_l e_l. With P_j = sum |dy v_j| and D = sum_j p_j P_j:
//   y:  sum_j p_j r_j |v_j|                 dv_j: sum_i p_j (1 + r_j) |dy|
//   ds: m_j = p_j ((r_j + 1) (P_j + D) + sum_l p_l r_l P_l)
//   dq: scale sum_j (m_j + |ds_j|) |k_j|    dk_j: scale sum_i (m_j + |ds_j|) |q|    dmask: sum m_j
// accumulated: e_j = scale sum |q k_j| + |mask| + |s_j - max|, the last because the exponent is rounded.
// stored: q and k times sqrt(scale), the product, the capped and the masked score are rounded to the element type, then
//   the exponential and p, dp and ds. These errors are independent of each other, uniform in +- u, so they add in
//   squares; their deviation is u / sqrt(3), and six deviations are 3.5 u. In y an error of s_j moves weight between
//   values: p_j e_j |v_j - y|. e_j^2 = 2 scale^2 sum (q k_j)^2 + 2 s_j^2 + (s_j + mask)^2
#include <cmath>

#include "d5/operators/attention.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

class Errors {
 public:
  Errors(const Context& c, const AttentionSizes& s, const AttentionOptions& o, bool stored, std::span<double> out)
      : c_(c), s_(s), o_(o), stored_(stored), out_(out) {}

  void head(Pass pass, size_t index, Index b, Index head) {
    const AttentionHead h(c_, s_, o_, b, head);
    for (Index i = 0; i < s_.queries; ++i) {
      const auto row = h.row(i);
      const std::vector<double> e = score_errors(h, row);
      double mean = 0;
      for (Index j = 0; j < s_.keys; ++j) mean += stored_ ? std::pow(row.p[j] * e[j], 2) : row.p[j] * e[j];
      if (stored_) mean = std::sqrt(mean);
      if (pass == Pass::forward)
        output(h, row, e, mean, s_.y(b, head, i));
      else
        gradient(h, row, e, mean, index, b, head, i);
    }
  }

  void finish() {
    if (!stored_) return;
    for (double& value : out_) value = 6 / std::sqrt(3) * std::sqrt(value);
  }

 private:
  void add(Index at, double error) { out_[at] += stored_ ? error * error : error; }

  std::vector<double> score_errors(const AttentionHead& h, const AttentionHead::Row& row) const {
    std::vector<double> e(row.p.size(), 0.0);
    for (Index j = 0; j < s_.keys; ++j) {
      if (row.p[j] == 0) continue;
      double sum = 0;
      for (Index d = 0; d < s_.size; ++d) {
        const double term = h.scale() * row.q[d] * h.key(j)[d];
        sum += stored_ ? 2 * term * term : std::abs(term);
      }
      const double masked = row.score[j] + row.bias[j];
      e[j] = stored_ ? std::sqrt(sum + 2 * row.score[j] * row.score[j] + masked * masked)
                     : sum + std::abs(row.bias[j]) + row.top - masked;
    }
    return e;
  }

  void output(const AttentionHead& h, const AttentionHead::Row& row, const std::vector<double>& e, double mean,
              Index at) {
    for (Index d = 0; d < s_.v_size; ++d) {
      for (Index j = 0; j < s_.keys; ++j) {
        const double v = h.value(j)[d];
        if (stored_) {
          add(at + d, row.p[j] * e[j] * (v - c_.output(0).values<double>()[at + d]));
          add(at + d, std::sqrt(2) * row.p[j] * v);
        } else {
          add(at + d, row.p[j] * (1 + e[j] + mean) * std::abs(v));
        }
      }
    }
  }

  void gradient(const AttentionHead& h, const AttentionHead::Row& row, const std::vector<double>& e, double mean,
                size_t index, Index b, Index head, Index i) {
    if (!c_.output_gradient(0).present()) return;
    const double* dy = &c_.output_gradient(0).values<double>()[s_.y(b, head, i)];
    std::vector<double> dp(row.p.size(), 0.0), size(row.p.size(), 0.0);
    double dot = 0, absolute = 0, weighted = 0;
    for (Index j = 0; j < s_.keys; ++j) {
      for (Index d = 0; d < s_.v_size; ++d) {
        dp[j] += dy[d] * h.value(j)[d];
        size[j] += std::abs(dy[d] * h.value(j)[d]);
      }
      dot += row.p[j] * dp[j];
      absolute += row.p[j] * size[j];
      weighted += row.p[j] * (1 + e[j] + mean) * size[j];
    }
    const Index kv = head / s_.group(), fresh = s_.keys - s_.past;
    for (Index j = 0; j < s_.keys; ++j) {
      const double p = row.p[j], r = 1 + e[j] + mean, ds = p * std::abs(dp[j] - dot);
      if (p == 0) continue;
      const double m = stored_ ? ds * (r + 2) + p * (std::abs(dp[j]) + std::abs(dot))
                               : p * ((r + 1) * (size[j] + absolute) + weighted);
      const double dt = h.scale() * row.slope[j] * (m + ds);
      const bool is_past = j < s_.past;
      const auto at = [&](Index width) {
        return is_past ? ((b * s_.kv_heads + kv) * s_.past + j) * width
                       : s_.row(b, kv, j - s_.past, s_.kv_heads, fresh, width);
      };
      if (index == 0)
        for (Index d = 0; d < s_.size; ++d) add(s_.q(b, head, i) + d, dt * std::abs(h.key(j)[d]));
      if (index == (is_past ? 4 : 1))
        for (Index d = 0; d < s_.size; ++d) add(at(s_.size) + d, dt * std::abs(row.q[d]));
      if (index == (is_past ? 5 : 2))
        for (Index d = 0; d < s_.v_size; ++d) add(at(s_.v_size) + d, p * (1 + r) * std::abs(dy[d]));
      if (index == 3) add(h.mask_at(i, j), m);
    }
  }

  const Context& c_;
  const AttentionSizes& s_;
  const AttentionOptions& o_;
  bool stored_;
  std::span<double> out_;
};

}  // namespace

Tensor attention_errors(const Context& c, const AttentionSizes& s, const AttentionOptions& o, Pass pass, size_t index,
                        bool stored) {
  const Tensor result(DType::f64, pass == Pass::forward ? c.output(index).shape() : c.input(index).shape());
  const auto out = cleared(result);
  if (pass == Pass::forward && index > 0) return result;  // copies
  Errors errors(c, s, o, stored, out);
  for (Index b = 0; b < s.batch; ++b)
    for (Index head = 0; head < s.heads; ++head) errors.head(pass, index, b, head);
  errors.finish();
  // Gradients of present keys and values are added to those of their parts.
  if (pass == Pass::backward && index != 0 && index != 3 && c.output_gradient(1).present() && !stored) {
    const auto gradient = c.input_gradient(index).values<double>();
    for (size_t i = 0; i < out.size(); ++i) out[i] += std::abs(gradient[i]);
  }
  return result;
}

}  // namespace d5
