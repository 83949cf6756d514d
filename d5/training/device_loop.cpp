// SPDX-License-Identifier: Apache-2.0
#include "d5/training/device_loop.hpp"

#include "d5/graph/graph.hpp"

namespace d5 {

std::unique_ptr<DeviceLoop> make_device_loop(const Program& program, const Memory& memory) {
  const std::string device = memory.device();
  const auto* entry = find_registered<device_loops>(device.substr(0, device.find(':')));
  if (!entry) throw CannotRun(fmt::format("[optimizer] parameters are on {}; nobody runs formulas there", device));
  return entry->make(program, memory);
}

}  // namespace d5
