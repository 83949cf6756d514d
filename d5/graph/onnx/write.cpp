// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/write.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include "d5/core/version.hpp"
#include "d5/graph/onnx/attributes.hpp"
#include "d5/graph/onnx/element_types.hpp"
#include "d5/graph/onnx/opsets.hpp"
#include "d5/graph/onnx/own_operators.hpp"
#include "d5/graph/onnx/tensors.hpp"
#include "d5/graph/onnx/types.hpp"

namespace d5 {
namespace {

constexpr size_t most_bytes = (size_t{1} << 31) - 1;  // of a protobuf message
constexpr size_t room_for_the_rest = size_t{64} << 20;
constexpr size_t large = size_t{1} << 20;      // tensors that may leave the message
constexpr size_t alignment = size_t{1} << 12;  // of external data: pages

template <class Message>
Message parsed(const std::string& rest) {
  Message message;
  if (!message.ParseFromString(rest)) throw Error("[onnx] what was kept of the file is damaged");
  return message;
}

// Tensors in a file beside the network.
class ExternalFile {
 public:
  explicit ExternalFile(std::filesystem::path path) : path_(std::move(path)) {}

  void add(pb::Tensor& message, const Tensor& tensor) {
    if (!file_.is_open()) file_.open(temporary(), std::ios::binary | std::ios::trunc);
    const std::string padding((alignment - bytes_ % alignment) % alignment, '\0');
    file_.write(padding.data(), static_cast<std::streamsize>(padding.size()));
    bytes_ += padding.size();
    put_tensor(message, tensor, true);
    const std::string& raw = message.raw_data();
    file_.write(raw.data(), static_cast<std::streamsize>(raw.size()));
    if (!file_) throw Error("[onnx] {} cannot be written", path_.string());
    message.clear_external_data();
    const auto entry = [&](const char* key, const std::string& value) {
      pb::Entry& one = *message.add_external_data();
      one.set_key(key);
      one.set_value(value);
    };
    entry("location", path_.filename().string());
    entry("offset", std::to_string(bytes_));
    entry("length", std::to_string(raw.size()));
    message.set_data_location(pb::Tensor::EXTERNAL);
    bytes_ += raw.size();
    message.clear_raw_data();
  }

  void close() {
    if (!file_.is_open()) return;
    file_.close();
    if (!file_) throw Error("[onnx] {} cannot be written", path_.string());
    std::filesystem::rename(temporary(), path_);
  }

 private:
  std::filesystem::path temporary() const { return path_.string() + ".part"; }
  std::filesystem::path path_;
  std::ofstream file_;
  size_t bytes_ = 0;
};

class Writer {
 public:
  Writer(const Graph& graph, ExternalFile* external) : graph_(graph), external_(external) {
    size_t bytes = room_for_the_rest;
    for (const auto* tensors : {&graph.constants, &graph.initial})
      for (const auto& [name, tensor] : *tensors) bytes += tensor.bytes();
    too_large_ = bytes > most_bytes;
    if (too_large_ && !external) throw Error("[onnx] {}: {} bytes do not fit into one message", graph.name, bytes);
  }

  pb::Model model() {
    auto model = parsed<pb::Model>(graph_.file_rest);
    own_words_ = !graph_.opsets.contains("");
    put_graph(*model.mutable_graph(), graph_);
    put_opsets(model);
    put_metadata(model);
    for (const Function& function : graph_.functions) put_function(*model.add_functions(), function);
    for (const auto& [name, function] : own_functions_) put_function(*model.add_functions(), function);
    if (graph_.file_rest.empty()) {
      model.set_producer_name("deep500");
      model.set_producer_version(version());
    }
    return model;
  }

 private:
  void put_opsets(pb::Model& model) {
    auto opsets = graph_.opsets;
    if (own_words_) {
      const int64_t opset = opset_of(graph_);
      opsets[""] = opset;
      for (const auto& domain : foreign_domains_) opsets.try_emplace(domain, 1);
      model.set_ir_version(std::max({model.ir_version(), ir_version_of(opset), int64_t{8}}));
      model.clear_opset_import();
    } else if (new_initialisers_) {
      model.set_ir_version(std::max<int64_t>(model.ir_version(), 4));  // before, every initialiser is an input
    }
    for (pb::Opset& opset : *model.mutable_opset_import()) {
      const auto found = opsets.find(opset.domain() == "ai.onnx" ? "" : opset.domain());
      if (found == opsets.end()) continue;
      opset.set_version(found->second);
      opsets.erase(found);
    }
    // The reader adds ONNX's own domain where a file does not name it.
    if (!own_words_ && !graph_.file_rest.empty() && opsets.contains("") && opsets.at("") == newest_opset)
      opsets.erase("");
    for (const auto& [domain, number] : opsets) {
      pb::Opset& opset = *model.add_opset_import();
      opset.set_domain(domain);
      opset.set_version(number);
    }
  }

