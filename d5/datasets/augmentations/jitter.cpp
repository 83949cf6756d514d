// SPDX-License-Identifier: Apache-2.0
// Colour jitter. Factors b, c, s are uniform in [1 - amount, 1 + amount]; in this order, each clamped to the range of
// pixels (0 .. 255, or 0 .. 1 in f32), with the brightness g(x) = 0.299 r + 0.587 g + 0.114 b:
//   brightness   x = b x
//   contrast     x = c x + (1 - c) mean of g over the image
//   saturation   x = s x + (1 - s) g(x)          (three channels only)
#include <algorithm>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

class Jitter final : public ImageStep {
 public:
  static constexpr const char* about = "random brightness, contrast and saturation";
  static std::vector<DataOption> options() {
    return {{"brightness", "largest change of the factor", 0.4},
            {"contrast", "largest change of the factor", 0.4},
            {"saturation", "largest change of the factor", 0.4},
            field_option()};
  }

  Jitter(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place),
        brightness_(real_in(values, "brightness", 0, 1, place)),
        contrast_(real_in(values, "contrast", 0, 1, place)),
        saturation_(real_in(values, "saturation", 0, 1, place)) {}
  bool in_place() const override { return true; }
  void apply(const Sample&, Sample& out, const Draw& draw) const override {
    const auto factor = [&](uint64_t number, double amount) {
      return static_cast<float>(1 + amount * (2 * draw.rng.uniform(number) - 1));
    };
    const float brightness = factor(0, brightness_), contrast = factor(1, contrast_),
                saturation = factor(2, saturation_);
    const Tensor& image_tensor = out[image()];
    const ImageSize size = size_of(image_tensor.shape());
    const float most = dtype() == DType::u8 ? 255 : 1;
    const auto clamped = [most](float value) { return std::clamp(value, 0.0f, most); };
    const Index plane = size.plane();
    const bool colours = size.channels == 3;
    std::vector<float> x(static_cast<size_t>(size.channels * plane));
    with_pixel_type(dtype(), [&](auto pixel) {
      using T = decltype(pixel);
      T* pixels = image_tensor.values<T>().data();
      for (size_t i = 0; i < x.size(); ++i) x[i] = clamped(brightness * static_cast<float>(pixels[i]));
      const auto grey = [&](Index i) {
        const float* at = x.data() + i;
        return colours ? 0.299f * at[0] + 0.587f * at[plane] + 0.114f * at[2 * plane] : at[0];
      };
      double sum = 0;
      for (Index i = 0; i < plane; ++i) sum += grey(i);
      const auto middle = static_cast<float>((1 - contrast) * sum / static_cast<double>(std::max<Index>(1, plane)));
      for (float& value : x) value = clamped(contrast * value + middle);
      if (colours)
        for (Index i = 0; i < plane; ++i) {
          const float own = (1 - saturation) * grey(i);
          for (Index c = 0; c < 3; ++c) x[c * plane + i] = clamped(saturation * x[c * plane + i] + own);
        }
      for (size_t i = 0; i < x.size(); ++i)
        pixels[i] = std::is_same_v<T, float> ? static_cast<T>(x[i]) : static_cast<T>(x[i] + 0.5f);
    });
  }

 private:
  static constexpr const char* place = "[augmentation jitter]";
  double brightness_, contrast_, saturation_;
};

}  // namespace
D5_REGISTER(augmentations, "jitter", Jitter);
}  // namespace d5
