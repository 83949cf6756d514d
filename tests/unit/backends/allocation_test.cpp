// SPDX-License-Identifier: Apache-2.0
// The steady state allocates nothing: every allocation of the process goes through this file, which notes who asked.
// oneDNN itself builds a small table of arguments in each call (as it does for a direct caller); that is counted apart.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "d5/backends/backend.hpp"
#include "small_networks.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define D5_COUNTS_ALLOCATIONS 0
#else
#define D5_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> count{0};
struct Asked {
  const void* caller;
  size_t bytes;
};
std::array<Asked, 1 << 18> asked{};

[[maybe_unused]] void note(const void* caller, size_t bytes) {  // a sanitizer has its own malloc: nobody calls this
  if (!counting) return;
  const size_t i = count++;
  if (i < asked.size()) asked[i] = {caller, bytes};
}

}  // namespace

#if D5_COUNTS_ALLOCATIONS
#define D5_EXPORT __attribute__((visibility("default"), noinline))
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
D5_EXPORT void* malloc(size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_malloc(bytes);
}
D5_EXPORT void* calloc(size_t n, size_t bytes) {
  note(__builtin_return_address(0), n * bytes);
  return __libc_calloc(n, bytes);
}
D5_EXPORT void* realloc(void* old, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_realloc(old, bytes);
}
D5_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
D5_EXPORT int posix_memalign(void** result, size_t alignment, size_t bytes) {
  note(__builtin_return_address(0), bytes);
  *result = __libc_memalign(alignment, bytes);
  return *result ? 0 : ENOMEM;
}
}
// The library's operator new would hide who called it.
D5_EXPORT void* operator new(size_t bytes) {
  note(__builtin_return_address(0), bytes);
  if (void* p = __libc_malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
D5_EXPORT void* operator new(size_t bytes, std::align_val_t alignment) {
  note(__builtin_return_address(0), bytes);
  if (void* p = __libc_memalign(static_cast<size_t>(alignment), bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
D5_EXPORT void operator delete(void* p) noexcept { std::free(p); }
D5_EXPORT void operator delete(void* p, size_t) noexcept { std::free(p); }
D5_EXPORT void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
D5_EXPORT void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace d5 {
namespace {

struct Counted {
  size_t ours = 0, library = 0;
  size_t large = 0, library_large = 0;  // bytes of those that are at least 16 KiB
  std::string who;                      // the first of ours
};

template <class F>
Counted count_allocations(F&& f) {
  count = 0;
  counting = true;
  f();
  counting = false;
  EXPECT_LE(count.load(), asked.size());
  Counted result;
  for (size_t i = 0; i < std::min(count.load(), asked.size()); ++i) {
    Dl_info info{};
    const std::string module = dladdr(asked[i].caller, &info) && info.dli_fname ? info.dli_fname : "?";
    const size_t large = asked[i].bytes >= (1 << 14) ? asked[i].bytes : 0;
    if (module.find("libdnnl") != std::string::npos || module.find("libgomp") != std::string::npos) {
      ++result.library;
      result.library_large += large;
    } else {
      result.large += large;
      if (result.ours++ == 0) result.who = module + " " + (info.dli_sname ? info.dli_sname : "");
    }
  }
  return result;
}

bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

class Allocations : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!D5_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer owns malloc";
    if (!is_on("onednn")) GTEST_SKIP() << "onednn is off";
  }
};

TEST_P(Allocations, TheSteadyStateAllocatesNothingAndBuffersStay) {
  const std::string op = GetParam();
  const OperatorEntry& entry = registered<operators>(op);
  const auto backend = open_backend("onednn");
  for (const bool time_reorders : {false, true}) {
    const OperatorCase one = entry.describe(complete_values(op, entry, entry.cases.front()), DType::f32);
    const Graph graph = single_node_graph(op, one);
    CompileOptions options;
    options.mode = Mode::training;
    options.input_gradients = true;
    options.time_reorders = time_reorders;
    if (backend->why_not(graph, options)) continue;
    ParameterSet parameters;
    const auto run = backend->compile(graph, parameters, options);
    const auto step = [&] {
      run->forward({});
      run->backward({});
      run->backward({.add_gradients = true});
    };
    step();
    const Tensor before = run->view(Executable::Role::value, "x0");
    const Counted first = count_allocations(step), second = count_allocations(step);
    EXPECT_EQ(first.ours, 0u) << first.who;
    EXPECT_EQ(second.ours, 0u) << second.who;
    EXPECT_EQ(first.library, second.library);
    EXPECT_EQ(run->view(Executable::Role::value, "x0").data(), before.data());
    RecordProperty("allocations_inside_onednn_per_step", static_cast<int>(second.library));
  }
}

TEST_F(Allocations, TheStepsOfANetworkAllocateNothing) {
  const auto backend = open_backend("onednn");
  for (const Graph& graph : {small::residual(true), small::lenet(), small::mobile(true), small::encoder()})
    for (const Mode mode : {Mode::training, Mode::inference}) {
      CompileOptions options;
      options.mode = mode;
      ParameterSet parameters;
      const auto run = backend->compile(graph, parameters, options);
      const auto step = [&] {
        run->forward({});
        if (mode == Mode::training) run->backward({});
      };
      step();
      const Counted first = count_allocations(step), second = count_allocations(step);
      EXPECT_EQ(first.ours, 0u) << graph.name << ": " << first.who;
      EXPECT_EQ(second.ours, 0u) << graph.name << ": " << second.who;
      EXPECT_EQ(first.library, second.library) << graph.name;
    }
}

// All memory of an executable is there when it is compiled: what was asked for then is what bytes() says, beside the
// parameters and what is needed to plan. (The library's own is code that it generates.)
TEST_F(Allocations, PlannedMemoryIsMeasuredMemory) {
  const auto backend = open_backend("onednn");
  const Graph graph = small::residual(true, 32, 32);
  CompileOptions options;
  options.mode = Mode::training;
  ParameterSet parameters;
  std::unique_ptr<Executable> run;
  const Counted compiled = count_allocations([&] { run = backend->compile(graph, parameters, options); });
  const size_t set = 2 * static_cast<size_t>(parameters.elements()) * sizeof(float);
  EXPECT_GE(compiled.large, run->bytes() + set);
  EXPECT_LE(compiled.large, run->bytes() + set + (1 << 20));
  const Counted steps = count_allocations([&] {
    run->forward({});
    run->backward({});
  });
  EXPECT_EQ(steps.large + steps.library_large, 0u);
}

// The count must be able to fail.
TEST_F(Allocations, SeesAnAllocation) {
  const Counted counted = count_allocations([] { std::vector<int> values(100); });
  EXPECT_GE(counted.ours, 1u);
}

INSTANTIATE_TEST_SUITE_P(Operators, Allocations,
                         testing::Values("Gemm", "MatMul", "Conv", "MaxPool", "Softmax", "BatchNormalization",
                                         // our own
                                         "Relu", "Add", "Where", "Max", "MeanSquaredError", "ReduceMax", "ReduceSum",
                                         "LogSoftmax", "LayerNormalization", "GroupNormalization", "Dropout",
                                         "SoftmaxCrossEntropyLoss", "Transpose", "Slice", "Pad", "Concat", "Split",
                                         "Tile", "Gather", "ScatterElements", "TopK", "CumSum", "Cast", "Attention"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace d5
