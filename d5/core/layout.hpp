// SPDX-License-Identifier: Apache-2.0
// A native layout of one tensor: blocked, padded, axes in another order. Null means row-major. Conversions are for
// checks, checkpoints and executables that share parameters, not for timed steps.
#pragma once

#include <memory>
#include <string>

#include "d5/core/tensor.hpp"

namespace d5 {

class Layout {
 public:
  virtual ~Layout() = default;
  virtual size_t bytes() const = 0;
  virtual std::string name() const = 0;  // two layouts with the same name hold the same bytes
  virtual void from_plain(const Tensor& plain, void* native) const = 0;
  virtual void to_plain(const void* native, const Tensor& plain) const = 0;
};
using LayoutPtr = std::shared_ptr<const Layout>;

}  // namespace d5
