// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/read.hpp"

#include <set>

#include "d5/graph/onnx/attributes.hpp"
#include "d5/graph/onnx/element_types.hpp"
#include "d5/graph/onnx/file.hpp"
#include "d5/graph/onnx/opsets.hpp"
#include "d5/graph/onnx/tensors.hpp"
#include "d5/graph/onnx/types.hpp"
#include "d5/graph/onnx/wire.hpp"

namespace d5 {
namespace {

constexpr int64_t oldest_ir = 3;

// The error with a place in front; an element type that is not here stays such an error.
template <class F>
auto within(const std::string& place, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const CannotRun& error) {
    throw CannotRun(place + ": " + error.what());
  } catch (const Error& error) {
    throw error.within(place);
  }
}

class Reader {
 public:
  Reader(std::filesystem::path folder, size_t bytes)
      : folder_(std::move(folder)), dense_left_(most_dense_elements(bytes)) {
    attributes_ = {folder_, &dense_left_, [this](pb::Graph& m) {
                     Graph graph = read_graph(m);
                     graph.file_rest = m.SerializeAsString();
                     return graph;
                   }};
  }

  Graph read(pb::Model& model) {
    if (!model.has_ir_version()) throw Error("it has no IR version; is it an ONNX file?");
    if (model.ir_version() < oldest_ir)
      throw Error("IR version {} is not supported; {} and later are", model.ir_version(), oldest_ir);
    if (!model.has_graph()) throw Error("it holds no graph");
    if (model.opset_import_size() == 0) throw Error("it does not say which opset it uses");
    Graph graph = read_graph(*model.mutable_graph());
    graph.opsets = opsets_of(model.opset_import());
    graph.opsets.try_emplace("", newest_opset);  // a graph without this domain is one in d5's own words
    for (const pb::Entry& entry : model.metadata_props()) graph.metadata[entry.key()] = entry.value();
    for (pb::Function& function : *model.mutable_functions())
      graph.functions.push_back(
          within(fmt::format("function '{}'", function.name()), [&] { return read_function(function); }));
    model.clear_functions();
    graph.file_rest = model.SerializeAsString();
    return graph;
  }

 private:
  static std::string domain(const std::string& name) { return name == "ai.onnx" ? "" : name; }

  static std::map<std::string, int64_t> opsets_of(const google::protobuf::RepeatedPtrField<pb::Opset>& list) {
    std::map<std::string, int64_t> opsets;
    for (const pb::Opset& opset : list) {
      const std::string name = domain(opset.domain());
      if (name.empty() && opset.version() < 1)
        throw Error("opset {} of ONNX does not exist; 1 to {} are known", opset.version(), newest_opset);
      opsets[name] = opset.version();
    }
    return opsets;
  }

  // In a graph an operator is domain:type:overload, so that a colon inside would make it another one.
  static std::string op_name(const std::string& domain_name, const std::string& type, const std::string& overload) {
    if ((domain_name + type).find(':') != std::string::npos)
      throw Error("'{}' of the domain '{}' is no operator: a name has no colon", type, domain_name);
    if (domain(domain_name).empty() && !overload.empty())
      throw Error("'{}' has the overload '{}', but ONNX's own operators have none", type, overload);
    std::string op = domain(domain_name).empty() ? type : domain_name + ":" + type;
    return overload.empty() ? op : op + ":" + overload;
  }

