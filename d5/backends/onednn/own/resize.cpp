// SPDX-License-Identifier: Apache-2.0
// Resize of f32, one axis after the other: a row of the result is the sum of a few rows times their weights
// (operators/interpolation.hpp). Inference alone.
#include <algorithm>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/operators/interpolation.hpp"

namespace d5::onednn::own {
namespace {

class ResizeKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const Attributes& a = setup.node.attributes;
    if (setup.inputs[0].dtype != DType::f32)
      return fmt::format("its kernel computes in f32, not in {}", name(setup.inputs[0].dtype));
    if (std::ranges::any_of(setup.wants_gradient, [](bool wanted) { return wanted; }))
      return "its kernel has no gradient";
    if (a.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
      return "its kernel resizes the whole image";
    if (a.text("keep_aspect_ratio_policy", "stretch") != "stretch") return "its kernel stretches each axis by itself";
    return {};
  }

  void build(const KernelSetup& setup) override {
    const Attributes& a = setup.node.attributes;
    const Shape &x = setup.inputs[0].shape, &y = setup.outputs[0].shape;
    std::vector<double> scales;
    for (size_t axis = 0; axis < x.rank(); ++axis)
      scales.push_back(static_cast<double>(y[axis]) / static_cast<double>(std::max<Index>(1, x[axis])));
    if (setup.inputs.size() > 2 && setup.inputs[2].present && setup.inputs[2].elements() > 0) {
      const Tensor given = setup.inputs[2].known->cast(DType::f64);  // sizes are rounded down from them
      const auto axes = a.integers("axes");
      for (size_t i = 0; i < static_cast<size_t>(given.elements()); ++i)
        scales[axes.empty() ? i : valid_axis(axes[i], x.rank(), "[resize]")] = given.values<double>()[i];
    }
    const ResizeModes modes(a);
    steps_.clear();
    Shape shape = x;
    Index most = 0;
    for (size_t axis = 0; axis < x.rank(); ++axis) {
      const ResizedAxis resized(modes, x[axis], y[axis], scales[axis], 0, 1);
      if (resized.is_identity()) continue;
      Step step{.outer = shape.elements(0, axis),
                .input = x[axis],
                .output = y[axis],
                .inner = shape.elements(axis + 1, shape.rank())};
      for (Index o = 0; o < y[axis]; ++o) {
        step.first.push_back(step.taps.size());
        for (const Tap& tap : resized.taps(o))
          if (tap.weight != 0) step.taps.push_back({tap.input, static_cast<float>(tap.weight)});
      }
      step.first.push_back(step.taps.size());
      auto sizes = shape.sizes();
      sizes[axis] = y[axis];
      shape = Shape(std::move(sizes));
      most = std::max(most, shape.elements());
      steps_.push_back(std::move(step));
    }
    elements_ = x.elements();
    buffer_ = aligned_bytes(sizeof(float) * static_cast<size_t>(most));
    if (steps_.size() > 1) need_scratch(2 * buffer_);
    parts_ = threads();
  }

  void run(Pass, const Buffers& b) override {
    const auto* from = static_cast<const float*>(b.inputs[0]);
    if (steps_.empty()) return copy_bytes(parts_, b.outputs[0], from, elements_ * 4, false);
    for (size_t s = 0; s < steps_.size(); ++s) {
      float* to = s + 1 == steps_.size() ? static_cast<float*>(b.outputs[0]) : floats(b.scratch, s % 2 * buffer_);
      apply(steps_[s], from, to);
      from = to;
    }
  }

 private:
  struct Weight {
    Index input;
    float weight;
  };
  struct Step {
    Index outer = 1, input = 1, output = 1, inner = 1;
    std::vector<Weight> taps = {};
    std::vector<size_t> first = {};  // by output, and the end
  };

  void apply(const Step& step, const float* from, float* to) const {
    for_each_part(parts_, step.outer * step.output, [&](int, Index first, Index last) {
      for (Index row = first; row < last; ++row) {
        const Index o = row % step.output;
        const float* lines = from + row / step.output * step.input * step.inner;
        float* y = to + row * step.inner;
        std::fill_n(y, step.inner, 0.0f);
        for (size_t t = step.first[static_cast<size_t>(o)]; t < step.first[static_cast<size_t>(o) + 1]; ++t) {
          const auto [input, weight] = step.taps[t];
          const float* x = lines + input * step.inner;
          for (Index i = 0; i < step.inner; ++i) y[i] += weight * x[i];
        }
      }
    });
  }

  std::vector<Step> steps_;
  Index elements_ = 0;
  size_t buffer_ = 0;
  int parts_ = 1;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Resize", "builtin", ResizeKernel);
}  // namespace d5::onednn::own
