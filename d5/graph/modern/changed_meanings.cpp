// SPDX-License-Identifier: Apache-2.0
// Defaults and meanings that changed, and operators with a new name.
#include "d5/graph/modern/rewrite.hpp"

namespace d5 {
namespace {

// Up to opset 12 X was taken as a matrix, all axes from `axis` on being one.
void matrix_softmax(Rewrite& r) {
  const int64_t axis = r.node.attributes.integer("axis", 1);
  const std::string x = r.node.inputs[0];
  if (const auto rank = static_cast<int64_t>(r.rank(x)); axis == -1 || axis == rank - 1) {
    r.node.attributes.set("axis", int64_t{-1});
    return;
  }
  const std::string shape = r.before("Shape", {x});
  r.set_input(0, r.before("Flatten", {x}, {{"axis", axis}}));
  r.node.attributes.set("axis", int64_t{-1});
  r.after("Reshape", 0, {shape});
}

// Training is where more is asked for than Y (opset 6: where is_test is 0). What followed the running statistics served
// to save time in the gradient.
void batch_normalization(Rewrite& r) {
  Attributes& a = r.node.attributes;
  if (!a.flag("spatial", true)) throw CannotRun("spatial is 0: one mean for each activation is not supported");
  const bool training = r.version < 7 ? a.has("is_test") && !a.flag("is_test", false) : r.node.outputs.size() > 1;
  a.erase("spatial");
  a.erase("is_test");
  if (training) a.set("training_mode", int64_t{1});
  if (r.node.outputs.size() > 3) r.node.outputs.resize(3);
}

void upsample(Rewrite& r) {
  Attributes& a = r.node.attributes;
  if (r.version < 7) {
    const double height = a.real("height_scale", 1), width = a.real("width_scale", 1);
    a.set("scales", std::vector<double>{1, 1, height, width});
    a.erase("height_scale");
    a.erase("width_scale");
  }
  if (r.version < 9) {
    const auto scales = a.reals("scales");
    a.erase("scales");
    r.set_input(1, r.constant(Tensor::from<double>({static_cast<Index>(scales.size())}, scales).cast(DType::f32)));
  }
  r.node.op = "Resize";
  r.node.inputs = {r.node.inputs.at(0), "", r.node.inputs.at(1)};
  const std::string mode = a.text("mode", "nearest");
  a.set("mode", mode == "bilinear" || mode == "linear" ? std::string("linear") : mode);
  a.set("coordinate_transformation_mode", std::string("asymmetric"));
  a.set("nearest_mode", std::string("floor"));
}

void first_resize(Rewrite& r) {
  r.node.inputs = {r.node.inputs.at(0), "", r.node.inputs.at(1)};
  r.node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  r.node.attributes.set("nearest_mode", std::string("floor"));
}

void scatter(Rewrite& r) { r.node.op = "ScatterElements"; }

void roi_align(Rewrite& r) {
  r.node.attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void grid_sample(Rewrite& r) {
  const std::string mode = r.node.attributes.text("mode", "bilinear");
  r.node.attributes.set("mode", mode == "bilinear" ? std::string("linear") : mode == "bicubic" ? "cubic" : mode);
}

// One scale for each group became one for each channel.
void group_normalization(Rewrite& r) {
  const std::string groups = r.constant({r.node.attributes.integer("num_groups", 1)});
  const std::string channels = r.before("Shape", {r.node.inputs.at(0)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  const std::string share = r.before("Div", {channels, groups});
  const std::string sizes = r.before("Concat", {groups, share}, {{"axis", int64_t{0}}});
  for (const size_t i : {1, 2}) {
    const std::string column = r.before("Unsqueeze", {r.node.inputs.at(i), r.constant({1})});
    r.set_input(i, r.before("Reshape", {r.before("Expand", {column, sizes}), r.constant({-1})}));
  }
}

// The first form of Scan ran over sequences of several samples at once: axis 0 of everything counts samples.
void batched_scan(Rewrite& r) {
  if (r.has_input(0)) throw CannotRun("lengths of sequences (opset 8) are not supported");
  if (!r.node.inputs.empty()) r.node.inputs.erase(r.node.inputs.begin());
  if (r.node.attributes.has("directions")) {
    r.node.attributes.set("scan_input_directions", r.node.attributes.integers("directions"));
    r.node.attributes.erase("directions");
  }
  r.node.attributes.set("batched", int64_t{1});
}

void sparse_constant(Rewrite& r) {
  if (const auto value = r.node.attributes.tensor("sparse_value")) r.node.attributes = {{"value", value}};
}

constexpr Rule rules[] = {
    {"BatchNormalization", 14, batch_normalization},
    {"Constant", 1000, sparse_constant},
    {"GridSample", 20, grid_sample},
    {"GroupNormalization", 21, group_normalization},
    {"Hardmax", 13, matrix_softmax},
    {"LogSoftmax", 13, matrix_softmax},
    {"Resize", 11, first_resize},
    {"RoiAlign", 16, roi_align},
    {"Scan", 9, batched_scan},
    {"Scatter", 1000, scatter},
    {"Softmax", 13, matrix_softmax},
    {"Upsample", 1000, upsample},
};

}  // namespace

std::span<const Rule> changed_meaning_rules() { return rules; }

}  // namespace d5
