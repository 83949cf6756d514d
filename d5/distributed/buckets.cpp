// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/buckets.hpp"

#include <algorithm>

namespace d5 {

Buckets::Buckets(const ParameterSet& set, std::vector<Range> ranges)
    : ranges_(std::move(ranges)), parameters_(ranges_.size()), missing_(ranges_.size()) {
  const auto bucket_of = [&](Index element) {
    const auto behind = std::ranges::upper_bound(ranges_, element, {}, &Range::first);
    return static_cast<size_t>(behind - ranges_.begin()) - 1;
  };
  for (const ParameterSet::Parameter& p : set.parameters()) {
    offsets_.push_back(p.offset);
    first_.push_back(bucket_of(p.offset));
    last_.push_back(bucket_of(p.offset + std::max<Index>(p.padded_elements, 1) - 1));
    if (p.trainable)
      for (size_t b = first_.back(); b <= last_.back(); ++b) ++parameters_[b];
  }
  is_ready_.resize(offsets_.size());
}

std::vector<Buckets::Range> Buckets::of_size(const ParameterSet& set, double bytes) {
  constexpr double most_buckets = 190, shorter = 8;
  const auto bytes_of = [&](Index elements) {
    return static_cast<double>(storage_bytes(set.compute_dtype(), elements));
  };
  const double usual = std::max(bytes, bytes_of(set.elements()) / most_buckets), shortest = usual / shorter;
  // From the last one, of which backward hides nothing, to the first.
  std::vector<Range> ranges;
  double least = shortest;
  Index end = set.elements();
  for (size_t p = set.parameters().size(); p-- > 0;) {
    const Index first = p > 0 ? set.parameters()[p].offset : 0;
    if (p > 0 && (bytes_of(end - first) < least || bytes_of(first) < shortest)) continue;
    ranges.push_back({first, end - first});
    end = first;
    least = std::min(2 * least, usual);
  }
  std::ranges::reverse(ranges);
  return ranges;
}

void Buckets::begin_step() {
  const std::scoped_lock lock(mutex_);
  std::ranges::copy(parameters_, missing_.begin());
  std::ranges::fill(is_ready_, char{0});
  next_ = 0;
  error_ = nullptr;
}

void Buckets::mark(const Gradient& gradient) {
  const auto behind = std::ranges::upper_bound(offsets_, gradient.range.first);
  if (behind == offsets_.begin()) return;
  const auto p = static_cast<size_t>(behind - offsets_.begin()) - 1;
  if (std::exchange(is_ready_[p], char{1})) return;
  for (size_t b = first_[p]; b <= last_[p]; ++b) --missing_[b];
}

}  // namespace d5
