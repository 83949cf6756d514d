// SPDX-License-Identifier: Apache-2.0
// The roofline of a device by torch's own copy and matrix product. Null for the CPU: the host has a probe.
#pragma once

#include <memory>

#include "d5/backends/torch/library.hpp"

namespace d5::libtorch {

std::unique_ptr<DeviceProbe> make_probe(at::Device);

}  // namespace d5::libtorch
