// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/row_products.hpp"

#include <string_view>

#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"
#include "d5/backends/onednn/own/row_loops.hpp"

namespace d5::onednn::own {

namespace baseline {
extern const RowProducts row_products;
}
#if defined(__x86_64__)
namespace avx2 {
extern const RowProducts row_products;
}
namespace avx512 {
extern const RowProducts row_products;
}
#endif

namespace {

RowProducts chosen_loop() {
  [[maybe_unused]] const std::string_view isa = loops().isa;
#if defined(__x86_64__)
  if (isa == "avx512") return avx512::row_products;
  if (isa == "avx2") return avx2::row_products;
#endif
  return baseline::row_products;
}

class RowProductsKernel final : public OwnKernel {
 public:
  std::string implementation() const override { return OwnKernel::implementation() + " rows"; }

 protected:
  void build(const KernelSetup& setup) override {
    rows_ = setup.inputs[1].shape[0];
    n_ = setup.inputs[1].shape[1];
    relu_ = !setup.followers.empty();
    has_bias_ = setup.node.inputs.size() > 2 && setup.inputs[2].present;
    parts_ = threads();
    loop_ = chosen_loop();
  }
  void run(Pass, const Buffers& b) override {
    const auto* bias = has_bias_ ? static_cast<const float*>(b.inputs[2]) : nullptr;
    for_each_part(parts_, rows_, [&](int, Index first, Index last) {
      loop_(static_cast<const float*>(b.inputs[1]) + first * n_, static_cast<const float*>(b.inputs[0]),
            bias ? bias + first : nullptr, static_cast<float*>(b.outputs[0]) + first, last - first, n_, relu_);
    });
  }

 private:
  Index rows_ = 0, n_ = 0;
  bool relu_ = false, has_bias_ = false;
  int parts_ = 1;
  RowProducts loop_ = nullptr;
};

}  // namespace

bool suits_row_products(const KernelSetup& setup) {
  constexpr double from_memory = 8 << 20;  // bytes: what is smaller may be in a cache, where packed weights are fast
  const Attributes& a = setup.node.attributes;
  if (!setup.in_network || setup.training() || setup.options.math != Math::strict || !setup.is_parameter[1])
    return false;
  if (a.flag("transA", false) || !a.flag("transB", false) || a.real("alpha", 1) != 1 || a.real("beta", 1) != 1)
    return false;
  for (const TensorSpec& spec : setup.inputs)
    if (spec.present && spec.dtype != DType::f32) return false;
  const TensorSpec &x = setup.inputs[0], &weights = setup.inputs[1];
  if (x.shape[0] != 1 || weights.bytes() < from_memory) return false;
  if (setup.node.inputs.size() > 2 && setup.inputs[2].present && setup.inputs[2].elements() != weights.shape[0])
    return false;
  return setup.followers.empty() || (setup.followers.size() == 1 && setup.followers[0].node.op == "Relu");
}

std::unique_ptr<Kernel> make_row_products() { return std::make_unique<RowProductsKernel>(); }

}  // namespace d5::onednn::own
