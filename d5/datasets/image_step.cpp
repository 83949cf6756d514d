// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/image_step.hpp"

#include <algorithm>

namespace d5 {

ImageStep::ImageStep(const std::vector<Field>& in, const Attributes& values, std::string place)
    : fields_(in), place_(std::move(place)) {
  const std::string wanted = values.text("field", "");
  auto found = in.end();
  if (!wanted.empty()) {
    found = std::ranges::find(in, wanted, &Field::name);
    std::vector<std::string> names;
    for (const Field& field : in) names.push_back(field.name);
    if (found == in.end()) fail_unknown(place_, "field", wanted, names);
  } else {
    found = std::ranges::find_if(
        in, [](const Field& field) { return field.shape && (field.shape->rank() == 2 || field.shape->rank() == 3); });
    if (found == in.end()) found = std::ranges::find_if(in, [](const Field& field) { return !field.shape; });
    if (found == in.end()) throw UsageError("{} none of the {} fields is an image", place_, in.size());
  }
  if (found->dtype != DType::u8 && found->dtype != DType::f32)
    throw UsageError("{} field '{}' is {}; an image is u8 or f32", place_, found->name, name(found->dtype));
  changed_ = {static_cast<size_t>(found - in.begin())};
  if (found->shape) size_of(*found->shape);
}

ImageSize ImageStep::size_of(const Shape& shape) const {
  if (shape.rank() == 2) return {1, shape[0], shape[1]};
  if (shape.rank() == 3) return {shape[0], shape[1], shape[2]};
  throw UsageError("{} an image of shape {}; legal: CxHxW or HxW", place_, to_string(shape));
}

Shape ImageStep::shape_of(const Shape& like, Index height, Index width) const {
  return like.rank() == 2 ? Shape{height, width} : Shape{like[0], height, width};
}

Tensor& ImageStep::written(Sample& out, size_t field, DType dtype, const Shape& shape) {
  if (!out[field].present()) out[field] = Tensor(dtype, shape);
  return out[field];
}

}  // namespace d5
