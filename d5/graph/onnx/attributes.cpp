// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/attributes.hpp"

#include "d5/graph/onnx/tensors.hpp"

namespace d5 {
namespace {

// Files of the first versions leave the type out; the field that is there tells it.
pb::Attribute::Type type_of(const pb::Attribute& a) {
  if (a.type() != pb::Attribute::UNDEFINED) return a.type();
  if (a.has_f()) return pb::Attribute::FLOAT;
  if (a.has_i()) return pb::Attribute::INT;
  if (a.has_s()) return pb::Attribute::STRING;
  if (a.has_t()) return pb::Attribute::TENSOR;
  if (a.has_g()) return pb::Attribute::GRAPH;
  if (a.floats_size() > 0) return pb::Attribute::FLOATS;
  if (a.ints_size() > 0) return pb::Attribute::INTS;
  if (a.strings_size() > 0) return pb::Attribute::STRINGS;
  return pb::Attribute::UNDEFINED;
}

}  // namespace

std::optional<Value> take_attribute(pb::Attribute& a, const AttributeContext& context) {
  if (!a.ref_attr_name().empty()) return {};
  std::optional<Value> value;
  const auto type = type_of(a);
  switch (type) {
    case pb::Attribute::FLOAT:
      value = double{a.f()};
      a.clear_f();
      break;
    case pb::Attribute::INT:
      value = int64_t{a.i()};
      a.clear_i();
      break;
    case pb::Attribute::STRING:
      value = std::move(*a.mutable_s());
      a.clear_s();
      break;
    case pb::Attribute::FLOATS:
      value = std::vector<double>(a.floats().begin(), a.floats().end());
      a.clear_floats();
      break;
    case pb::Attribute::INTS:
      value = std::vector<int64_t>(a.ints().begin(), a.ints().end());
      a.clear_ints();
      break;
    case pb::Attribute::STRINGS:
      value = std::vector<std::string>(a.strings().begin(), a.strings().end());
      a.clear_strings();
      break;
    case pb::Attribute::TENSOR:
      value = std::make_shared<const Tensor>(take_tensor(*a.mutable_t(), context.folder));
      break;
    case pb::Attribute::GRAPH:
      value = std::make_shared<const Graph>(context.take_graph(*a.mutable_g()));
      a.clear_g();
      break;
    case pb::Attribute::SPARSE_TENSOR:  // it stays there as well
      return std::make_shared<const Tensor>(dense_tensor(a.sparse_tensor(), context.folder, *context.dense_left));
    default: return {};
  }
  a.set_type(type);
  return value;
}

bool stays_in_message(const pb::Attribute& a) {
  switch (a.type()) {
    case pb::Attribute::FLOAT:
    case pb::Attribute::INT:
    case pb::Attribute::STRING:
    case pb::Attribute::FLOATS:
    case pb::Attribute::INTS:
    case pb::Attribute::STRINGS:
    case pb::Attribute::TENSOR:
    case pb::Attribute::GRAPH: return !a.ref_attr_name().empty();
    default: return true;
  }
}

void put_attribute(pb::Attribute& a, const Value& value, bool is_new,
                   const std::function<void(pb::Graph&, const Graph&)>& put_graph) {
  const auto put = [&](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool>) {
      a.set_type(pb::Attribute::INT);
      a.set_i(v);
    } else if constexpr (std::is_same_v<T, double>) {
      a.set_type(pb::Attribute::FLOAT);
      a.set_f(static_cast<float>(v));
    } else if constexpr (std::is_same_v<T, std::string>) {
      a.set_type(pb::Attribute::STRING);
      a.set_s(v);
    } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      a.set_type(pb::Attribute::INTS);
      a.mutable_ints()->Assign(v.begin(), v.end());
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      a.set_type(pb::Attribute::FLOATS);
      for (const double one : v) a.add_floats(static_cast<float>(one));
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      a.set_type(pb::Attribute::STRINGS);
      a.mutable_strings()->Assign(v.begin(), v.end());
    } else if constexpr (std::is_same_v<T, std::shared_ptr<const Tensor>>) {
      a.set_type(pb::Attribute::TENSOR);
      put_tensor(*a.mutable_t(), *v, is_new);
    } else {
      a.set_type(pb::Attribute::GRAPH);
      put_graph(*a.mutable_g(), *v);
    }
  };
  std::visit(put, value);
}

}  // namespace d5
