// SPDX-License-Identifier: Apache-2.0
// Programs of formulas as functions of LibTorch: one kernel an instruction. It runs wherever LibTorch does.
#pragma once

#include "d5/training/device_loop.hpp"

namespace d5 {

std::unique_ptr<DeviceLoop> make_eager_loop(const Program&, const Memory&);

}  // namespace d5
