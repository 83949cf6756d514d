// SPDX-License-Identifier: Apache-2.0
// Programs of formulas as one kernel, compiled at run time by the NVRTC that LibTorch brings: every stream is read and
// written once, and the host launches once a step. Nothing of CUDA is needed to build: its libraries are opened at run
// time, and where that fails, or they do not know the device, LibTorch's own functions run the program
// (eager_loop.cpp).
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "d5/core/error.hpp"
#include "d5/training/torch/cuda_source.hpp"
#include "d5/training/torch/eager_loop.hpp"

namespace d5 {
namespace {

// ---- functions of the driver and of NVRTC, as their documents declare them
struct Functions {
  int (*cuDeviceGetAttribute)(int*, int, int);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuCtxSetCurrent)(void*);
  int (*cuModuleLoadData)(void**, const void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuModuleUnload)(void*);
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                        void**);
  int (*nvrtcCreateProgram)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*nvrtcCompileProgram)(void*, int, const char* const*);
  int (*nvrtcGetCUBINSize)(void*, size_t*);
  int (*nvrtcGetCUBIN)(void*, char*);
  int (*nvrtcDestroyProgram)(void**);
};

// Null where a library or a function is missing.
const Functions* functions() {
  static const auto all = []() -> std::optional<Functions> {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
    const auto beside = std::filesystem::absolute(info.dli_fname).parent_path() / "libcaffe2_nvrtc.so";
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* const compiler = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);  // and what it is linked to: NVRTC
    if (!driver || !compiler) return {};
    Functions f{};
    bool found = true;
    const auto bind = [&](auto& function, void* library, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      found = found && function;
    };
    bind(f.cuDeviceGetAttribute, driver, "cuDeviceGetAttribute");
    bind(f.cuDevicePrimaryCtxRetain, driver, "cuDevicePrimaryCtxRetain");
    bind(f.cuCtxSetCurrent, driver, "cuCtxSetCurrent");
    bind(f.cuModuleLoadData, driver, "cuModuleLoadData");
    bind(f.cuModuleGetFunction, driver, "cuModuleGetFunction");
    bind(f.cuModuleUnload, driver, "cuModuleUnload");
    bind(f.cuLaunchKernel, driver, "cuLaunchKernel");
    bind(f.nvrtcCreateProgram, compiler, "nvrtcCreateProgram");
    bind(f.nvrtcCompileProgram, compiler, "nvrtcCompileProgram");
    bind(f.nvrtcGetCUBINSize, compiler, "nvrtcGetCUBINSize");
    bind(f.nvrtcGetCUBIN, compiler, "nvrtcGetCUBIN");
    bind(f.nvrtcDestroyProgram, compiler, "nvrtcDestroyProgram");
    return found ? std::optional(f) : std::nullopt;
  }();
  return all ? &*all : nullptr;
}

// Empty where it cannot be. Nothing is contracted, and quotients and roots are rounded as on the host.
std::vector<char> compiled(const Functions& f, const std::string& source, int device) {
  constexpr int major_attribute = 75, minor_attribute = 76;
  int major = 0, minor = 0;
  if (f.cuDeviceGetAttribute(&major, major_attribute, device) != 0 ||
      f.cuDeviceGetAttribute(&minor, minor_attribute, device) != 0)
    return {};
  const std::string architecture = fmt::format("--gpu-architecture=sm_{}{}", major, minor);
  const std::array<const char*, 6> options{architecture.c_str(), "--fmad=false",     "--ftz=false",
                                           "--prec-div=true",    "--prec-sqrt=true", "--std=c++17"};
  void* program = nullptr;
  if (f.nvrtcCreateProgram(&program, source.c_str(), "formula.cu", 0, nullptr, nullptr) != 0) return {};
  std::vector<char> code;
  size_t bytes = 0;
  if (f.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data()) == 0 &&
      f.nvrtcGetCUBINSize(program, &bytes) == 0 && bytes > 0) {
    code.resize(bytes);
    if (f.nvrtcGetCUBIN(program, code.data()) != 0) code.clear();
  }
  f.nvrtcDestroyProgram(&program);
  return code;
}

// Since 2.10 a stream tells its handle; before that the library's default one is CUDA's, which has none.
template <class Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); })
    return stream.native_handle();
  else
    return nullptr;
}

class CudaLoop final : public DeviceLoop {
 public:
  static std::unique_ptr<DeviceLoop> make(const Program& program, const Memory& memory) {
    auto loop = std::make_unique<CudaLoop>(program, memory);
    if (loop->is_ready()) return loop;
    return make_eager_loop(program, memory);
  }

  CudaLoop(const Program& program, const Memory& memory)
      : program_(program), device_(memory.device()), ordinal_(device_.index() < 0 ? 0 : device_.index()) {
    const Functions* const f = functions();
    if (!f || f->cuDevicePrimaryCtxRetain(&context_, ordinal_) != 0) return;  // LibTorch has it for good
    f->cuCtxSetCurrent(context_);
    const std::vector<char> code = compiled(*f, cuda_source(program_), ordinal_);
    if (code.empty() || f->cuModuleLoadData(&module_, code.data()) != 0) return;
    if (f->cuModuleGetFunction(&elements_, module_, "elements") != 0 ||
        f->cuModuleGetFunction(&squares_, module_, "squares") != 0)
      elements_ = nullptr;
  }
  ~CudaLoop() override {
    if (module_) functions()->cuModuleUnload(module_);
  }
  CudaLoop(const CudaLoop&) = delete;
  CudaLoop& operator=(const CudaLoop&) = delete;

