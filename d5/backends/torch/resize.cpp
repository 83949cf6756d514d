// SPDX-License-Identifier: Apache-2.0
// Resize by torch's upsampling, for what it means the same by: whole images (N x C x 1 to 3 axes), its own coordinates.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/_upsample_nearest_exact3d.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>
#include <ATen/ops/upsample_trilinear3d.h>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

using Scale = std::optional<double>;

Prepared resize(const Setup& setup) {
  const Attributes& a = setup.attributes;
  const std::string mode = a.text("mode", "nearest"), where = a.text("coordinate_transformation_mode", "half_pixel"),
                    nearest = a.text("nearest_mode", "round_prefer_floor");
  const Shape &x = setup.inputs[0].shape, &y = setup.outputs[0].shape;
  const size_t spatial = x.rank() < 2 ? 0 : x.rank() - 2;
  if (spatial < 1 || spatial > 3 || x[0] != y[0] || x[1] != y[1])
    return refuse("torch resizes the 1 to 3 axes behind N x C, not {} to {}", to_string(x), to_string(y));
  if (a.flag("antialias", false) || a.flag("exclude_outside", false))
    return refuse("torch's antialiasing and borders follow other rules");
  if (a.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return refuse("torch stretches each axis by its own ratio");
  if (where == "tf_crop_and_resize" || where == "half_pixel_symmetric" || where == "pytorch_half_pixel" ||
      where == "tf_half_pixel_for_nn")
    return refuse("torch has no coordinates {}", where);
  const bool corners = where == "align_corners";
  const bool floor = mode == "nearest" && where == "asymmetric" && nearest == "floor",
             exact = mode == "nearest" && where == "half_pixel" && nearest == "round_prefer_ceil";
  if (mode == "nearest" && !floor && !exact)
    return refuse("torch's nearest element is that of asymmetric floor, or half_pixel round_prefer_ceil");
  if (mode != "nearest" && where == "asymmetric") return refuse("torch interpolates at half_pixel or align_corners");
  if (mode == "cubic" && (spatial != 2 || a.real("cubic_coeff_a", -0.75) != -0.75))
    return refuse("torch's cubic has two axes and the coefficient -0.75");

  // The scales as they were given: the sizes are rounded.
  std::vector<Scale> scales(spatial);
  if (setup.has(2)) {
    if (!setup.inputs[2].known) return refuse("scales must be known before the run");
    const Tensor given = setup.inputs[2].known->cast(DType::f64);
    const auto axes = a.integers("axes");
    for (size_t i = 0; i < static_cast<size_t>(given.elements()); ++i) {
      const size_t axis = axes.empty() ? i : valid_axis(axes[i], x.rank(), "[torch]");
      if (axis < 2) continue;
      scales[axis - 2] = given.values<double>()[i];
      if (corners && *scales[axis - 2] * static_cast<double>(x[axis]) != static_cast<double>(y[axis]))
        return refuse("torch's align_corners counts in whole elements, not to {}",
                      *scales[axis - 2] * static_cast<double>(x[axis]));
    }
  }
  const std::vector<int64_t> sizes(y.begin() + 2, y.end());
  const auto run = [=](const at::Tensor& in) {
    if (mode == "cubic") return at::upsample_bicubic2d(in, sizes, corners, scales[0], scales[1]);
    switch (spatial) {
      case 1:
        return floor   ? at::upsample_nearest1d(in, sizes, scales[0])
               : exact ? at::_upsample_nearest_exact1d(in, sizes, scales[0])
                       : at::upsample_linear1d(in, sizes, corners, scales[0]);
      case 2:
        return floor   ? at::upsample_nearest2d(in, sizes, scales[0], scales[1])
               : exact ? at::_upsample_nearest_exact2d(in, sizes, scales[0], scales[1])
                       : at::upsample_bilinear2d(in, sizes, corners, scales[0], scales[1]);
      default:
        return floor   ? at::upsample_nearest3d(in, sizes, scales[0], scales[1], scales[2])
               : exact ? at::_upsample_nearest_exact3d(in, sizes, scales[0], scales[1], scales[2])
                       : at::upsample_trilinear3d(in, sizes, corners, scales[0], scales[1], scales[2]);
    }
  };
  Prepared prepared = elementwise(run, mode == "cubic" ? "upsample_bicubic2d"
                                       : floor         ? "upsample_nearest"
                                       : exact         ? "_upsample_nearest_exact"
                                                       : "upsample_linear");
  prepared.spatial = true;
  return std::move(prepared).narrow(mode == "nearest" ? "" : "weights are stored in the type of the tensors",
                                    "its gradient adds in the type of the tensors");
}

}  // namespace
D5_TORCH_OPERATOR("Resize", resize);
}  // namespace d5::libtorch
