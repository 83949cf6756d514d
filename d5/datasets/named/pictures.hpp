// SPDX-License-Identifier: Apache-2.0
// The options of sets whose pictures are decoded when they are read.
#pragma once

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/named.hpp"

namespace d5 {

inline std::vector<DataOption> picture_options() {
  return {{"size", "Pixels a side; 0: as stored, which differs from picture to picture", 224},
          {"fit", "resize: the shorter side is scaled to fit; crop: the pixels are those stored", "resize"},
          {"order", "chw or hwc", "chw"},
          {"encoded", "Leave pictures as they are in the file", false}};
}

inline std::shared_ptr<const Dataset> with_pictures(std::shared_ptr<const Dataset> encoded, const Attributes& options,
                                                    const std::string& place) {
  if (options.flag("encoded", false)) return encoded;
  const std::string fit = options.text("fit", "resize"), order = options.text("order", "chw");
  const int64_t size = options.integer("size", 224);
  if ((fit != "resize" && fit != "crop") || (order != "chw" && order != "hwc") || size < 0 || size > 16384)
    throw UsageError("[{}] size {}, fit '{}', order '{}'; legal: 0 to 16384, resize or crop, chw or hwc", place, size,
                     fit, order);
  return decoded(std::move(encoded),
                 {.channels = 3, .planes = order == "chw", .height = size, .width = size, .resize = fit == "resize"});
}

}  // namespace d5
