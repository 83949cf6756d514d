// SPDX-License-Identifier: Apache-2.0
// Bilinear resize with half-pixel centres and no filter: output pixel y lies at s = (y + 1/2) H / H' - 1/2 of the
// input, clamped to it; value = (1 - f) in(floor s) + f in(floor s + 1), f = s - floor s, along both axes. u8 is
// rounded to nearest, halves up.
#include <algorithm>
#include <cmath>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

struct Tap {
  Index low, high;
  float fraction;
};

std::vector<Tap> taps(Index from, Index to) {
  std::vector<Tap> all;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (Index i = 0; i < to; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(from - 1));
    const auto low = static_cast<Index>(at);
    all.push_back({low, std::min(low + 1, from - 1), static_cast<float>(at - static_cast<double>(low))});
  }
  return all;
}

class Resize final : public ImageStep {
 public:
  static constexpr const char* about = "bilinear, to a fixed height and width";
  static std::vector<DataOption> options() {
    return {{"height", "of the result", int64_t{224}},
            {"width", "of the result; 0: the height", int64_t{0}},
            field_option()};
  }

  Resize(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place), height_(integer_in(values, "height", 1, 1 << 16, place)) {
    width_ = integer_in(values, "width", 0, 1 << 16, place);
    if (width_ == 0) width_ = height_;
    Field& field = image_field();
    // An image without a fixed size is a picture of three channels, as decoders give them.
    field.shape = field.shape ? shape_of(*field.shape, height_, width_) : Shape{3, height_, width_};
  }
  bool in_place() const override { return false; }
  void apply(const Sample& in, Sample& out, const Draw&) const override {
    const Tensor& from = in[image()];
    const ImageSize size = size_of(from.shape());
    const Shape made = shape_of(from.shape(), height_, width_);
    if (made != *fields_[image()].shape)
      throw SampleError("{} an image of shape {} does not become {}", place, to_string(from.shape()),
                        to_string(*fields_[image()].shape));
    if (size.plane() == 0) throw SampleError("{} an image of {}x{} pixels", place, size.height, size.width);
    const Tensor& to = written(out, image(), dtype(), made);
    const std::vector<Tap> rows = taps(size.height, height_), columns = taps(size.width, width_);
    with_pixel_type(dtype(), [&](auto pixel) {
      using T = decltype(pixel);
      const T* plane = from.values<T>().data();
      T* result = to.values<T>().data();
      for (Index c = 0; c < size.channels; ++c, plane += size.plane())
        for (const Tap& row : rows) {
          const T *upper = plane + row.low * size.width, *lower = plane + row.high * size.width;
          for (const Tap& column : columns) {
            const auto mix = [&](const T* line) {
              const auto low = static_cast<float>(line[column.low]), high = static_cast<float>(line[column.high]);
              return low + column.fraction * (high - low);
            };
            const float top = mix(upper), value = top + row.fraction * (mix(lower) - top);
            *result++ = std::is_same_v<T, float> ? static_cast<T>(value) : static_cast<T>(value + 0.5f);
          }
        }
    });
  }

 private:
  static constexpr const char* place = "[augmentation resize]";
  Index height_, width_;
};

}  // namespace
D5_REGISTER(augmentations, "resize", Resize);
}  // namespace d5
