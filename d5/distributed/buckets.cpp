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
  constexpr double most_buckets = 200;
  const double whole = static_cast<double>(storage_bytes(set.compute_dtype(), set.elements()));
  const double least = std::max(bytes, whole / most_buckets);
  std::vector<Range> ranges;
  Index first = 0;
  const auto& all = set.parameters();
  for (size_t p = 0; p < all.size(); ++p) {
    const Index end = p + 1 < all.size() ? all[p + 1].offset : set.elements();
    if (p + 1 < all.size() && static_cast<double>(storage_bytes(set.compute_dtype(), end - first)) < least) continue;
    ranges.push_back({first, end - first});
    first = end;
  }
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
