// SPDX-License-Identifier: Apache-2.0
// Random resized crop (C. Szegedy et al., arXiv 1409.4842, section 6; drawn as torchvision's RandomResizedCrop does):
// an area of a uniform share of the picture, its ratio of width to height uniform in the logarithm, both rounded to
// whole pixels, at a uniform place. What does not fit is drawn again; after ten times it is the middle, as much as the
// ratios allow.
#include <cmath>

#include "d5/datasets/crop_step.hpp"

namespace d5 {
namespace {

class RandomResizedCrop final : public CropStep {
 public:
  static constexpr const char* about = "a random part of the picture, brought to a fixed size; decodes that part alone";
  static std::vector<DataOption> options() {
    std::vector<DataOption> all = size_options();
    all.push_back({"scale", "share of the picture's area, from and to", std::vector<double>{0.08, 1.0}});
    all.push_back({"ratio", "width / height of the part, from and to", std::vector<double>{3.0 / 4, 4.0 / 3}});
    all.push_back(field_option());
    return all;
  }

  RandomResizedCrop(const std::vector<Field>& in, const Attributes& values)
      : CropStep(in, values, place), scale_(range(values, "scale", 1)), ratio_(range(values, "ratio", 1000)) {}

  void apply(const Sample& in, Sample& out, const Draw& draw) const override {
    cut(in[image()], area(stored_size(in[image()]), draw.rng), false, out);
  }

 private:
  static constexpr const char* place = "[augmentation random-resized-crop]";
  using Range = std::pair<double, double>;

  static Range range(const Attributes& values, const std::string& name, double most) {
    const std::vector<double> both = values.reals(name);
    if (both.size() != 2 || !(both[0] > 0) || !(both[0] <= both[1]) || !(both[1] <= most))
      throw UsageError("{} {} = {}; legal: two numbers above 0, the second not below the first and at most {}", place,
                       name, to_string(Value(both)), most);
    return {both[0], both[1]};
  }

  Area area(const ImageSize& size, const Rng& rng) const {
    constexpr uint64_t attempts = 10, draws = 4;
    const auto between = [&](uint64_t number, double low, double high) {
      return low + (high - low) * rng.uniform(number);
    };
    const auto rounded = [](double value) { return static_cast<Index>(std::nearbyint(value)); };
    const double all = static_cast<double>(size.plane());
    for (uint64_t i = 0; i < attempts * draws; i += draws) {
      const double pixels = all * between(i, scale_.first, scale_.second);
      const double ratio = std::exp(between(i + 1, std::log(ratio_.first), std::log(ratio_.second)));
      const Index width = rounded(std::sqrt(pixels * ratio)), height = rounded(std::sqrt(pixels / ratio));
      if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
      const uint64_t top = rng.below(i + 2, static_cast<uint64_t>(size.height - height + 1));
      const uint64_t left = rng.below(i + 3, static_cast<uint64_t>(size.width - width + 1));
      return {static_cast<double>(top), static_cast<double>(left), static_cast<double>(height),
              static_cast<double>(width)};
    }
    Index height = size.height, width = size.width;
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    if (ratio < ratio_.first) height = std::max<Index>(1, rounded(static_cast<double>(width) / ratio_.first));
    if (ratio > ratio_.second) width = std::max<Index>(1, rounded(static_cast<double>(height) * ratio_.second));
    return {static_cast<double>((size.height - height) / 2), static_cast<double>((size.width - width) / 2),
            static_cast<double>(height), static_cast<double>(width)};
  }

  Range scale_, ratio_;
};

}  // namespace
D5_REGISTER(augmentations, "random-resized-crop", RandomResizedCrop);
}  // namespace d5
