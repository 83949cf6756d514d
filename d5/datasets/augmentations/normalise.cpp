// SPDX-License-Identifier: Apache-2.0
// f32 from u8 (0 .. 255 taken as 0 .. 1) or f32:   y_c = (x_c / scale - mean_c) / deviation_c.
#include <cmath>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

class Normalise final : public ImageStep {
 public:
  static constexpr const char* about = "f32 with given mean and deviation of each channel";
  static std::vector<DataOption> options() {
    return {{"mean", "of each channel, or one for all, of values from 0 to 1", std::vector<double>{0.0}},
            {"deviation", "of each channel, or one for all", std::vector<double>{1.0}},
            field_option()};
  }

  Normalise(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place),
        from_(dtype()),
        mean_(values.reals("mean")),
        deviation_(values.reals("deviation")) {
    Field& field = image_field();
    if (mean_.empty() || deviation_.empty()) throw UsageError("{} mean and deviation need a value each", place);
    if (field.shape) check(size_of(*field.shape).channels);
    for (const double mean : mean_)
      if (!std::isfinite(mean)) throw UsageError("{} mean = {}; legal: finite numbers", place, mean);
    for (const double deviation : deviation_)
      if (!(deviation > 0) || std::isinf(deviation))
        throw UsageError("{} deviation = {}; legal: above 0", place, deviation);
    field.dtype = DType::f32;
  }
  bool in_place() const override { return false; }
  void apply(const Sample& in, Sample& out, const Draw&) const override {
    const Tensor& from = in[image()];
    const ImageSize size = size_of(from.shape());
    check(size.channels);
    float* result = written(out, image(), DType::f32, from.shape()).values<float>().data();
    with_pixel_type(from_, [&](auto pixel) {
      using T = decltype(pixel);
      const T* plane = from.values<T>().data();
      for (Index c = 0; c < size.channels; ++c, plane += size.plane(), result += size.plane()) {
        const double range = std::is_same_v<T, uint8_t> ? 255 : 1, deviation = of(deviation_, c);
        const auto factor = static_cast<float>(1 / (range * deviation));
        const auto offset = static_cast<float>(-of(mean_, c) / deviation);
        for (Index i = 0; i < size.plane(); ++i) result[i] = static_cast<float>(plane[i]) * factor + offset;
      }
    });
  }

 private:
  static constexpr const char* place = "[augmentation normalise]";
  static double of(const std::vector<double>& values, Index channel) {
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
  }
  void check(Index channels) const {
    for (const auto* values : {&mean_, &deviation_})
      if (values->size() != 1 && static_cast<Index>(values->size()) != channels)
        throw UsageError("{} {} values for an image of {} channels; legal: 1 or {}", place, values->size(), channels,
                         channels);
  }
  DType from_;
  std::vector<double> mean_, deviation_;
};

}  // namespace
D5_REGISTER(augmentations, "normalise", Normalise);
}  // namespace d5
