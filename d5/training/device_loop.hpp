// SPDX-License-Identifier: Apache-2.0
// The program of a formula over parameters that lie on a device. Whoever owns that memory runs it: a backend's module
// registers its loop under the kind of device, what Memory::device() says before the colon:
//   D5_REGISTER(device_loops, "cuda", CudaLoop);
// Every operation is rounded to f32 for itself, as on the host, so that elements are the same bits. Sums of squares are
// made in double, in an order of the device's own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "d5/core/memory.hpp"
#include "d5/core/registry.hpp"
#include "d5/training/program.hpp"

namespace d5 {

class DeviceLoop {
 public:
  // A part of the arena, with its row of the program's numbers (on the host).
  struct Piece {
    Index first, count;
    const float* numbers;
  };
  virtual ~DeviceLoop() = default;
  virtual std::string_view name() const = 0;  // fused: one kernel; eager: one an instruction
  // Streams are whole arenas on the device; pieces are in their order, none is empty. It need not have ended on return.
  virtual void run(std::span<float* const> streams, std::span<const Piece>) = 0;
  // Of what the program would store, not of what it has stored: [piece x stores + store].
  virtual std::vector<double> sums_of_squares(std::span<float* const> streams, std::span<const Piece>) = 0;
};

struct device_loops {
  static constexpr const char* kind = "loop of a device";
  struct Entry {
    std::function<std::unique_ptr<DeviceLoop>(const Program&, const Memory&)> make;
  };
  template <class T>
  static Entry entry() {
    return {&T::make};
  }
};

// CannotRun where nobody runs programs in that memory.
std::unique_ptr<DeviceLoop> make_device_loop(const Program&, const Memory&);

}  // namespace d5
