// SPDX-License-Identifier: Apache-2.0
// What augmentations of images share: which field is the image, and its sizes. An image is u8 or f32, CxHxW or HxW.
#pragma once

#include "d5/datasets/augmentation.hpp"

namespace d5 {

struct ImageSize {
  Index channels = 1, height = 0, width = 0;
  Index plane() const { return height * width; }
};

class ImageStep : public Augmentation {
 public:
  const std::vector<Field>& fields() const override { return fields_; }
  const std::vector<size_t>& changed() const override { return changed_; }

 protected:
  // The image is the field that `field` names, else the first one of rank 2 or 3, else the first without a shape.
  ImageStep(const std::vector<Field>& in, const Attributes& values, std::string place);
  static DataOption field_option() {
    return {"field", "the image; empty: the first field that can be one", std::string()};
  }

  size_t image() const { return changed_[0]; }
  Field& image_field() { return fields_[image()]; }
  DType dtype() const { return fields_[image()].dtype; }
  ImageSize size_of(const Shape&) const;                               // UsageError where it is no image
  Shape shape_of(const Shape& like, Index height, Index width) const;  // the same channels
  // Where the image is to be written: the present tensor, or a new one.
  static Tensor& written(Sample& out, size_t field, DType, const Shape&);

  std::vector<Field> fields_;    // of what it makes; begins as what it is given
  std::vector<size_t> changed_;  // the image first
  std::string place_;
};

// Calls body with a value of the type of the pixels: u8 or f32.
template <class Body>
void with_pixel_type(DType type, Body body) {
  if (type == DType::u8)
    body(uint8_t{});
  else
    body(float{});
}

}  // namespace d5
