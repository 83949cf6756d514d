// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/library.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/env.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "d5/backends/torch/account.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/isa.hpp"

namespace d5::libtorch {
namespace {

// A function of the driver, which is opened at run time.
template <class Function>
Function driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

std::string open_cuda() {
  if (!driver_function<int (*)(unsigned)>("cuInit")) return "no driver: libcuda.so.1 not found";
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname)
    return "libtorch_cpu cannot be found in this process";
  const auto library = std::filesystem::absolute(info.dli_fname).parent_path() / "libtorch_cuda.so";
  if (!std::filesystem::exists(library))
    return fmt::format("this LibTorch is one for the CPU alone: {} is not there", library.string());
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return fmt::format("libtorch_cuda does not load: {}", dlerror());
  if (!at::hasCUDA()) return "libtorch_cuda was opened but registers no CUDA";
  if (c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() == 0) return "the driver shows no device";
  return "";
}

// The library's own oneDNN believes a virtual machine that advertises AMX without a tile palette, and dies.
void hold_isa() {
  const std::string cap = usable_isa().onednn_cap();
  if (!cap.empty() && !std::getenv("ONEDNN_MAX_CPU_ISA") && !std::getenv("DNNL_MAX_CPU_ISA"))
    setenv("ONEDNN_MAX_CPU_ISA", cap.c_str(), 0);
}

std::string device_name(int index) {
  const auto get = driver_function<int (*)(char*, int, int)>("cuDeviceGetName");
  char name[256] = {};
  return get && get(name, sizeof name - 1, index) == 0 ? name : "unknown";
}

// Blocks of the library's own allocators: what they cache is not missing elsewhere.
class LibraryMemory : public Memory {
 public:
  explicit LibraryMemory(at::TensorOptions where) : where_(where.dtype(at::kByte)) {}

  void* allocate(size_t bytes) override {
    return guarded("memory", [&] {
      at::Tensor block = at::empty({static_cast<int64_t>(std::max(bytes, alignment_bytes))}, where_);
      void* pointer = block.data_ptr();
      const std::scoped_lock lock(mutex_);
      blocks_.emplace(pointer, std::move(block));
      return pointer;
    });
  }
  void release(void* pointer, size_t) noexcept override {
    const std::scoped_lock lock(mutex_);
    blocks_.erase(pointer);
  }

 private:
  at::TensorOptions where_;
  std::mutex mutex_;
  std::map<void*, at::Tensor> blocks_;
};

class DeviceMemory final : public LibraryMemory {
 public:
  explicit DeviceMemory(at::Device device) : LibraryMemory(at::device(device)), device_(device) {}
  std::string device() const override { return device_.str(); }
  void upload(void* to, const void* from, size_t bytes) override {
    guarded("memory", [&] { part(to, bytes, device_).copy_(part(const_cast<void*>(from), bytes, at::kCPU)); });
  }
  void download(void* to, const void* from, size_t bytes) override {
    guarded("memory", [&] { part(to, bytes, at::kCPU).copy_(part(const_cast<void*>(from), bytes, device_)); });
  }

 private:
  static at::Tensor part(void* data, size_t bytes, at::Device device) {
    return wrap(data, DType::u8, {static_cast<Index>(bytes)}, device);
  }
  at::Device device_;
};

class PageLockedMemory final : public LibraryMemory {
 public:
  PageLockedMemory() : LibraryMemory(at::TensorOptions().pinned_memory(true)) {}
  std::string device() const override { return host_memory().device(); }
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }
};

// setAllowBF16ReductionCuBLAS took a flag before 2.9 and takes an enumeration since; false is its strictest value that
// keeps split K only in the former.
template <class Context>
void sum_narrow_products_in_f32(Context& context) {
  if constexpr (requires { context.setAllowBF16ReductionCuBLAS(false); }) {
    context.setAllowBF16ReductionCuBLAS(false);
    context.setAllowFP16ReductionCuBLAS(false);
  } else {
    using Option = decltype(context.allowBF16ReductionCuBLAS());
    context.setAllowBF16ReductionCuBLAS(Option::DisallowReducedPrecisionAllowSplitK);
    context.setAllowFP16ReductionCuBLAS(Option::DisallowReducedPrecisionAllowSplitK);
  }
}

}  // namespace

const std::string& why_no_cuda() {
  static const std::string reason = open_cuda();
  return reason;
}

void start() {
  static const bool once = [] {
    hold_isa();
    // Before anything asks the library for CUDA, because it remembers the answer.
    why_no_cuda();
    sum_narrow_products_in_f32(at::globalContext());
    count_allocations();
    return true;
  }();
  (void)once;
  if (at::get_num_threads() != threads()) at::set_num_threads(threads());
}

std::optional<std::string> why_no_device(const std::string& device) {
  if (device == "cpu") return {};
  const auto [kind, index] = parse_device(device);
  if (kind != "cuda") return fmt::format("torch runs on cpu and cuda, not on '{}'", device);
  if (!why_no_cuda().empty()) return fmt::format("no device '{}': {}", device, why_no_cuda());
  const int count = c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount();
  if (index >= count) return fmt::format("no device '{}': there are {}, counted from 0", device, count);
  return {};
}

at::Device device_of(const std::string& device) {
  const auto [kind, index] = parse_device(device);
  if (kind == "cuda") return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
  return at::kCPU;
}

int64_t l2_bytes(at::Device device) {
  constexpr int l2_cache_size = 38, otherwise = 128 << 20;  // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
  const auto get = driver_function<int (*)(int*, int, int)>("cuDeviceGetAttribute");
  int bytes = 0;
  return get && get(&bytes, l2_cache_size, device.index()) == 0 && bytes > 0 ? bytes : otherwise;
}

