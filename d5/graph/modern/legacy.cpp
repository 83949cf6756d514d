// SPDX-License-Identifier: Apache-2.0
// Opset 6 and earlier: broadcasting by attributes, hints about memory, flags that went.
#include <array>

#include "d5/graph/modern/rewrite.hpp"

namespace d5 {
namespace {

void forget_hints(Rewrite& r) { r.node.attributes.erase("consumed_inputs"); }

// The second input was laid along the first from `axis` on (default: so that both end together). It gets axes of size 1
// behind it, and then broadcasts as in numpy.
void broadcast(Rewrite& r) {
  const bool has_axis = r.node.attributes.has("axis");
  const int64_t axis = r.node.attributes.integer("axis", -1);
  const bool broadcasts = r.node.attributes.flag("broadcast", false);
  r.node.attributes.erase("axis");
  r.node.attributes.erase("broadcast");
  if (!broadcasts || !has_axis) return;
  const auto a = static_cast<int64_t>(r.rank(r.input(0))), b = static_cast<int64_t>(r.rank(r.input(1)));
  const int64_t from = axis < 0 ? axis + a : axis;
  if (from < 0 || from + b > a) throw Error("axis {} does not fit ranks {} and {}", axis, a, b);
  std::vector<int64_t> added;
  for (int64_t i = from + b; i < a; ++i) added.push_back(i - from);
  if (!added.empty()) r.set_input(1, r.before("Unsqueeze", {r.input(1), r.constant(added)}));
}

// One slope for each channel, axis 1 of X.
void prelu(Rewrite& r) {
  const auto x = static_cast<int64_t>(r.rank(r.input(0)));
  if (r.rank(r.input(1)) != 1 || x <= 2) return;
  std::vector<int64_t> added;
  for (int64_t i = 1; i < x - 1; ++i) added.push_back(i);
  r.set_input(1, r.before("Unsqueeze", {r.input(1), r.constant(added)}));
}

void gemm(Rewrite& r) { r.node.attributes.erase("broadcast"); }

void recurrent(Rewrite& r) { r.node.attributes.erase("output_sequence"); }

void concat(Rewrite& r) {
  if (!r.node.attributes.has("axis")) r.node.attributes.set("axis", int64_t{1});
}

void cast(Rewrite& r) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> names{{{"FLOAT", "f32"},
                                                                                        {"DOUBLE", "f64"},
                                                                                        {"FLOAT16", "f16"},
                                                                                        {"INT8", "i8"},
                                                                                        {"INT16", "i16"},
                                                                                        {"INT32", "i32"},
                                                                                        {"INT64", "i64"},
                                                                                        {"UINT8", "u8"},
                                                                                        {"UINT16", "u16"},
                                                                                        {"UINT32", "u32"},
                                                                                        {"UINT64", "u64"},
                                                                                        {"BOOL", "bool"}}};
  const std::string to = r.node.attributes.text("to", "");
  for (const auto& [old, now] : names)
    if (to == old) return r.node.attributes.set("to", std::string(now));
  throw Error("to is '{}'; that element type cannot be converted to", to);
}

void norm_order(Rewrite& r) {
  if (r.node.attributes.has("p")) r.node.attributes.set("p", static_cast<int64_t>(r.node.attributes.real("p", 2)));
}

constexpr Rule rules[] = {
    {"*", 6, forget_hints}, {"Add", 7, broadcast},           {"And", 7, broadcast},     {"Cast", 6, cast},
    {"Concat", 4, concat},  {"Div", 7, broadcast},           {"Equal", 7, broadcast},   {"GRU", 7, recurrent},
    {"Gemm", 7, gemm},      {"GlobalLpPool", 2, norm_order}, {"Greater", 7, broadcast}, {"LSTM", 7, recurrent},
    {"Less", 7, broadcast}, {"LpPool", 2, norm_order},       {"Mul", 7, broadcast},     {"Or", 7, broadcast},
    {"PRelu", 7, prelu},    {"Pow", 7, broadcast},           {"RNN", 7, recurrent},     {"Sub", 7, broadcast},
    {"Xor", 7, broadcast},
};

}  // namespace

std::span<const Rule> legacy_rules() { return rules; }

}  // namespace d5
