// SPDX-License-Identifier: Apache-2.0
// Kernels that write where they may not are named, with the buffer.
#include <gmock/gmock.h>

#include <csignal>

#include "d5/backends/kernel.hpp"
#include "d5/core/guard.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

// Relu by a copy; afterwards it writes one float at `offset` from the begin of the buffer that `pick` chooses.
template <class Pick>
class Stray final : public Kernel {
 public:
  std::string implementation() const override { return "stray"; }
  size_t workspace_bytes() const override { return 40; }
  void bind(int binding, const Buffers& buffers) override {
    if (binding == 0) buffers_ = buffers;
  }
  void forward(int) override { write(Pass::forward); }
  void backward(int) override { write(Pass::backward); }

 private:
  void write(Pass pass) {
    const auto [buffer, offset] = Pick{}(buffers_, pass);
    if (buffer) static_cast<float*>(buffer)[offset] = 1;
  }
  Buffers buffers_;
};
using Where = std::pair<void*, Index>;

constexpr Index elements = 3;  // 12 bytes: the guard begins inside a line
struct Inside {
  Where operator()(const Buffers& b, Pass) const { return {b.outputs[0], elements - 1}; }
};
struct Beyond {
  Where operator()(const Buffers& b, Pass) const { return {b.outputs[0], elements}; }
};
struct Before {
  Where operator()(const Buffers& b, Pass) const { return {b.outputs[0], -1}; }
};
struct Gradient {
  Where operator()(const Buffers& b, Pass pass) const {
    return {pass == Pass::backward ? b.input_gradients[0] : nullptr, elements};
  }
};
struct Workspace {
  Where operator()(const Buffers& b, Pass) const { return {b.workspace, 10}; }
};
D5_REGISTER_KERNEL(reference, "Relu", "inside", Stray<Inside>);
D5_REGISTER_KERNEL(reference, "Relu", "beyond", Stray<Beyond>);
D5_REGISTER_KERNEL(reference, "Relu", "before", Stray<Before>);
D5_REGISTER_KERNEL(reference, "Relu", "gradient", Stray<Gradient>);
D5_REGISTER_KERNEL(reference, "Relu", "workspace", Stray<Workspace>);

std::string overrun_of(const std::string& kernel, bool parameter = false) {
  OperatorCase one{.inputs = {{.spec = {DType::f32, {elements}}, .parameter = parameter}}};
  CompileOptions options{.mode = Mode::training, .input_gradients = true, .kernel = kernel};
  ParameterSet parameters(DType::f32, guarded_memory());
  auto executable = open_backend("reference")->compile(single_node_graph("Relu", one), parameters, options);
  EXPECT_EQ(executable->overrun(), "");
  executable->forward({});
  executable->backward({});
  return executable->overrun();
}

TEST(Overrun, NamesTheKernelAndTheBuffer) {
  EXPECT_EQ(overrun_of("inside"), "");
  EXPECT_EQ(overrun_of("beyond"), "Relu (stray) wrote byte 1 beyond the end of y0");
  EXPECT_THAT(overrun_of("before"), HasSubstr("Relu (stray) wrote byte 1 before the begin of y0"));
  EXPECT_THAT(overrun_of("gradient"), HasSubstr("beyond the end of gradient of x0"));
  EXPECT_THAT(overrun_of("workspace"), HasSubstr("beyond the end of the workspace of Relu"));
}

// What rounds a parameter up to a whole line is zero; 1.0f is 00 00 80 3f.
TEST(Overrun, SeesTheGradientOfAParameter) {
  EXPECT_THAT(overrun_of("gradient", true), HasSubstr("Relu (stray) wrote byte 3 beyond the end of gradient of x0"));
  EXPECT_EQ(overrun_of("inside", true), "");
}

TEST(Overrun, GuardedMemoryIsAlignedAndSeesBothEnds) {
  const Tensor tensor(DType::u8, {100}, guarded_memory());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % alignment_bytes, 0u);
  tensor.fill_bytes(7);
  EXPECT_EQ(overrun(tensor), "");
  static_cast<char*>(tensor.data())[-3] = 1;
  EXPECT_EQ(overrun(tensor), "byte 3 before the begin");
  static_cast<char*>(tensor.data())[100] = 1;
  EXPECT_EQ(overrun(tensor), "byte 1 beyond the end");
}

TEST(Overrun, WideGuardsReachAsFarAsAnIndexOf32Bits) {
  const auto after = [](Index at) {
    const Tensor tensor(DType::f64, {100}, widely_guarded_memory());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % alignment_bytes, 0u);
    tensor.fill_bytes(7);
    EXPECT_EQ(overrun(tensor), "");
    static_cast<volatile double*>(tensor.data())[at] = 1;
    return overrun(tensor);
  };
  EXPECT_EQ(after(99), "");
  EXPECT_EQ(after(100), "byte 1 beyond the end");
  EXPECT_THAT(after(-1), HasSubstr("before the begin"));
  EXPECT_EQ(after(100 + (1 << 20)), "byte 8388609 beyond the end");
  EXPECT_EQ(after(-(1 << 20)), "byte 8388608 before the begin");
  EXPECT_EQ(after(Index{1} << 31), "byte 17179868385 beyond the end");       // 2^34 - 800 + 1
  EXPECT_EQ(after(-(Index{1} << 31)), "byte 17179869184 before the begin");  // 2^34
}

// Nothing of a tensor is left to one that lies in the same place later, and reading is no fault.
TEST(Overrun, FarGuardsBeginAnew) {
  for (int i = 0; i < 3; ++i) {
    const Tensor tensor(DType::u8, {5}, widely_guarded_memory());
    const auto* data = static_cast<volatile char*>(tensor.data());
    EXPECT_EQ(data[1 << 30], 0);
    EXPECT_EQ(overrun(tensor), "");
    static_cast<volatile char*>(tensor.data())[1 << 30] = 1;  // on the page that was read
    EXPECT_EQ(overrun(tensor), "byte 1073741820 beyond the end");
  }
}

// More tensors than there is room for far guards still have the near ones.
TEST(Overrun, ManyTensorsHaveWideGuards) {
  std::vector<Tensor> all;
  for (int i = 0; i < 300; ++i) all.emplace_back(DType::u8, Shape{100}, widely_guarded_memory());
  static_cast<char*>(all.back().data())[100 + 1000] = 1;
  EXPECT_EQ(overrun(all.back()), "byte 1001 beyond the end");
  EXPECT_EQ(overrun(all.front()), "");
}

TEST(Overrun, ASignalThatIsNoFaultOfAGuardEndsTheProcess) {
  const Tensor tensor(DType::u8, {5}, widely_guarded_memory());
  volatile int* volatile nowhere = nullptr;
  EXPECT_DEATH(std::raise(SIGSEGV), "");
  EXPECT_DEATH(*nowhere = 1, "");
}

}  // namespace
}  // namespace d5
