// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/tensors.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <memory>
#include <string>

#include "d5/graph/onnx/element_types.hpp"
#include "d5/graph/onnx/file.hpp"

namespace d5 {
namespace {

Shape shape_of(const google::protobuf::RepeatedField<int64_t>& dims) {
  if (dims.size() > 64) throw Error("it has {} axes; at most 64 are supported", dims.size());
  return Shape(std::vector<Index>(dims.begin(), dims.end()));
}

// Of one number of the type; 1 where bytes hold several or one.
size_t number_bytes(DType type) { return std::max(1, bits(type) / 8); }

void swap_bytes(DType type, void* data, size_t bytes) {
  const size_t width = number_bytes(type);
  auto* at = static_cast<unsigned char*>(data);
  for (size_t i = 0; width > 1 && i + width <= bytes; i += width) std::reverse(at + i, at + i + width);
}

// A bool of C++ is 0 or 1; another byte in a file means true.
void finish_raw(const Tensor& tensor) {
  if (std::endian::native == std::endian::big) swap_bytes(tensor.dtype(), tensor.data(), tensor.bytes());
  if (tensor.dtype() != DType::boolean) return;
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = bytes[i] != 0;
}

size_t parse_count(const std::string& key, const std::string& text) {
  size_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    throw Error("the {} of its external data is '{}'; a number is wanted", key, text);
  return value;
}

Tensor external_tensor(const pb::Tensor& message, DType type, Shape shape, const std::filesystem::path& folder) {
  std::string location;
  size_t offset = 0;
  const auto wanted = static_cast<size_t>(storage_bytes(type, shape.elements()));
  for (const pb::Entry& entry : message.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_count(entry.key(), entry.value());
    if (entry.key() == "length" && parse_count(entry.key(), entry.value()) != wanted)
      throw Error("its external data has {} bytes; {}[{}] has {}", entry.value(), name(type), to_string(shape), wanted);
  }
  const std::filesystem::path path = external_file(folder, location);
  try {
    check_part(path, offset, wanted);  // before memory is asked for
    Tensor tensor(type, std::move(shape));
    read_part(path, offset, wanted, tensor.data());
    finish_raw(tensor);
    return tensor;
  } catch (const Error& error) {
    throw error.within(fmt::format("external data '{}'", location));
  }
}

[[noreturn]] void fail_count(const char* field, int64_t found, DType type, const Shape& shape, int64_t wanted) {
  throw Error("{} has {} entries; {}[{}] wants {}", field, found, name(type), to_string(shape), wanted);
}

// Elements of a typed list, each cut to the width of the type; several to a byte where they are narrower.
template <class List>
Tensor typed_tensor(const List& list, const char* field, DType type, const Shape& shape) {
  const auto bytes = static_cast<size_t>(storage_bytes(type, shape.elements()));
  const size_t width = number_bytes(type);
  const size_t wanted = bytes / width;
  if (static_cast<size_t>(list.size()) != wanted) fail_count(field, list.size(), type, shape, wanted);
  Tensor tensor(type, shape);
  auto* to = static_cast<char*>(tensor.data());
  for (const auto value : list) {
    if (type == DType::boolean) {
      *to = value != 0;
    } else if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(to, &value, width);
    } else {
      std::memcpy(to, reinterpret_cast<const char*>(&value) + sizeof value - width, width);
    }
    to += width;
  }
  return tensor;
}

// Elements of 6 bits have an entry of their own in a list; in bytes they follow each other without gaps.
template <class F>
void for_each_six_bits(const Tensor& tensor, F&& f) {
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (Index i = 0; i < tensor.elements(); ++i) {
    unsigned char* at = bytes + i * 6 / 8;
    const int shift = static_cast<int>(i * 6 % 8);
    f(at, shift, shift > 2);
  }
}

Tensor six_bit_tensor(const pb::Tensor& m, DType type, const Shape& shape) {
  if (m.int32_data_size() != shape.elements())
    fail_count("int32_data", m.int32_data_size(), type, shape, shape.elements());
  Tensor tensor(type, shape);
  tensor.fill_bytes(0);
  int next = 0;
  for_each_six_bits(tensor, [&](unsigned char* at, int shift, bool spills) {
    const unsigned code = static_cast<unsigned>(m.int32_data(next++)) & 0x3f;
    at[0] = static_cast<unsigned char>(at[0] | code << shift);
    if (spills) at[1] = static_cast<unsigned char>(code >> (8 - shift));
  });
  return tensor;
}

Tensor typed_tensor(const pb::Tensor& m, DType type, const Shape& shape) {
  if (bits(type) == 6) return six_bit_tensor(m, type, shape);
  switch (type) {
    case DType::f32: return typed_tensor(m.float_data(), "float_data", type, shape);
    case DType::f64: return typed_tensor(m.double_data(), "double_data", type, shape);
    case DType::i64: return typed_tensor(m.int64_data(), "int64_data", type, shape);
    case DType::u32:
    case DType::u64: return typed_tensor(m.uint64_data(), "uint64_data", type, shape);
    default: return typed_tensor(m.int32_data(), "int32_data", type, shape);
  }
}

Tensor string_tensor(pb::Tensor& m, const Shape& shape) {
  if (m.string_data_size() != shape.elements())
    fail_count("string_data", m.string_data_size(), DType::string, shape, shape.elements());
  Tensor tensor(DType::string, shape);
  auto* to = tensor.values<std::string>().data();
  for (std::string& text : *m.mutable_string_data()) *to++ = std::move(text);
  return tensor;
}

// Its bytes become the tensor's.
Tensor raw_tensor(pb::Tensor& m, DType type, Shape shape) {
  const auto wanted = static_cast<size_t>(storage_bytes(type, shape.elements()));
  if (m.raw_data().size() != wanted)
    throw Error("raw_data has {} bytes; {}[{}] has {}", m.raw_data().size(), name(type), to_string(shape), wanted);
  constexpr size_t small = 256;  // copied into aligned memory of its own
  if (wanted <= small) {
    Tensor tensor(type, std::move(shape));
    std::memcpy(tensor.data(), m.raw_data().data(), wanted);
    finish_raw(tensor);
    return tensor;
  }
  auto bytes = std::make_shared<std::string>(std::move(*m.mutable_raw_data()));
  Tensor tensor = Tensor::view(type, std::move(shape), bytes->data(), bytes);
  finish_raw(tensor);
  return tensor;
}

template <class T, class List>
void put_list(const Tensor& tensor, List& list) {
  const size_t width = number_bytes(tensor.dtype());
  const auto* from = static_cast<const char*>(tensor.data());
  list.Reserve(static_cast<int>(tensor.bytes() / width));
  for (size_t i = 0; i < tensor.bytes(); i += width) {
    T value{};
    if constexpr (std::endian::native == std::endian::little)
      std::memcpy(&value, from + i, width);
    else
      std::memcpy(reinterpret_cast<char*>(&value) + sizeof value - width, from + i, width);
    // Signed numbers fill the wider one.
    if constexpr (std::is_same_v<T, int32_t>) {
      if (tensor.dtype() == DType::i8) value = static_cast<int8_t>(value);
      if (tensor.dtype() == DType::i16) value = static_cast<int16_t>(value);
    }
    list.Add(value);
  }
}

void put_typed(pb::Tensor& m, const Tensor& tensor) {
  if (bits(tensor.dtype()) == 6)
    return for_each_six_bits(tensor, [&](const unsigned char* at, int shift, bool spills) {
      m.add_int32_data(((at[0] >> shift) | (spills ? at[1] << (8 - shift) : 0)) & 0x3f);
    });
  switch (tensor.dtype()) {
    case DType::f32: return put_list<float>(tensor, *m.mutable_float_data());
    case DType::f64: return put_list<double>(tensor, *m.mutable_double_data());
    case DType::i64: return put_list<int64_t>(tensor, *m.mutable_int64_data());
    case DType::u32:
    case DType::u64: return put_list<uint64_t>(tensor, *m.mutable_uint64_data());
    default: return put_list<int32_t>(tensor, *m.mutable_int32_data());
  }
}

}  // namespace