  void put_metadata(pb::Model& model) const {
    auto rest = graph_.metadata;
    auto& entries = *model.mutable_metadata_props();
    for (int i = entries.size(); i-- > 0;) {
      const auto found = rest.find(entries[i].key());
      if (found == rest.end()) {
        if (!graph_.metadata.contains(entries[i].key())) entries.DeleteSubrange(i, 1);
        continue;
      }
      entries[i].set_value(found->second);
      rest.erase(found);
    }
    for (const auto& [key, value] : rest) {
      pb::Entry& entry = *model.add_metadata_props();
      entry.set_key(key);
      entry.set_value(value);
    }
  }

  void put_graph(pb::Graph& m, const Graph& graph) {
    if (!graph.name.empty())
      m.set_name(graph.name);
    else if (graph.file_rest.empty())
      m.set_name("network");
    const std::set<std::string> initialisers = put_initialisers(m, graph);
    const bool changed = put_inputs(m, graph, initialisers);
    put_outputs(m, graph, changed);
    for (const Node& node : graph.nodes) put_node(*m.add_node(), node);
  }

  // The names of all initialisers.
  std::set<std::string> put_initialisers(pb::Graph& m, const Graph& graph) {
    std::map<std::string, const Tensor*> left;
    std::set<std::string> names;
    for (const auto* tensors : {&graph.constants, &graph.initial})
      for (const auto& [name, tensor] : *tensors) {
        left[name] = &tensor;
        names.insert(name);
      }
    auto& sparse = *m.mutable_sparse_initializer();
    for (int i = sparse.size(); i-- > 0;) {
      const auto found = left.find(sparse[i].values().name());
      Index dense_left = std::numeric_limits<Index>::max();  // counted when it was read
      if (found != left.end() && same(dense_tensor(sparse[i], {}, dense_left), *found->second))
        left.erase(found);
      else
        sparse.DeleteSubrange(i, 1);
    }
    auto& list = *m.mutable_initializer();
    google::protobuf::RepeatedPtrField<pb::Tensor> kept;
    for (pb::Tensor& tensor : list) {
      const auto found = left.find(tensor.name());
      if (found == left.end()) continue;
      kept.Add()->Swap(&tensor);
      put_initialiser(kept[kept.size() - 1], *found->second, false);
      left.erase(found);
    }
    list.Swap(&kept);
    for (const auto& [name, tensor] : left) {
      pb::Tensor& added = *m.add_initializer();
      added.set_name(name);
      put_initialiser(added, *tensor, true);
      new_initialisers_ = true;
    }
    return names;
  }

  static bool same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  }

  void put_initialiser(pb::Tensor& m, const Tensor& tensor, bool is_new) {
    const bool outside = m.data_location() == pb::Tensor::EXTERNAL || (too_large_ && tensor.bytes() >= large);
    if (outside && external_) return external_->add(m, tensor);
    if (m.data_location() == pb::Tensor::EXTERNAL) {
      m.clear_data_location();
      m.clear_external_data();
      is_new = true;
    }
    put_tensor(m, tensor, is_new);
  }

  // True: some input is not what the file said.
  static bool put_inputs(pb::Graph& m, const Graph& graph, const std::set<std::string>& initialisers) {
    std::map<std::string, const GraphInput*> left;
    for (const GraphInput& input : graph.inputs)
      if (!initialisers.contains(input.name)) left[input.name] = &input;
    bool changed = false;
    google::protobuf::RepeatedPtrField<pb::ValueInfo> kept;
    for (pb::ValueInfo& info : *m.mutable_input()) {
      const auto found = left.find(info.name());
      if (found == left.end() && !initialisers.contains(info.name())) {
        changed = true;
        continue;
      }
      pb::ValueInfo& input = *kept.Add();
      input.Swap(&info);
      if (found == left.end()) continue;
      changed |= put_input(input, *found->second);
      left.erase(found);
    }
    m.mutable_input()->Swap(&kept);
    for (const GraphInput& input : graph.inputs)
      if (left.contains(input.name)) changed |= put_input(*m.add_input(), input);
    return changed;
  }