bool has_type(DType type) {
  switch (type) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean: return true;
    default: return false;  // u16 and wider exist as storage with few operators
  }
}

at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::f64: return at::kDouble;
    case DType::f32: return at::kFloat;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
    case DType::i8: return at::kChar;
    case DType::i16: return at::kShort;
    case DType::i32: return at::kInt;
    case DType::i64: return at::kLong;
    case DType::u8: return at::kByte;
    case DType::boolean: return at::kBool;
    default: throw Error("[torch] LibTorch has no operators for {}", name(type));
  }
}

at::MemoryFormat channels_last_format(size_t rank) {
  return rank == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

at::Tensor wrap(void* data, DType type, const Shape& shape, at::Device device, bool channels_last) {
  const auto options = at::dtype(scalar_type(type)).device(device);
  if (shape.elements() == 0) return at::empty(shape.sizes(), options);
  if (!channels_last) return at::for_blob(data, shape.sizes()).options(options).target_device(device).make_tensor();
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  for (size_t axis : {size_t{1}, size_t{4}, size_t{3}, size_t{2}, size_t{0}})
    if (axis < shape.rank()) {
      strides[axis] = stride;
      stride *= shape[axis];
    }
  return at::for_blob(data, shape.sizes()).strides(strides).options(options).target_device(device).make_tensor();
}

at::Tensor wrap(const Tensor& host) { return wrap(host.data(), host.dtype(), host.shape(), at::kCPU); }

std::optional<std::string> why_not_math(Math math, at::Device device) {
  const char* where = device.is_cuda() ? "cuda" : "the cpu";
  if (math == Math::winograd && !device.is_cuda())
    return fmt::format("torch has no Winograd convolutions on {}", where);
  if (math == Math::tf32 && !device.is_cuda()) return fmt::format("torch has no TF32 on {}", where);
  if (math == Math::bf16 && device.is_cuda()) return fmt::format("torch does not compute f32 as bf16 on {}", where);
  return {};
}

namespace {

// Only cuDNN's older interface, asked to repeat itself, takes its default algorithms, of which none is Winograd's or a
// Fourier transform; but it sums bf16 in bf16. LibTorch looks at the variable at the first convolution of a process.
std::optional<bool> older_interface;

void choose_interface(const Convolutions& convolutions) {
  if (!convolutions.any || older_interface) return;
  if (convolutions.direct) setenv("TORCH_CUDNN_V8_API_DISABLED", "1", 0);
  older_interface = c10::utils::check_env("TORCH_CUDNN_V8_API_DISABLED") == true;
}

}  // namespace

std::optional<std::string> why_not_convolutions(const Convolutions& convolutions) {
  const bool older = older_interface.value_or(convolutions.direct);
  if (convolutions.bf16 && older)
    return "convolutions of bf16 beside strict ones of f32 in one process: cuDNN's interface for those sums in bf16";
  if (convolutions.direct && !older)
    return "strict convolutions of f32 after others in one process: cuDNN may use transforms there";
  return {};
}

void use(const Switches& switches) {
  static std::optional<Switches> now;
  if (now == switches) return;
  const auto& [math, deterministic, convolutions] = switches;
  // cuBLAS repeats itself with a workspace of a fixed size alone, and LibTorch refuses it otherwise.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::Context& context = at::globalContext();
  context.setFloat32MatmulPrecision(math == Math::bf16 ? "medium" : math == Math::tf32 ? "high" : "highest");
  context.setAllowTF32CuDNN(math == Math::tf32);
  context.setDeterministicAlgorithms(deterministic, false);
  choose_interface(convolutions);
  context.setDeterministicCuDNN(deterministic || convolutions.direct);
  // As its users do for speed: the first call of a shape tries what there is.
  context.setBenchmarkCuDNN(!deterministic && !convolutions.direct);
  now = switches;
}

Memory& memory_of(at::Device device) {
  if (device.is_cpu() && !std::getenv("D5_TORCH_HOST_AS_DEVICE")) return host_memory();
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<DeviceMemory>> memories;
  const std::scoped_lock lock(mutex);
  auto& memory = memories[device.index()];
  if (!memory) memory = std::make_unique<DeviceMemory>(device);
  return *memory;
}

Memory& staging_memory_of(at::Device device) {
  if (!device.is_cuda()) return host_memory();
  static PageLockedMemory memory;
  return memory;
}

Facts library_facts() {
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  Facts facts{{"library", "LibTorch"},
              {"version", TORCH_VERSION},
              {"cpu capability", at::get_cpu_capability()},
              {"blas", at::hasMKL() ? at::get_mkl_version() : "not MKL"},
              {"mkldnn", at::hasMKLDNN() ? at::get_mkldnn_version() : "none"},
              {"openmp", at::get_openmp_version()},
              {"isa cap", cap ? cap : "none"},
              {"mode", "eager, its own autograd"},
              {"threads", std::to_string(at::get_num_threads())}};
  if (!why_no_cuda().empty()) {
    facts.emplace_back("cuda", "none: " + why_no_cuda());
    return facts;
  }
  const auto& hooks = at::detail::getCUDAHooks();
  facts.emplace_back("cuda", std::to_string(hooks.versionCUDART()));
  facts.emplace_back("cudnn", hooks.hasCuDNN() ? std::to_string(hooks.versionCuDNN()) : "none");
  for (int i = 0; i < c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount(); ++i)
    facts.emplace_back(fmt::format("cuda:{}", i), device_name(i));
  return facts;
}

std::string first_line(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  std::string text = own ? own->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace d5::libtorch