Tensor take_tensor(pb::Tensor& m, const std::filesystem::path& folder) {
  const DType type = element_type(m.data_type());
  Shape shape = shape_of(m.dims());
  if (m.has_segment()) throw Error("it is a segment of a tensor, which is not supported");
  Tensor tensor;
  if (m.data_location() == pb::Tensor::EXTERNAL) {
    if (type == DType::string) throw Error("strings cannot be external data");
    tensor = external_tensor(m, type, std::move(shape), folder);
  } else if (type == DType::string) {
    tensor = string_tensor(m, shape);
  } else if (m.has_raw_data()) {
    tensor = raw_tensor(m, type, std::move(shape));
    *m.mutable_raw_data() = {};
  } else {
    tensor = typed_tensor(m, type, shape);
  }
  m.clear_dims();
  m.clear_data_type();
  m.clear_float_data();
  m.clear_int32_data();
  m.clear_string_data();
  m.clear_int64_data();
  m.clear_double_data();
  m.clear_uint64_data();
  return tensor;
}

void put_tensor(pb::Tensor& m, const Tensor& tensor, bool is_new) {
  for (const Index size : tensor.shape()) m.add_dims(size);
  m.set_data_type(element_code(tensor.dtype()));
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) m.add_string_data(text);
  } else if (!is_new && !m.has_raw_data() && m.data_location() != pb::Tensor::EXTERNAL) {
    put_typed(m, tensor);
  } else {
    std::string& raw = *m.mutable_raw_data();
    raw.assign(static_cast<const char*>(tensor.data()), tensor.bytes());
    if (std::endian::native == std::endian::big) swap_bytes(tensor.dtype(), raw.data(), raw.size());
  }
}

