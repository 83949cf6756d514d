// SPDX-License-Identifier: Apache-2.0
// Random crop: a window of height x width, its corner uniform over all places in the image with `padding` zeros around.
#include <algorithm>

#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

class Crop final : public ImageStep {
 public:
  static constexpr const char* about = "a window at a random place of the image, padded with zeros";
  static std::vector<DataOption> options() {
    return {{"height", "of the window; 0: the image's", int64_t{0}},
            {"width", "of the window; 0: the image's", int64_t{0}},
            {"padding", "zeros on every side of the image", int64_t{0}},
            field_option()};
  }

  Crop(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place), padding_(integer_in(values, "padding", 0, 1 << 20, place)) {
    height_ = integer_in(values, "height", 0, 1 << 20, place);
    width_ = integer_in(values, "width", 0, 1 << 20, place);
    Field& field = image_field();
    if (!field.shape) {
      if (height_ == 0 || width_ == 0)
        throw UsageError("{} field '{}' has no fixed size: the crop needs height and width", place, field.name);
      field.shape = Shape{3, height_, width_};  // a picture, as decoders give them
      return;
    }
    const ImageSize size = size_of(*field.shape);
    if (height_ == 0) height_ = size.height;
    if (width_ == 0) width_ = size.width;
    if (const auto reason = why_not(size)) throw UsageError("{} {}", place, *reason);
    field.shape = shape_of(*field.shape, height_, width_);
  }
  bool in_place() const override { return false; }
  void apply(const Sample& in, Sample& out, const Draw& draw) const override {
    const Tensor& from = in[image()];
    const ImageSize size = size_of(from.shape());
    if (const auto reason = why_not(size)) throw SampleError("{} {}", place, *reason);
    const Shape made = shape_of(from.shape(), height_, width_);
    if (made != *fields_[image()].shape)
      throw SampleError("{} an image of shape {} does not become {}", place, to_string(from.shape()),
                        to_string(*fields_[image()].shape));
    const Tensor& to = written(out, image(), dtype(), made);
    const auto places = [&](Index whole, Index part) { return static_cast<uint64_t>(whole + 2 * padding_ - part + 1); };
    const Index top = static_cast<Index>(draw.rng.below(0, places(size.height, height_))) - padding_;
    const Index left = static_cast<Index>(draw.rng.below(1, places(size.width, width_))) - padding_;
    // Columns of the window that lie in the image.
    const Index first = std::clamp<Index>(-left, 0, width_), last = std::clamp<Index>(size.width - left, first, width_);
    with_pixel_type(dtype(), [&](auto pixel) {
      using T = decltype(pixel);
      const T* source = from.values<T>().data();
      T* line = to.values<T>().data();
      for (Index c = 0; c < size.channels; ++c)
        for (Index y = top; y < top + height_; ++y, line += width_) {
          if (y < 0 || y >= size.height) {
            std::fill_n(line, width_, T{0});
            continue;
          }
          std::fill_n(line, first, T{0});
          std::copy_n(source + (c * size.height + y) * size.width + left + first, last - first, line + first);
          std::fill_n(line + last, width_ - last, T{0});
        }
    });
  }

 private:
  static constexpr const char* place = "[augmentation crop]";
  std::optional<std::string> why_not(const ImageSize& size) const {
    if (height_ <= size.height + 2 * padding_ && width_ <= size.width + 2 * padding_) return {};
    return fmt::format("a window of {}x{} in an image of {}x{} with {} zeros around", height_, width_, size.height,
                       size.width, padding_);
  }
  Index height_ = 0, width_ = 0, padding_;
};

}  // namespace
D5_REGISTER(augmentations, "crop", Crop);
}  // namespace d5
