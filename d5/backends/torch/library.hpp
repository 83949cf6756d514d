// SPDX-License-Identifier: Apache-2.0
// LibTorch as a library: types, devices, arithmetic, memory, facts. One module serves the CPU and CUDA: everything of
// CUDA goes through ATen's device-independent interfaces, and libtorch_cuda is opened where there is a driver.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "d5/backends/backend.hpp"

namespace d5::libtorch {

// First of all in this process: ISA cap, threads, CUDA.
void start();

// Why there is no CUDA in this process; empty where there is.
const std::string& why_no_cuda();
std::optional<std::string> why_no_device(const std::string& device);  // "cpu", "cuda", "cuda:1"
at::Device device_of(const std::string& device);                      // "cuda" is cuda:0
int64_t l2_bytes(at::Device);                                         // of a CUDA device

bool has_type(DType);
at::ScalarType scalar_type(DType);
// Bytes of the host or a device as a tensor, no copy. Strides of channels_last where asked.
at::Tensor wrap(void* data, DType, const Shape&, at::Device, bool channels_last = false);
at::Tensor wrap(const Tensor& host);
at::MemoryFormat channels_last_format(size_t rank);  // of 4 or 5 axes

std::optional<std::string> why_not_math(Math, at::Device);
// On CUDA; a graph may have several kinds.
struct Convolutions {
  bool any = false;
  bool direct = false;  // none by transforms
  bool bf16 = false;
  bool operator==(const Convolutions&) const = default;
};
// Of the whole process; cheap where nothing changes.
struct Switches {
  Math math = Math::strict;
  bool deterministic = false;
  Convolutions convolutions;
  bool operator==(const Switches&) const = default;
};
void use(const Switches&);
// Because of what the process convolved before, or of each other.
std::optional<std::string> why_not_convolutions(const Convolutions&);

// With D5_TORCH_HOST_AS_DEVICE in the environment the host's memory is one of a device, called "cpu": what others may
// only reach by copies. Tests see so what happens on a device where there is none.
Memory& memory_of(at::Device);
Memory& staging_memory_of(at::Device);  // of a GPU: page-locked
Facts library_facts();

// Exceptions of the library become Errors of ours, one line each.
std::string first_line(const std::exception&);
template <class F>
decltype(auto) guarded(std::string_view place, F&& f) try {
  return f();
} catch (const c10::Error& error) {
  throw Error("[{}] LibTorch: {}", place, first_line(error));
}

}  // namespace d5::libtorch
