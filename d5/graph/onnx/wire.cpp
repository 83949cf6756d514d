// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/wire.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

constexpr int deepest = 90;                  // protobuf's own limit is 100
constexpr size_t most_messages = 8'000'000;  // about 1.5 GB of objects; large networks have some ten thousand nodes
constexpr size_t most_bytes = (size_t{1} << 31) - 1;

struct Field {
  uint64_t number;
  const char* name;
  WireKind kind;
};

// The fields that are messages; everything else is skipped.
std::span<const Field> fields(WireKind kind) {
  using enum WireKind;
  static const std::vector<Field> model_fields{{7, "graph", graph},
                                               {8, "opset_import", leaf},
                                               {14, "metadata_props", leaf},
                                               {20, "training_info", training},
                                               {25, "functions", function}};
  static const std::vector<Field> graph_fields{{1, "node", node},
                                               {5, "initializer", tensor},
                                               {11, "input", value_info},
                                               {12, "output", value_info},
                                               {13, "value_info", value_info},
                                               {14, "quantization_annotation", annotation},
                                               {15, "sparse_initializer", sparse_tensor},
                                               {16, "metadata_props", leaf}};
  static const std::vector<Field> node_fields{{5, "attribute", attribute}, {9, "metadata_props", leaf}};
  static const std::vector<Field> attribute_fields{{5, "t", tensor},
                                                   {6, "g", graph},
                                                   {10, "tensors", tensor},
                                                   {11, "graphs", graph},
                                                   {14, "tp", type},
                                                   {15, "type_protos", type},
                                                   {22, "sparse_tensor", sparse_tensor},
                                                   {23, "sparse_tensors", sparse_tensor}};
  static const std::vector<Field> tensor_fields{
      {3, "segment", leaf}, {13, "external_data", leaf}, {16, "metadata_props", leaf}};
  static const std::vector<Field> sparse_fields{{1, "values", tensor}, {2, "indices", tensor}};
  static const std::vector<Field> value_info_fields{{2, "type", type}, {4, "metadata_props", leaf}};
  static const std::vector<Field> type_fields{
      {1, "tensor_type", tensor_type}, {4, "sequence_type", element_type},     {5, "map_type", map_type},
      {7, "opaque_type", leaf},        {8, "sparse_tensor_type", tensor_type}, {9, "optional_type", element_type}};
  static const std::vector<Field> tensor_type_fields{{2, "shape", shape}};
  static const std::vector<Field> element_type_fields{{1, "elem_type", type}};
  static const std::vector<Field> map_type_fields{{2, "value_type", type}};
  static const std::vector<Field> shape_fields{{1, "dim", leaf}};
  static const std::vector<Field> function_fields{{7, "node", node},
                                                  {9, "opset_import", leaf},
                                                  {11, "attribute_proto", attribute},
                                                  {12, "value_info", value_info},
                                                  {14, "metadata_props", leaf}};
  static const std::vector<Field> training_fields{{1, "initialization", graph},
                                                  {2, "algorithm", graph},
                                                  {3, "initialization_binding", leaf},
                                                  {4, "update_binding", leaf}};
  static const std::vector<Field> annotation_fields{{2, "quant_parameter_tensor_names", leaf}};
  static const std::vector<Field> sequence_fields{{3, "tensor_values", tensor},
                                                  {4, "sparse_tensor_values", sparse_tensor},
                                                  {5, "sequence_values", sequence},
                                                  {6, "map_values", map},
                                                  {7, "optional_values", optional}};
  static const std::vector<Field> map_fields{{5, "values", sequence}};
  static const std::vector<Field> optional_fields{{3, "tensor_value", tensor},
                                                  {4, "sparse_tensor_value", sparse_tensor},
                                                  {5, "sequence_value", sequence},
                                                  {6, "map_value", map},
                                                  {7, "optional_value", optional}};
  switch (kind) {
    case model: return model_fields;
    case graph: return graph_fields;
    case node: return node_fields;
    case attribute: return attribute_fields;
    case tensor: return tensor_fields;
    case sparse_tensor: return sparse_fields;
    case value_info: return value_info_fields;
    case type: return type_fields;
    case tensor_type: return tensor_type_fields;
    case element_type: return element_type_fields;
    case map_type: return map_type_fields;
    case shape: return shape_fields;
    case function: return function_fields;
    case training: return training_fields;
    case annotation: return annotation_fields;
    case sequence: return sequence_fields;
    case map: return map_fields;
    case optional: return optional_fields;
    case leaf: return {};
  }
  return {};
}

class Scan {
 public:
  explicit Scan(std::string_view bytes) : bytes_(bytes) {}

  void message(WireKind kind, size_t end, int depth) {
    if (depth > deepest) fail(fmt::format("more than {} messages are nested", deepest));
    if (++messages_ > most_messages) fail(fmt::format("it has more than {} messages", most_messages));
    while (at_ < end) {
      const uint64_t tag = varint(end);
      switch (tag & 7) {
        case 0: varint(end); break;
        case 1: skip(8, end); break;
        case 2: part(kind, tag >> 3, end, depth); break;
        case 5: skip(4, end); break;
        default: fail(fmt::format("byte {} begins no field", at_));
      }
    }
  }

 private:
  void part(WireKind kind, uint64_t number, size_t end, int depth) {
    const uint64_t length = varint(end);
    if (length > end - at_)
      fail(fmt::format("cut off: {} bytes are wanted at byte {}, {} are there", length, at_, end - at_));
    for (const Field& field : fields(kind)) {
      if (field.number != number) continue;
      path_.push_back(field.name);
      message(field.kind, at_ + length, depth + 1);
      path_.pop_back();
      return;
    }
    at_ += length;
  }

  uint64_t varint(size_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end) fail(fmt::format("cut off at byte {}", at_));
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << (shift < 64 ? shift : 63);
      if (byte < 0x80) return value;
    }
    fail(fmt::format("no number ends at byte {}", at_));
  }

  void skip(size_t count, size_t end) {
    if (count > end - at_) fail(fmt::format("cut off at byte {}", end));
    at_ += count;
  }

  [[noreturn]] void fail(const std::string& why) const {
    std::string where;
    for (size_t i = 0; i < path_.size() && i < 8; ++i) where += (where.empty() ? "" : ".") + std::string(path_[i]);
    if (where.empty()) throw Error("{}", why);
    throw Error("{} (in {})", why, where);
  }

  std::string_view bytes_;
  size_t at_ = 0, messages_ = 0;
  std::vector<const char*> path_;
};

}  // namespace

void check_wire(std::string_view bytes, WireKind kind) {
  if (bytes.size() > most_bytes) throw Error("it has {} bytes; a message holds at most 2 GiB", bytes.size());
  Scan(bytes).message(kind, bytes.size(), 0);
}

}  // namespace d5