  bool is_ready() const { return elements_ != nullptr; }
  std::string_view name() const override { return "fused"; }

  void run(std::span<float* const> streams, std::span<const Piece> pieces) override {
    if (pieces.empty()) return;
    computing([&] { launch(elements_, streams, pieces, nullptr); });
  }

  std::vector<double> sums_of_squares(std::span<float* const> streams, std::span<const Piece> pieces) override {
    const size_t stores = program_.stores.size();
    std::vector<double> sums(pieces.size() * stores);
    if (pieces.empty()) return sums;
    computing([&] {
      look_at(pieces);
      const at::Tensor parts = at::empty({static_cast<int64_t>(chunks_.size() * stores)}, on_device(at::kDouble));
      launch(squares_, streams, pieces, parts.mutable_data_ptr<double>());
      const at::Tensor here = parts.to(at::kCPU);
      for (size_t c = 0; c < chunks_.size(); ++c)
        for (size_t s = 0; s < stores; ++s)
          sums[static_cast<size_t>(chunks_[c].row) * stores + s] += here.const_data_ptr<double>()[c * stores + s];
    });
    return sums;
  }

 private:
  template <class F>
  void computing(F f) try {
    const c10::DeviceGuard guard(device_);
    const c10::InferenceMode inference;
    f();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error("[optimizer] LibTorch: {}", text.substr(0, text.find('\n')));
  }

  at::TensorOptions on_device(at::ScalarType type) const { return at::dtype(type).device(device_); }
  template <class T>
  at::Tensor uploaded(const std::vector<T>& values) const {
    return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size() * sizeof(T))}, at::kByte)
        .to(device_);
  }

  // The same in every step, as a rule.
  void look_at(std::span<const Piece> pieces) {
    const auto same = [](const Piece& a, const std::pair<Index, Index>& b) {
      return a.first == b.first && a.count == b.second;
    };
    if (std::ranges::equal(pieces, seen_, same)) return;
    seen_.clear();
    chunks_.clear();
    in_lines_ = true;
    for (size_t p = 0; p < pieces.size(); ++p) {
      seen_.emplace_back(pieces[p].first, pieces[p].count);
      in_lines_ = in_lines_ && pieces[p].first % 4 == 0;
      for (Index done = 0; done < pieces[p].count; done += cuda_chunk)
        chunks_.push_back({pieces[p].first + done, static_cast<int32_t>(std::min(cuda_chunk, pieces[p].count - done)),
                           static_cast<int32_t>(p)});
    }
    device_chunks_ = uploaded(chunks_);
    numbers_.clear();
  }

  void look_at_numbers(std::span<const Piece> pieces) {
    const size_t n = program_.numbers.size();
    std::vector<float> now;
    for (const Piece& piece : pieces) now.insert(now.end(), piece.numbers, piece.numbers + n);
    if (n == 0 || now == numbers_) return;
    numbers_ = std::move(now);
    const std::span<const float> first = std::span(numbers_).first(n);
    bool shared = true;
    for (size_t p = 0; p < pieces.size(); ++p)
      shared = shared && std::ranges::equal(first, std::span(numbers_).subspan(p * n, n));
    table_ = shared ? at::Tensor() : uploaded(numbers_);
  }

  void launch(void* kernel, std::span<float* const> streams, std::span<const Piece> pieces, double* sums) {
    look_at(pieces);
    look_at_numbers(pieces);
    std::vector<float*> all(streams.begin(), streams.end());
    all.resize(static_cast<size_t>(program_.streams), nullptr);
    int wide = in_lines_;
    for (const float* stream : all) wide = wide && reinterpret_cast<uintptr_t>(stream) % 16 == 0;
    const void* const chunks = device_chunks_.const_data_ptr();
    const void* const table = table_.defined() ? table_.const_data_ptr() : nullptr;
    std::vector<float> shared(std::max<size_t>(1, program_.numbers.size()));
    std::copy_n(pieces.front().numbers, program_.numbers.size(), shared.begin());
    std::array<const void*, 6> arguments{all.data(), &chunks, &table, shared.data(), &wide, &sums};
    const Functions& f = *functions();
    f.cuCtxSetCurrent(context_);
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    void* const stream = handle_of(cuda.getStream(device_));
    const int error = f.cuLaunchKernel(kernel, static_cast<unsigned>(chunks_.size()), 1, 1, cuda_block, 1, 1, 0, stream,
                                       const_cast<void**>(arguments.data()), nullptr);
    if (error != 0) throw Error("[optimizer] CUDA could not start the update: error {}", error);
  }

  Program program_;
  at::Device device_;
  int ordinal_;
  void *context_ = nullptr, *module_ = nullptr, *elements_ = nullptr, *squares_ = nullptr;
  std::vector<std::pair<Index, Index>> seen_;  // pieces that chunks are of: first, count
  std::vector<CudaChunk> chunks_;
  at::Tensor device_chunks_;
  bool in_lines_ = true;
  std::vector<float> numbers_;  // of all pieces, that the table is of
  at::Tensor table_;            // undefined: pieces share one row
};

}  // namespace
D5_REGISTER(device_loops, "cuda", CudaLoop);
}  // namespace d5
