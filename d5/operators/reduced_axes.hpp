// SPDX-License-Identifier: Apache-2.0
// Which axes of a tensor a reduction removes, and where the elements of one result lie: element r of result o is
// kept(o) + reduced(r).
#pragma once

#include <string_view>
#include <vector>

#include "d5/operators/selection.hpp"

namespace d5 {

class ReducedAxes {
 public:
  // Negative axes count from the end; Error on one that is out of range or given twice.
  ReducedAxes(const Shape& x, const std::vector<Index>& axes, std::string_view place) : removed_(x.rank(), false) {
    const auto strides = x.strides();
    for (const Index given : axes) {
      const size_t axis = valid_axis(given, x.rank(), place);
      if (removed_[axis]) throw Error("{} axis {} is given twice", place, given);
      removed_[axis] = true;
    }
    for (size_t axis = 0; axis < x.rank(); ++axis) (removed_[axis] ? reduced : kept).add_axis(x[axis], strides[axis]);
  }

  Shape result(const Shape& x, bool keep_axes) const {
    std::vector<Index> sizes;
    for (size_t axis = 0; axis < x.rank(); ++axis) {
      if (!removed_[axis])
        sizes.push_back(x[axis]);
      else if (keep_axes)
        sizes.push_back(1);
    }
    return Shape(std::move(sizes));
  }

  // Which result an element of the input ends in.
  Index result_of(const Shape& x, Index element) const {
    Index result = 0, step = 1;
    for (size_t axis = x.rank(); axis-- > 0; element /= x[axis]) {
      if (removed_[axis]) continue;
      result += element % x[axis] * step;
      step *= x[axis];
    }
    return result;
  }

  Sources kept, reduced;

 private:
  std::vector<bool> removed_;
};

}  // namespace d5