  // Leaves in the message what the graph has no place for.
  Graph read_graph(pb::Graph& m) {
    Graph graph{.name = m.name()};
    if (!m.name().empty()) m.clear_name();  // a field that is there and empty stays, here and below
    for (pb::Tensor& tensor : *m.mutable_initializer()) {
      const std::string place = fmt::format("tensor '{}'", tensor.name());
      Tensor value = within(place, [&] { return take_tensor(tensor, folder_); });
      if (tensor.name().empty()) throw Error("an initialiser has no name");
      if (!graph.constants.emplace(tensor.name(), std::move(value)).second) throw Error("{} is there twice", place);
    }
    for (const pb::SparseTensor& sparse : m.sparse_initializer()) {
      const std::string place = fmt::format("sparse tensor '{}'", sparse.values().name());
      Tensor value = within(place, [&] { return dense_tensor(sparse, folder_, dense_left_); });
      if (!graph.constants.emplace(sparse.values().name(), std::move(value)).second)
        throw Error("{} is there twice", place);
    }
    std::set<std::string> names;
    for (const pb::ValueInfo& info : m.input()) {
      const std::string place = fmt::format("input '{}'", info.name());
      if (info.name().empty()) throw Error("an input has no name");
      if (!names.insert(info.name()).second) throw Error("{} is there twice", place);
      if (graph.constants.contains(info.name())) continue;  // as IR version 3 wants it: the value of an input
      graph.inputs.push_back(within(place, [&] { return input_from(info); }));
    }
    for (const pb::ValueInfo& info : m.output()) graph.outputs.push_back(info.name());
    graph.nodes.reserve(m.node_size());
    for (pb::Node& node : *m.mutable_node()) {
      const auto place = fmt::format("node {} '{}' ({})", graph.nodes.size(), node.name(), node.op_type());
      graph.nodes.push_back(within(place, [&] { return read_node(node); }));
    }
    m.clear_node();
    return graph;
  }

  Node read_node(pb::Node& m) {
    if (m.op_type().empty()) throw Error("it names no operator");
    Node node{.op = op_name(m.domain(), m.op_type(), m.overload()), .name = m.name()};
    node.inputs.assign(std::make_move_iterator(m.mutable_input()->begin()),
                       std::make_move_iterator(m.mutable_input()->end()));
    node.outputs.assign(std::make_move_iterator(m.mutable_output()->begin()),
                        std::make_move_iterator(m.mutable_output()->end()));
    node.attributes = read_attributes(*m.mutable_attribute(), &node.references);
    if (!domain(m.domain()).empty()) m.clear_domain();
    if (!m.name().empty()) m.clear_name();
    m.clear_op_type();
    if (!m.overload().empty()) m.clear_overload();
    m.clear_input();
    m.clear_output();
    node.file_rest = m.SerializeAsString();
    return node;
  }

  Attributes read_attributes(google::protobuf::RepeatedPtrField<pb::Attribute>& list,
                             std::map<std::string, std::string>* references) {
    Attributes attributes;
    for (pb::Attribute& attribute : list) {
      const std::string place = fmt::format("attribute '{}'", attribute.name());
      if (attributes.has(attribute.name())) throw Error("{} is there twice", place);
      if (references && !attribute.ref_attr_name().empty()) (*references)[attribute.name()] = attribute.ref_attr_name();
      if (auto value = within(place, [&] { return take_attribute(attribute, attributes_); }))
        attributes.set(attribute.name(), std::move(*value));
    }
    return attributes;
  }

  Function read_function(pb::Function& m) {
    Function function{.op = op_name(m.domain(), m.name(), m.overload())};
    function.inputs.assign(m.input().begin(), m.input().end());
    function.outputs.assign(m.output().begin(), m.output().end());
    function.defaults = read_attributes(*m.mutable_attribute_proto(), nullptr);
    function.opsets = opsets_of(m.opset_import());
    for (pb::Node& node : *m.mutable_node()) {
      const auto place = fmt::format("node {} '{}' ({})", function.nodes.size(), node.name(), node.op_type());
      function.nodes.push_back(within(place, [&] { return read_node(node); }));
    }
    m.clear_node();
    m.clear_name();
    if (!m.overload().empty()) m.clear_overload();
    m.clear_input();
    m.clear_output();
    function.file_rest = m.SerializeAsString();
    return function;
  }

  std::filesystem::path folder_;
  Index dense_left_;
  AttributeContext attributes_;
};

}  // namespace

Graph parse_onnx(std::string_view bytes, const std::string& name, const std::filesystem::path& folder) {
  return within("[onnx] " + name, [&] {
    check_wire(bytes, WireKind::model);
    pb::Model model;
    if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) throw Error("it is no ONNX file");
    return Reader(folder, bytes.size()).read(model);
  });
}

Graph read_onnx(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto file = within("[onnx] " + path.string(), [&] { return std::make_unique<MappedFile>(path); });
  return parse_onnx(file->bytes(), name, path.parent_path());
}

}  // namespace d5
