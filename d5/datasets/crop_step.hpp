// SPDX-License-Identifier: Apache-2.0
// Steps that cut an area out of a picture and bring it to a fixed size. The picture may be pixels, or still encoded:
// then no more of it is decoded than the area, and no more finely than the size needs, where the decoder can.
#pragma once

#include "d5/datasets/image_step.hpp"
#include "d5/datasets/resample.hpp"

namespace d5 {

class CropStep : public ImageStep {
 public:
  bool in_place() const override { return false; }

 protected:
  CropStep(const std::vector<Field>& in, const Attributes& values, std::string place);
  static std::vector<DataOption> size_options();

  ImageSize stored_size(const Tensor&) const;
  // With `beside` the filter also reaches the pixels around the area.
  void cut(const Tensor& from, const Area&, bool beside, Sample& out) const;

  Index height_, width_;

 private:
  void cut_encoded(const Tensor& from, const Area&, bool beside, const Tensor& to) const;
};

}  // namespace d5
