// SPDX-License-Identifier: Apache-2.0
// DynamicQuantizeLinear of f32: the range of all numbers and 0, by parts for threads, then u8 by the scale that it
// gives (operators/quantize_linear.cpp).
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

struct Range {
  float low = 0, high = 0;
};

Range range_of(const float* x, Index n) {
  constexpr Index lanes = 16;
  float low[lanes] = {}, high[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Index lane = 0; lane < lanes; ++lane) {
      low[lane] = x[i + lane] < low[lane] ? x[i + lane] : low[lane];
      high[lane] = x[i + lane] > high[lane] ? x[i + lane] : high[lane];
    }
  for (; i < n; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  return {*std::min_element(low, low + lanes), *std::max_element(high, high + lanes)};
}

void quantize(const float* x, float scale, float zero, uint8_t* y, Index n) {
  constexpr float nearest = 0x1.8p23f;  // added and subtracted: the nearest integer, ties to even
  for (Index i = 0; i < n; ++i) {
    const float q = (x[i] / scale + nearest) - nearest + zero;
    const float bounded = q > 255.0f ? 255.0f : q > 0.0f ? q : 0.0f;  // 0 for what is no number
    y[i] = static_cast<uint8_t>(static_cast<int>(bounded));
  }
}

class DynamicQuantizeKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs[0].dtype == DType::f32) return {};
    return fmt::format("its kernel computes in f32, not in {}", name(setup.inputs[0].dtype));
  }

  void build(const KernelSetup& setup) override {
    elements_ = setup.inputs[0].elements();
    parts_ = threads();
    need_scratch(static_cast<size_t>(parts_) * alignment_bytes);
  }

  void run(Pass, const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    const auto found = [&](int part) -> Range& {
      return *reinterpret_cast<Range*>(static_cast<char*>(b.scratch) + static_cast<size_t>(part) * alignment_bytes);
    };
    for_each_part(parts_, elements_,
                  [&](int part, Index first, Index last) { found(part) = range_of(x + first, last - first); });
    Range all;
    for (int part = 0; part < parts_; ++part)
      all = {std::min(all.low, found(part).low), std::max(all.high, found(part).high)};
    const float scale = (all.low == all.high ? 1.0f : all.high - all.low) / 255.0f;
    const float zero = std::nearbyint(std::clamp(-all.low / scale, 0.0f, 255.0f));
    if (b.outputs[0])
      for_each_part(parts_, elements_, [&](int, Index first, Index last) {
        quantize(x + first, scale, zero, static_cast<uint8_t*>(b.outputs[0]) + first, last - first);
      });
    if (b.outputs.size() > 1 && b.outputs[1]) *static_cast<float*>(b.outputs[1]) = scale;
    if (b.outputs.size() > 2 && b.outputs[2]) *static_cast<uint8_t*>(b.outputs[2]) = static_cast<uint8_t>(zero);
  }

 private:
  Index elements_ = 0;
  int parts_ = 1;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "DynamicQuantizeLinear", "builtin", DynamicQuantizeKernel);
}  // namespace d5::onednn::own
