// SPDX-License-Identifier: Apache-2.0
// Defaults and meanings that changed, and operators with a new name.
#include "d5/graph/modern/rewrite.hpp"

namespace d5 {
namespace {

// Up to opset 12 X was taken as a matrix, all axes from `axis` on being one.
void matrix_softmax(Rewrite& r) {
  const int64_t axis = r.node.attributes.integer("axis", 1);
  const std::string x = r.input(0);
  if (axis == -1 || (r.is_known(x) && axis == static_cast<int64_t>(r.rank(x)) - 1)) {
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
  r.node.inputs = {r.input(0), "", r.input(1)};
  const std::string mode = a.text("mode", "nearest");
  a.set("mode", mode == "bilinear" || mode == "linear" ? std::string("linear") : mode);
  a.set("coordinate_transformation_mode", std::string("asymmetric"));
  a.set("nearest_mode", std::string("floor"));
}

void first_resize(Rewrite& r) {
  r.node.inputs = {r.input(0), "", r.input(1)};
  r.node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  r.node.attributes.set("nearest_mode", std::string("floor"));
}

// Up to opset 12 an empty tensor stood for the one of scales and sizes that is not given.
void one_of_scales_and_sizes(Rewrite& r) {
  if (r.has_input(2) && r.has_input(3)) r.set_input(r.is_empty(r.input(3)) ? 3 : 2, "");
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
  const std::string channels = r.before("Shape", {r.input(0)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  const std::string share = r.before("Div", {channels, groups});
  const std::string sizes = r.before("Concat", {groups, share}, {{"axis", int64_t{0}}});
  for (const size_t i : {1, 2}) {
    const std::string column = r.before("Unsqueeze", {r.input(i), r.constant({1})});
    r.set_input(i, r.before("Reshape", {r.before("Expand", {column, sizes}), r.constant({-1})}));
  }
}

// The first form of Scan ran over sequences of several samples at once: axis 0 of everything counts samples. It becomes
// a Loop over samples around a Scan of one.
void batched_scan(Rewrite& r) {
  Attributes& a = r.node.attributes;
  if (a.has("scan_input_axes")) return;  // the inner one, made below: the first form had no such attribute
  if (r.has_input(0)) throw CannotRun("lengths of sequences (opset 8) are not supported");
  const size_t count = r.node.inputs.size(), scanned = static_cast<size_t>(a.integer("num_scan_inputs", 0));
  if (scanned < 1 || scanned >= count)
    throw Error("num_scan_inputs is {}; it has {} inputs", scanned, count - std::min<size_t>(count, 1));
  a.set("scan_input_axes", std::vector<int64_t>(scanned, 0));
  if (a.has("directions")) {
    a.set("scan_input_directions", a.integers("directions"));
    a.erase("directions");
  }
  const std::string& name = r.node.name;
  const std::string sample = r.fresh(name + "/sample"), goes_on = r.fresh(name + "/goes_on");
  Graph body{.name = name + "/of_a_sample"};
  body.inputs = {{.name = sample, .spec = {DType::i64, Shape()}}, {.name = goes_on, .spec = {DType::boolean, Shape()}}};
  Node scan = r.node;
  scan.inputs.clear();
  for (size_t i = 1; i < count; ++i) {
    scan.inputs.push_back(r.fresh(name + "/Gather"));
    body.nodes.push_back({.op = "Gather", .inputs = {r.input(i), sample}, .outputs = {scan.inputs.back()}});
  }
  body.outputs = {r.fresh(name + "/goes_on")};
  body.nodes.push_back({.op = "Identity", .inputs = {goes_on}, .outputs = body.outputs});
  for (std::string& output : scan.outputs) {
    output = r.fresh(name + "/Scan");
    body.outputs.push_back(output);
  }
  body.nodes.push_back(std::move(scan));
  const std::string batch = r.before("Shape", {r.input(1)}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  r.node = {.op = "Loop",
            .name = name,
            .inputs = {r.before("Squeeze", {batch}), ""},
            .outputs = r.node.outputs,
            .attributes = {{"body", std::make_shared<const Graph>(std::move(body))}}};
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
    {"Resize", 1000, one_of_scales_and_sizes},
    {"RoiAlign", 16, roi_align},
    {"Scan", 9, batched_scan},
    {"Scatter", 1000, scatter},
    {"Softmax", 13, matrix_softmax},
    {"Upsample", 1000, upsample},
};

}  // namespace

std::span<const Rule> changed_meaning_rules() { return rules; }

}  // namespace d5
