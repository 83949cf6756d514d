// SPDX-License-Identifier: Apache-2.0
// How Resize reads one axis: result o is the sum of weight times input over its taps.
//   x        the coordinate in the input that o stands for, by coordinate_transformation_mode
//   weight   k(s (i - x)) of the input i, with k(t) = 1 - |t| (linear), or for |t| < 2 Keys' cubic with coefficient a;
//            s = 1, or the scale where antialias widens the window of a reduction. Divided by their sum where that is
//            not 1. Inputs outside the axis are its edge, or are left out (exclude_outside).
//   nearest  one input with weight 1, by nearest_mode
#pragma once

#include <string>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/core/shape.hpp"

namespace d5 {

struct ResizeModes {
  explicit ResizeModes(const Attributes&);  // UsageError on a mode that does not exist

  std::string mode, coordinates, nearest;
  double cubic_a, outside_value;
  bool exclude_outside, antialias;
};

// Names of the attributes that ResizeModes reads.
const std::vector<std::string>& resize_mode_attributes();

struct Tap {
  Index input;
  double weight;
  double error;  // of the weight, in units of round-off
};

class ResizedAxis {
 public:
  // roi is the part of the axis that is read (tf_crop_and_resize), 0 to 1 for all of it.
  ResizedAxis(const ResizeModes&, Index input, Index output, double scale, double roi_start, double roi_end);

  Index input() const { return input_; }
  Index output() const { return static_cast<Index>(taps_.size()); }
  bool is_identity() const;
  bool lies_outside(Index o) const { return outside_[o]; }  // it takes the value for outside, not a sum
  // Those with a weight of 0 are there for their error.
  const std::vector<Tap>& taps(Index o) const { return taps_[o]; }

 private:
  void add_taps(const ResizeModes&, double x, double scale);

  Index input_;
  std::vector<std::vector<Tap>> taps_;
  std::vector<bool> outside_;
};

}  // namespace d5
