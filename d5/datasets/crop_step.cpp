// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/crop_step.hpp"

#include <algorithm>
#include <cmath>

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"

namespace d5 {
namespace {

bool is_encoded(const Tensor& image) { return image.dtype() == DType::u8 && image.shape().rank() == 1; }

// Whole pixels that the area needs, of a picture of this size.
Region around(const Area& area, Index height, Index width, bool beside, Index new_height, Index new_width) {
  const auto reach = [&](double size, Index count) {
    return beside ? std::max(1.0, size / static_cast<double>(count)) + 1 : 0.0;
  };
  const double down = reach(area.height, new_height), across = reach(area.width, new_width);
  Region region;
  region.top = std::clamp<Index>(static_cast<Index>(std::floor(area.top - down)), 0, height - 1);
  region.left = std::clamp<Index>(static_cast<Index>(std::floor(area.left - across)), 0, width - 1);
  const auto bottom = static_cast<Index>(std::ceil(area.top + area.height + down));
  const auto right = static_cast<Index>(std::ceil(area.left + area.width + across));
  region.height = std::clamp<Index>(bottom, region.top + 1, height) - region.top;
  region.width = std::clamp<Index>(right, region.left + 1, width) - region.left;
  return region;
}

Area within(const Area& area, const Region& region) {
  return {area.top - static_cast<double>(region.top), area.left - static_cast<double>(region.left), area.height,
          area.width};
}

}  // namespace

CropStep::CropStep(const std::vector<Field>& in, const Attributes& values, std::string place)
    : ImageStep(in, values, std::move(place)), height_(integer_in(values, "height", 1, 1 << 14, place_)) {
  width_ = integer_in(values, "width", 0, 1 << 14, place_);
  if (width_ == 0) width_ = height_;
  Field& field = image_field();
  // A picture without a fixed size, or encoded, has three channels.
  field.shape = field.shape ? shape_of(*field.shape, height_, width_) : Shape{3, height_, width_};
}

std::vector<DataOption> CropStep::size_options() {
  return {{"height", "of the result", int64_t{224}}, {"width", "of the result; 0: the height", int64_t{0}}};
}

ImageSize CropStep::stored_size(const Tensor& from) const {
  if (is_encoded(from)) {
    const Encoded bytes = from.values<uint8_t>();
    const ImageInfo info = decoder_of(bytes).inspect(bytes);
    return {3, info.height, info.width};
  }
  const ImageSize size = size_of(from.shape());
  if (size.plane() == 0) throw SampleError("{} an image of {}x{} pixels", place_, size.height, size.width);
  return size;
}

void CropStep::cut(const Tensor& from, const Area& area, bool beside, Sample& out) const {
  const Shape& made = *fields_[image()].shape;
  if (is_encoded(from)) return cut_encoded(from, area, beside, written(out, image(), DType::u8, made));
  const ImageSize size = size_of(from.shape());
  if (shape_of(from.shape(), height_, width_) != made)
    throw SampleError("{} an image of shape {} does not become {}", place_, to_string(from.shape()), to_string(made));
  const Region region = around(area, size.height, size.width, beside, height_, width_);
  const Tensor& to = written(out, image(), dtype(), made);
  with_pixel_type(dtype(), [&](auto pixel) {
    using T = decltype(pixel);
    const T* const first = from.values<T>().data() + region.top * size.width + region.left;
    resample<T>({first, size.channels, region.height, region.width, size.width, size.plane()}, within(area, region),
                to.values<T>().data(), height_, width_);
  });
}

void CropStep::cut_encoded(const Tensor& from, const Area& area, bool beside, const Tensor& to) const {
  const Encoded bytes = from.values<uint8_t>();
  const DecoderEntry& decoder = decoder_of(bytes);
  const ImageInfo info = decoder.inspect(bytes);
  DecodeRequest request;
  // The fewest eighths of which the area still has as many pixels as are wanted.
  const auto enough = [&](int eighths) {
    return area.height * eighths >= 8 * static_cast<double>(height_) &&
           area.width * eighths >= 8 * static_cast<double>(width_);
  };
  if (decoder.scales)
    for (request.eighths = 1; request.eighths < 8 && !enough(request.eighths);) ++request.eighths;
  const ImageInfo at = scaled(info, request.eighths);
  const double part = request.eighths / 8.0;
  const Area area_there{area.top * part, area.left * part, area.height * part, area.width * part};
  const Region region = around(area_there, at.height, at.width, beside, height_, width_);
  request.crop = region;
  thread_local std::vector<uint8_t> pixels;
  pixels.resize(static_cast<size_t>(3 * region.height * region.width));
  decoder.decode(bytes, request, pixels.data());
  require_there(bytes.data(), bytes.size());
  const Index plane = region.height * region.width;
  resample<uint8_t>({pixels.data(), 3, region.height, region.width, region.width, plane}, within(area_there, region),
                    to.values<uint8_t>().data(), height_, width_);
}

}  // namespace d5
