// SPDX-License-Identifier: Apache-2.0
// Attributes that became inputs: first a number in the file, later a value that the network can compute.
#include "d5/graph/modern/rewrite.hpp"

namespace d5 {
namespace {

void clip(Rewrite& r) {
  for (const auto& [attribute, input] : {std::pair{"min", size_t{1}}, {"max", size_t{2}}}) {
    if (!r.node.attributes.has(attribute)) continue;
    const double bound = r.node.attributes.real(attribute, 0);
    r.node.attributes.erase(attribute);
    r.set_input(input, r.number_like(bound, r.input(0)));
  }
}

// Before opset 7 a flag said whether it is training; from 7 to 11 it never was; then an input says so.
void dropout(Rewrite& r) {
  const bool training = r.version < 7 && !r.node.attributes.flag("is_test", false);
  const double ratio = r.node.attributes.real("ratio", 0.5);
  if (r.version < 10 && r.is_known(r.input(0)))
    r.after("Cast", 1, {}, {{"to", std::string(name(r.dtype(r.input(0))))}});
  else if (r.version < 10)
    r.after("CastLike", 1, {r.input(0)});
  r.node.attributes = {};
  r.set_input(1, r.constant(Tensor::scalar(ratio, DType::f32)));
  if (training) r.set_input(2, r.constant(Tensor::from<bool>({}, {true})));
}

void pad(Rewrite& r) {
  if (!r.move_to_input("pads", 1)) r.move_to_input("paddings", 1);
  const double value = r.node.attributes.real("value", 0);
  r.node.attributes.erase("value");
  if (value != 0) r.set_input(2, r.number_like(value, r.input(0)));
}

void axes(Rewrite& r) { r.move_to_input("axes", 1); }

void reshape(Rewrite& r) { r.move_to_input("shape", 1); }

void slice(Rewrite& r) {
  r.move_to_input("starts", 1);
  r.move_to_input("ends", 2);
  r.move_to_input("axes", 3);
}

void split(Rewrite& r) { r.move_to_input("split", 1); }

// Without sizes: as many equal parts as there are outputs.
void split_evenly(Rewrite& r) {
  if (!r.has_input(1)) r.node.attributes.set("num_outputs", static_cast<int64_t>(r.node.outputs.size()));
}

void top_k(Rewrite& r) { r.move_to_input("k", 1); }

void dft(Rewrite& r) {
  const int64_t axis = r.node.attributes.integer("axis", 1);
  r.node.attributes.erase("axis");
  r.set_input(2, r.constant(Tensor::from<int64_t>({}, {axis})));
}

constexpr Rule rules[] = {
    {"Clip", 11, clip},         {"DFT", 20, dft},
    {"Dropout", 12, dropout},   {"Pad", 11, pad},
    {"ReduceL1", 18, axes},     {"ReduceL2", 18, axes},
    {"ReduceLogSum", 18, axes}, {"ReduceLogSumExp", 18, axes},
    {"ReduceMax", 18, axes},    {"ReduceMean", 18, axes},
    {"ReduceMin", 18, axes},    {"ReduceProd", 18, axes},
    {"ReduceSum", 13, axes},    {"ReduceSumSquare", 18, axes},
    {"Reshape", 5, reshape},    {"Slice", 10, slice},
    {"Split", 13, split},       {"Split", 18, split_evenly},
    {"Squeeze", 13, axes},      {"TopK", 10, top_k},
    {"Unsqueeze", 13, axes},
};

}  // namespace

std::span<const Rule> moved_attribute_rules() { return rules; }

}  // namespace d5