  // Does the file's own type of an output still hold?
  static bool agrees(const pb::ValueInfo& declared, const pb::ValueInfo& inferred) {
    if (!declared.type().has_tensor_type()) return true;
    const GraphInput a = input_from(declared), b = input_from(inferred);
    if (a.spec.dtype != b.spec.dtype) return false;
    if (a.symbols.size() == 1 && a.symbols[0] == "*") return true;
    if (a.spec.shape.rank() != b.spec.shape.rank()) return false;
    for (size_t axis = 0; axis < a.spec.shape.rank(); ++axis)
      if ((a.symbols.empty() || a.symbols[axis].empty()) && (b.symbols.empty() || b.symbols[axis].empty()) &&
          a.spec.shape[axis] != b.spec.shape[axis])
        return false;
    return true;
  }

  void put_outputs(pb::Graph& m, const Graph& graph, bool changed) const {
    std::map<std::string, pb::ValueInfo> known;
    for (pb::ValueInfo& info : *m.mutable_output()) known[info.name()].Swap(&info);
    m.clear_output();
    const bool missing =
        std::ranges::any_of(graph.outputs, [&](const std::string& name) { return !known.contains(name); });
    const bool infers = changed || missing || (own_words_ && &graph == &graph_);
    const auto types = infers ? output_types(graph) : std::map<std::string, pb::ValueInfo>();
    for (const std::string& name : graph.outputs) {
      pb::ValueInfo& info = *m.add_output();
      const auto declared = known.find(name);
      const auto inferred = types.find(name);
      const bool has_type = inferred != types.end();
      if (declared != known.end() && !changed && (!has_type || agrees(declared->second, inferred->second)))
        info = declared->second;
      else if (has_type)
        info = inferred->second;
      info.set_name(name);
    }
    if (changed || own_words_) m.clear_value_info();  // what was edited may have other types
  }

  // By inference with the free sizes as they are, and once more with others: what differs is free in the result, too.
  static std::map<std::string, pb::ValueInfo> output_types(const Graph& graph) {
    std::map<std::string, pb::ValueInfo> types;
    try {
      Graph other = graph;
      std::set<std::string> symbols;
      for (GraphInput& input : other.inputs) {
        auto sizes = input.spec.shape.sizes();
        for (size_t axis = 0; axis < sizes.size() && axis < input.symbols.size(); ++axis) {
          if (input.symbols[axis].empty()) continue;
          ++sizes[axis];
          symbols.insert(input.symbols[axis]);
        }
        input.spec.shape = Shape(std::move(sizes));
      }
      const Specs one = infer_specs(graph);
      const Specs two = symbols.empty() ? one : infer_some_specs(other).specs;
      for (const std::string& name : graph.outputs) {
        const TensorSpec& spec = one.at(name);
        const auto found = two.find(name);
        std::vector<std::string> free(spec.shape.rank());
        if (found == two.end() || found->second.shape.rank() != spec.shape.rank()) free = {"*"};
        for (size_t axis = 0; free != std::vector<std::string>{"*"} && axis < spec.shape.rank(); ++axis) {
          const Index a = spec.shape[axis], b = found->second.shape[axis];
          if (a != b)
            free[axis] = symbols.size() == 1 && b == a + 1 ? *symbols.begin() : fmt::format("{}.{}", name, axis);
        }
        put_type(types[name], spec, free);
      }
    } catch (const Error&) {  // shapes that only values tell: the type is left out
    }
    return types;
  }

  void put_node(pb::Node& m, const Node& given) {
    const auto own = own_words_ ? own_operator(given) : std::nullopt;
    if (own && !own->function.nodes.empty()) own_functions_[own->function.op] = own->function;
    const Node& node = own ? own->node : given;
    m = parsed<pb::Node>(node.file_rest);
    m.mutable_input()->Assign(node.inputs.begin(), node.inputs.end());
    m.mutable_output()->Assign(node.outputs.begin(), node.outputs.end());
    if (!node.name.empty()) m.set_name(node.name);
    const OpName name = split(node.op);
    m.set_op_type(name.type);
    if (!name.domain.empty()) {
      m.set_domain(name.domain);
      foreign_domains_.insert(name.domain);
    }
    if (!name.overload.empty()) m.set_overload(name.overload);
    put_attributes(*m.mutable_attribute(), node.attributes, node.references);
  }

  struct OpName {
    std::string domain, type, overload;
  };
  static OpName split(const std::string& op) {
    const size_t first = op.find(':');
    if (first == std::string::npos) return {"", op, ""};
    const size_t second = op.find(':', first + 1);
    return {op.substr(0, first), op.substr(first + 1, second == std::string::npos ? second : second - first - 1),
            second == std::string::npos ? "" : op.substr(second + 1)};
  }