Index most_dense_elements(size_t bytes) {
  constexpr Index least = Index{1} << 20, most = Index{1} << 28, of_a_byte = 256;
  return std::clamp(static_cast<Index>(std::min(bytes, size_t{1} << 31)) * of_a_byte, least, most);
}

Tensor dense_tensor(const pb::SparseTensor& sparse, const std::filesystem::path& folder, Index& left) {
  pb::Tensor values_message = sparse.values(), indices_message = sparse.indices();
  const Tensor values = take_tensor(values_message, folder), indices = take_tensor(indices_message, folder);
  const Shape shape = shape_of(sparse.dims());
  if (shape.elements() > left)
    throw Error("as a dense tensor it has {} elements; a file of this size may have {} more", shape.elements(), left);
  left -= shape.elements();
  if (values.dtype() == DType::string || bits(values.dtype()) < 8)
    throw CannotRun("sparse tensors of {} are not supported", name(values.dtype()));
  const Index count = values.elements();
  const bool linear = indices.shape().rank() == 1;
  if (indices.dtype() != DType::i64 || values.shape().rank() != 1 || indices.shape().rank() > 2 ||
      indices.shape().rank() == 0 || indices.shape()[0] != count ||
      (!linear && indices.shape()[1] != static_cast<Index>(shape.rank())))
    throw Error("a sparse tensor of {} has values of {} and indices of {}, which do not fit", to_string(shape),
                to_string(values.shape()), to_string(indices.shape()));
  Tensor dense(values.dtype(), shape);
  dense.fill_bytes(0);
  const auto at = indices.values<int64_t>();
  const auto strides = shape.strides();
  const auto width = static_cast<size_t>(bits(values.dtype()) / 8);
  for (Index i = 0; i < count; ++i) {
    Index offset = linear ? at[i] : 0;
    for (size_t axis = 0; !linear && axis < shape.rank(); ++axis) {
      const Index index = at[i * static_cast<Index>(shape.rank()) + static_cast<Index>(axis)];
      if (index < 0 || index >= shape[axis]) throw Error("sparse index {} is out of range on axis {}", index, axis);
      offset += index * strides[axis];
    }
    if (offset < 0 || offset >= shape.elements()) throw Error("sparse index {} is out of range", offset);
    std::memcpy(static_cast<char*>(dense.data()) + offset * width, static_cast<const char*>(values.data()) + i * width,
                width);
  }
  return dense;
}

}  // namespace d5
