// SPDX-License-Identifier: Apache-2.0
// What networks for ImageNet are tested on: the picture scaled until its shorter side has so many pixels, and the
// middle of that; as torchvision's Resize(256) and CenterCrop(224) do it, in one step.
#include <algorithm>
#include <cmath>

#include "d5/datasets/crop_step.hpp"

namespace d5 {
namespace {

class CentreCrop final : public CropStep {
 public:
  static constexpr const char* about = "the shorter side scaled to a size, then the middle; decodes that part alone";
  static std::vector<DataOption> options() {
    std::vector<DataOption> all = size_options();
    all.push_back({"shorter", "pixels of the shorter side before the crop", int64_t{256}});
    all.push_back(field_option());
    return all;
  }

  CentreCrop(const std::vector<Field>& in, const Attributes& values)
      : CropStep(in, values, place), shorter_(integer_in(values, "shorter", 1, 1 << 14, place)) {
    if (shorter_ < std::max(height_, width_))
      throw UsageError("{} shorter = {} is less than the crop of {}x{}", place, shorter_, height_, width_);
  }

  void apply(const Sample& in, Sample& out, const Draw&) const override {
    const ImageSize size = stored_size(in[image()]);
    const auto along = [&](Index whole, Index wanted) {
      const Index scaled = shorter_ * whole / std::min(size.height, size.width);
      const double step = static_cast<double>(whole) / static_cast<double>(scaled);
      const double begin = std::nearbyint(static_cast<double>(scaled - wanted) / 2);
      return std::pair{begin * step, static_cast<double>(wanted) * step};
    };
    const auto [top, height] = along(size.height, height_);
    const auto [left, width] = along(size.width, width_);
    cut(in[image()], {top, left, height, width}, true, out);
  }

 private:
  static constexpr const char* place = "[augmentation centre-crop]";
  Index shorter_;
};

}  // namespace
D5_REGISTER(augmentations, "centre-crop", CentreCrop);
}  // namespace d5
