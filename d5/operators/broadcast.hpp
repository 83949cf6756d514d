// SPDX-License-Identifier: Apache-2.0
// Reading a tensor as if it were stretched to a larger shape (numpy's rule).
#pragma once

#include <string_view>
#include <vector>

#include "d5/core/error.hpp"
#include "d5/core/shape.hpp"

namespace d5 {

// Error unless `from` stretches to `to` itself.
inline void check_broadcast_to(const Shape& from, const Shape& to, std::string_view name, std::string_view place) {
  if (from.rank() > to.rank() || broadcast(from, to, place) != to)
    throw Error("{} {} is {} and does not broadcast to {}", place, name, to_string(from), to_string(to));
}

class Broadcast {
 public:
  Broadcast(const Shape& from, const Shape& to)
      : same_(from == to), to_(to.sizes()), strides_(broadcast_strides(from, to)) {}

  // Where element `flat` of the large shape lies in the small one.
  Index operator()(Index flat) const {
    if (same_) return flat;
    Index offset = 0;
    for (size_t axis = to_.size(); axis-- > 0; flat /= to_[axis]) offset += flat % to_[axis] * strides_[axis];
    return offset;
  }

 private:
  bool same_;
  std::vector<Index> to_, strides_;
};

}  // namespace d5
