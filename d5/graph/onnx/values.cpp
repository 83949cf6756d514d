// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/values.hpp"

#include <fstream>

#include "d5/graph/graph.hpp"
#include "d5/graph/onnx/file.hpp"
#include "d5/graph/onnx/tensors.hpp"
#include "d5/graph/onnx/wire.hpp"

namespace d5 {
namespace {

// Of Sequence.elem_type and Optional.elem_type.
enum Element { undefined = 0, tensor = 1, sparse_tensor = 2, sequence = 3, map = 4, optional = 5 };

template <class Message>
Message parse(std::string_view bytes, WireKind kind) {
  check_wire(bytes, kind);
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) throw Error("it is no ONNX value");
  return message;
}

GraphValue from(pb::Optional&, const std::filesystem::path&);

GraphValue from(pb::Sequence& m, const std::filesystem::path& folder) {
  if (m.sparse_tensor_values_size() > 0 || m.map_values_size() > 0)
    throw CannotRun("sequences of sparse tensors and maps are not supported");
  std::vector<GraphValue> items;
  for (pb::Tensor& item : *m.mutable_tensor_values()) items.emplace_back(take_tensor(item, folder));
  for (pb::Sequence& item : *m.mutable_sequence_values()) items.push_back(from(item, folder));
  for (pb::Optional& item : *m.mutable_optional_values()) items.push_back(from(item, folder));
  return GraphValue::sequence(std::move(items));
}

GraphValue from(pb::Optional& m, const std::filesystem::path& folder) {
  if (m.has_sparse_tensor_value() || m.has_map_value())
    throw CannotRun("optional sparse tensors and maps are not supported");
  if (m.has_tensor_value()) return GraphValue::optional({take_tensor(*m.mutable_tensor_value(), folder)});
  if (m.has_sequence_value()) return GraphValue::optional({from(*m.mutable_sequence_value(), folder)});
  if (m.has_optional_value()) return GraphValue::optional({from(*m.mutable_optional_value(), folder)});
  return GraphValue::optional({});
}

void put(pb::Sequence& m, const GraphValue& value) {
  m.set_elem_type(undefined);
  for (const GraphValue& item : value.items()) {
    if (item.kind == ValueKind::tensor) {
      put_tensor(*m.add_tensor_values(), item.tensor, true);
      m.set_elem_type(tensor);
    } else if (item.kind == ValueKind::sequence) {
      put(*m.add_sequence_values(), item);
      m.set_elem_type(sequence);
    } else {
      throw Error("[onnx] {} cannot be written in a sequence", to_string(item));
    }
  }
}

void put(pb::Optional& m, const GraphValue& value) {
  m.set_elem_type(undefined);
  if (value.items().empty()) return;
  if (value.items()[0].kind == ValueKind::tensor) {
    put_tensor(*m.mutable_tensor_value(), value.items()[0].tensor, true);
    m.set_elem_type(tensor);
  } else {
    put(*m.mutable_sequence_value(), value.items()[0]);
    m.set_elem_type(sequence);
  }
}

}  // namespace

GraphValue read_onnx_value(const std::filesystem::path& path, ValueKind kind) {
  const std::string place = "[onnx] " + path.string();
  try {
    const MappedFile file(path);
    const auto folder = path.parent_path();
    switch (kind) {
      case ValueKind::tensor: {
        auto message = parse<pb::Tensor>(file.bytes(), WireKind::tensor);
        return take_tensor(message, folder);
      }
      case ValueKind::sequence: {
        auto message = parse<pb::Sequence>(file.bytes(), WireKind::sequence);
        return from(message, folder);
      }
      case ValueKind::optional: {
        auto message = parse<pb::Optional>(file.bytes(), WireKind::optional);
        return from(message, folder);
      }
      default: throw CannotRun("values of this kind are not supported");
    }
  } catch (const CannotRun& error) {
    throw CannotRun(place + ": " + error.what());
  } catch (const Error& error) {
    throw error.within(place);
  }
}

void write_onnx_value(const GraphValue& value, const std::filesystem::path& path) {
  std::string bytes;
  if (value.kind == ValueKind::tensor) {
    pb::Tensor message;
    put_tensor(message, value.as_tensor(), true);
    bytes = message.SerializeAsString();
  } else if (value.kind == ValueKind::sequence) {
    pb::Sequence message;
    put(message, value);
    bytes = message.SerializeAsString();
  } else {
    pb::Optional message;
    put(message, value);
    bytes = message.SerializeAsString();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw Error("[onnx] {} cannot be written", path.string());
}

}  // namespace d5
