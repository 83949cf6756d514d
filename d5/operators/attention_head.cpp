// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "d5/operators/attention.hpp"

namespace d5 {
namespace {

constexpr double unseen = -std::numeric_limits<double>::infinity();

}  // namespace

AttentionHead::AttentionHead(const Context& c, const AttentionSizes& s, const AttentionOptions& o, Index b, Index head)
    : c_(c), s_(s), o_(o), b_(b), head_(head), offset_(s.past), seen_(s.keys) {
  scale_ = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(s.size));
  if (c.input(6).present()) {
    seen_ = c.input(6).values<int64_t>()[b];
    if (seen_ < 0 || seen_ > s.keys)
      throw Error("[attention] nonpad_kv_seqlen[{}] is {}; 0 to {} keys are there", b, seen_, s.keys);
    offset_ = seen_ - s.queries;
  }
  const Index kv = head / s.group(), fresh = s.keys - s.past;
  const auto gather = [&](size_t past, size_t now, Index width) {
    std::vector<double> rows(static_cast<size_t>(s.keys * width));
    for (Index l = 0; l < s.keys; ++l) {
      const double* from =
          l < s.past ? c.input(past).values<double>().data() + ((b * s.kv_heads + kv) * s.past + l) * width
                     : c.input(now).values<double>().data() + s.row(b, kv, l - s.past, s.kv_heads, fresh, width);
      std::copy_n(from, width, rows.data() + l * width);
    }
    return rows;
  };
  keys_ = gather(4, 1, s.size);
  values_ = gather(5, 2, s.v_size);
}

Index AttentionHead::mask_at(Index query, Index key) const {
  const Shape& mask = c_.input(3).shape();
  if (key >= mask.back()) return -1;
  const Index place[] = {b_, head_, query};
  Index at = 0;
  for (size_t axis = 0; axis + 1 < mask.rank(); ++axis) {
    const Index size = mask[axis];
    at = at * size + (size == 1 ? 0 : place[4 - mask.rank() + axis]);
  }
  return at * mask.back() + key;
}

double AttentionHead::bias(Index query, Index key) const {
  const Index position = query + offset_;
  if (key >= seen_ || (o_.causal && key > position) || (o_.left >= 0 && position - key > o_.left) ||
      (o_.right >= 0 && key - position > o_.right))
    return unseen;
  if (!c_.input(3).present()) return 0;
  const Index at = mask_at(query, key);
  if (at < 0) return unseen;
  if (c_.input(3).dtype() == DType::boolean) return c_.input(3).values<bool>()[at] ? 0 : unseen;
  return c_.input(3).values<double>()[at];
}

std::vector<double> AttentionHead::scores(Index query, const Row& r, Index mode) const {
  if (mode == 3) return r.p;
  std::vector<double> all(static_cast<size_t>(s_.keys), 0.0);
  for (Index j = 0; j < s_.keys; ++j) {
    for (Index d = 0; d < s_.size; ++d) all[j] += scale_ * r.q[d] * key(j)[d];
    if (mode > 0 && o_.softcap > 0) all[j] = o_.softcap * std::tanh(all[j] / o_.softcap);
    if (mode == 2) all[j] += bias(query, j);
  }
  return all;
}

AttentionHead::Row AttentionHead::row(Index query) const {
  const auto n = static_cast<size_t>(s_.keys);
  Row r{c_.input(0).values<double>().data() + s_.q(b_, head_, query),
        std::vector<double>(n, 0.0),
        std::vector<double>(n, 1.0),
        std::vector<double>(n, 0.0),
        std::vector<double>(n, unseen),
        unseen};
  for (Index j = 0; j < s_.keys; ++j) {
    r.bias[j] = bias(query, j);
    if (r.bias[j] == unseen) continue;
    double dot = 0;
    for (Index d = 0; d < s_.size; ++d) dot += r.q[d] * key(j)[d];
    r.score[j] = scale_ * dot;
    if (o_.softcap > 0) {
      const double t = std::tanh(r.score[j] / o_.softcap);
      r.score[j] = o_.softcap * t;
      r.slope[j] = 1 - t * t;
    }
    r.top = std::max(r.top, r.score[j] + r.bias[j]);
  }
  if (r.top == unseen) return r;
  double sum = 0;
  for (Index j = 0; j < s_.keys; ++j)
    if (r.bias[j] != unseen) sum += r.p[j] = std::exp(r.score[j] + r.bias[j] - r.top);
  for (double& p : r.p) p /= sum;
  return r;
}

}  // namespace d5