  // Element types may be names here; a file has numbers.
  Value in_onnx_words(const std::string& attribute, const Value& value) const {
    const auto* word = std::get_if<std::string>(&value);
    const bool is_type = attribute == "to" || attribute == "dtype" || attribute == "output_dtype";
    return own_words_ && word && is_type ? Value(int64_t{element_code(parse_dtype(*word))}) : value;
  }

  void put_attributes(google::protobuf::RepeatedPtrField<pb::Attribute>& list, const Attributes& attributes,
                      const std::map<std::string, std::string>& references) {
    const auto put_body = [this](pb::Graph& m, const Graph& body) {
      m = parsed<pb::Graph>(body.file_rest);
      put_graph(m, body);
    };
    std::set<std::string> done;
    google::protobuf::RepeatedPtrField<pb::Attribute> kept;
    for (pb::Attribute& attribute : list) {
      const auto found = attributes.values().find(attribute.name());
      // A reference of a function's body that was resolved is a value now.
      const bool resolved = !attribute.ref_attr_name().empty() && !references.contains(attribute.name());
      const bool stays = !resolved && stays_in_message(attribute);
      if (!stays && found == attributes.values().end()) continue;
      if (attribute.type() == pb::Attribute::SPARSE_TENSOR && found == attributes.values().end()) continue;
      done.insert(attribute.name());
      pb::Attribute& to = *kept.Add();
      to.Swap(&attribute);
      if (stays) continue;
      to.clear_ref_attr_name();
      const bool was_tensor = to.type() == pb::Attribute::TENSOR;
      const bool is_tensor = std::holds_alternative<std::shared_ptr<const Tensor>>(found->second);
      if (was_tensor && !is_tensor) to.clear_t();
      put_attribute(to, in_onnx_words(found->first, found->second), !was_tensor, put_body);
    }
    list.Swap(&kept);
    for (const auto& [name, value] : attributes.values()) {
      if (done.contains(name)) continue;
      pb::Attribute& attribute = *list.Add();
      attribute.set_name(name);
      put_attribute(attribute, in_onnx_words(name, value), true, put_body);
    }
    for (const auto& [name, from] : references) {
      if (done.contains(name)) continue;
      pb::Attribute& attribute = *list.Add();
      attribute.set_name(name);
      attribute.set_type(pb::Attribute::INT);  // of our own functions: ignore_index
      attribute.set_ref_attr_name(from);
    }
  }

  void put_function(pb::Function& m, const Function& function) {
    m = parsed<pb::Function>(function.file_rest);
    const OpName name = split(function.op);
    m.set_name(name.type);
    if (!m.has_domain()) m.set_domain(name.domain);
    if (!name.overload.empty()) m.set_overload(name.overload);
    m.mutable_input()->Assign(function.inputs.begin(), function.inputs.end());
    m.mutable_output()->Assign(function.outputs.begin(), function.outputs.end());
    put_attributes(*m.mutable_attribute_proto(), function.defaults, {});
    if (function.file_rest.empty()) {
      for (const auto& [domain, number] : function.opsets) {
        pb::Opset& opset = *m.add_opset_import();
        opset.set_domain(domain);
        opset.set_version(number);
      }
      std::set<std::string> names;
      for (const Node& node : function.nodes)
        for (const auto& [attribute, from] : node.references) names.insert(from);
      m.mutable_attribute()->Assign(names.begin(), names.end());
    }
    for (const Node& node : function.nodes) put_node(*m.add_node(), node);
  }

  const Graph& graph_;
  ExternalFile* external_;
  bool too_large_ = false, own_words_ = false, new_initialisers_ = false;
  std::map<std::string, Function> own_functions_;
  std::set<std::string> foreign_domains_;
};

}  // namespace

std::string serialise_onnx(const Graph& graph) {
  std::string bytes;
  if (!Writer(graph, nullptr).model().SerializeToString(&bytes))
    throw Error("[onnx] {}: it does not fit into one message", graph.name);
  return bytes;
}

void write_onnx(const Graph& graph, const std::filesystem::path& path) {
  std::error_code unable;  // then the file cannot be opened, which is said
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), unable);
  ExternalFile external(path.string() + ".data");
  const pb::Model model = Writer(graph, &external).model();
  const std::filesystem::path temporary = path.string() + ".part";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    if (!file || !model.SerializeToOstream(&file) || !file.flush()) {
      file.close();
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      throw Error("[onnx] {} cannot be written", path.string());
    }
  }
  external.close();
  std::filesystem::rename(temporary, path);
}

}  // namespace d5
