// SPDX-License-Identifier: Apache-2.0
// With a probability the image is mirrored: x' = W - 1 - x (horizontal), or y' = H - 1 - y (vertical).
#include <algorithm>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

class Flip final : public ImageStep {
 public:
  static constexpr const char* about = "mirrors the image with a probability";
  static std::vector<DataOption> options() {
    return {{"probability", "of a mirrored image", 0.5},
            {"axis", "horizontal or vertical", std::string("horizontal")},
            field_option()};
  }

  Flip(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place),
        probability_(real_in(values, "probability", 0, 1, place)),
        horizontal_(one_of(values, "axis", {"horizontal", "vertical"}, place) == "horizontal") {}
  bool in_place() const override { return true; }
  void apply(const Sample&, Sample& out, const Draw& draw) const override {
    if (draw.rng.uniform(0) >= probability_) return;
    const Tensor& image_tensor = out[image()];
    const ImageSize size = size_of(image_tensor.shape());
    with_pixel_type(dtype(), [&](auto pixel) {
      using T = decltype(pixel);
      T* line = image_tensor.values<T>().data();
      for (Index c = 0; c < size.channels; ++c, line += size.plane()) {
        if (horizontal_)
          for (Index y = 0; y < size.height; ++y) std::reverse(line + y * size.width, line + (y + 1) * size.width);
        else
          for (Index y = 0; y < size.height / 2; ++y)
            std::swap_ranges(line + y * size.width, line + (y + 1) * size.width,
                             line + (size.height - 1 - y) * size.width);
      }
    });
  }

 private:
  static constexpr const char* place = "[augmentation flip]";
  double probability_;
  bool horizontal_;
};

}  // namespace
D5_REGISTER(augmentations, "flip", Flip);
}  // namespace d5
