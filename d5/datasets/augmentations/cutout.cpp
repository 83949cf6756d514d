// SPDX-License-Identifier: Apache-2.0
// Cutout (DeVries and Taylor, 2017): a square of side `size` around a uniform pixel is set to `value`; what lies beyond
// the edge is cut off.
#include <algorithm>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

class Cutout final : public ImageStep {
 public:
  static constexpr const char* about = "a square at a random place is blanked";
  static std::vector<DataOption> options() {
    return {{"size", "side of the square", int64_t{8}}, {"value", "that it is set to", 0.0}, field_option()};
  }

  Cutout(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place),
        size_(integer_in(values, "size", 0, 1 << 20, place)),
        value_(real_in(values, "value", dtype() == DType::u8 ? 0 : -1e30, dtype() == DType::u8 ? 255 : 1e30, place)) {}
  bool in_place() const override { return true; }
  void apply(const Sample&, Sample& out, const Draw& draw) const override {
    const Tensor& image_tensor = out[image()];
    const ImageSize size = size_of(image_tensor.shape());
    const auto span = [&](uint64_t number, Index whole) {
      const Index first = static_cast<Index>(draw.rng.below(number, static_cast<uint64_t>(whole))) - size_ / 2;
      return std::pair{std::max<Index>(first, 0), std::min(first + size_, whole)};
    };
    const std::pair<Index, Index> rows = span(0, size.height), columns = span(1, size.width);
    with_pixel_type(dtype(), [&](auto pixel) {
      using T = decltype(pixel);
      T* plane = image_tensor.values<T>().data();
      for (Index c = 0; c < size.channels; ++c, plane += size.plane())
        for (Index y = rows.first; y < rows.second; ++y)
          std::fill(plane + y * size.width + columns.first, plane + y * size.width + columns.second,
                    static_cast<T>(value_));
    });
  }

 private:
  static constexpr const char* place = "[augmentation cutout]";
  Index size_;
  double value_;
};

}  // namespace
D5_REGISTER(augmentations, "cutout", Cutout);
}  // namespace d5
