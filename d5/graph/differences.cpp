// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/differences.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "d5/core/convert.hpp"
#include "d5/graph/onnx/declared.hpp"

namespace d5 {
namespace {

using Lines = std::vector<std::string>;

std::string text(const Tensor& tensor) { return to_string(TensorSpec{tensor.dtype(), tensor.shape()}); }

// Calls `both` for what both have and says what one has alone.
template <class Map, class Both>
void walk(const std::string& what, const Map& a, const Map& b, Lines& lines, Both&& both) {
  for (const auto& [name, value] : a) {
    const auto found = b.find(name);
    if (found == b.end())
      lines.push_back(fmt::format("{} '{}': only in the first", what, name));
    else
      both(name, value, found->second);
  }
  for (const auto& [name, value] : b)
    if (!a.contains(name)) lines.push_back(fmt::format("{} '{}': only in the second", what, name));
}

std::string tensor_difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return fmt::format("{} and {}", text(a), text(b));
  if (a.dtype() == DType::string)
    return std::ranges::equal(a.values<std::string>(), b.values<std::string>()) ? "" : "texts differ";
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return "";
  Index differ = 0;
  double most = 0;
  for (Index i = 0; i < a.elements(); ++i) {
    const double x = load_as_double(a.dtype(), a.data(), i), y = load_as_double(b.dtype(), b.data(), i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++differ;
    most = std::max(most, std::abs(x - y));
  }
  return differ == 0 ? "" : fmt::format("{} of {} elements differ, by at most {:g}", differ, a.elements(), most);
}

void compare_tensors(const std::string& what, const std::map<std::string, Tensor>& a,
                     const std::map<std::string, Tensor>& b, Lines& lines) {
  walk(what, a, b, lines, [&](const std::string& name, const Tensor& x, const Tensor& y) {
    if (const std::string how = tensor_difference(x, y); !how.empty())
      lines.push_back(fmt::format("{} '{}': {}", what, name, how));
  });
}

void compare_attributes(const std::string& node, const Attributes& a, const Attributes& b, Lines& lines) {
  walk(node + ": attribute", a.values(), b.values(), lines,
       [&](const std::string& name, const Value& x, const Value& y) {
         const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&x);
         const auto* other_tensor = std::get_if<std::shared_ptr<const Tensor>>(&y);
         const auto* body = std::get_if<std::shared_ptr<const Graph>>(&x);
         const auto* other_body = std::get_if<std::shared_ptr<const Graph>>(&y);
         if (tensor && other_tensor) {
           if (const std::string how = tensor_difference(**tensor, **other_tensor); !how.empty())
             lines.push_back(fmt::format("{}: attribute '{}': {}", node, name, how));
         } else if (body && other_body) {
           for (const std::string& line : differences(**body, **other_body))
             lines.push_back(fmt::format("{}: {}: {}", node, name, line));
         } else if (!(x == y)) {
           lines.push_back(fmt::format("{}: attribute '{}': {} and {}", node, name, to_string(x), to_string(y)));
         }
       });
}

std::string list(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

void compare_nodes(const Node& a, const Node& b, Lines& lines) {
  const std::string node = fmt::format("node '{}'", a.name);
  if (a.op != b.op) lines.push_back(fmt::format("{}: {} and {}", node, a.op, b.op));
  if (a.references != b.references) lines.push_back(fmt::format("{}: takes other attributes of its function", node));
  if (a.inputs != b.inputs) lines.push_back(fmt::format("{}: reads {} and {}", node, list(a.inputs), list(b.inputs)));
  if (a.outputs != b.outputs)
    lines.push_back(fmt::format("{}: makes {} and {}", node, list(a.outputs), list(b.outputs)));
  compare_attributes(node, a.attributes, b.attributes, lines);
}

std::string input_text(const GraphInput& input) {
  std::string what = input.kind == ValueKind::tensor ? to_string(input.spec) : "no tensor";
  if (!input.symbols.empty()) what += fmt::format(" ({})", fmt::join(input.symbols, ", "));
  return input.parameter ? what + ", a parameter" : what;
}

// By name; nodes without one by their place.
std::map<std::string, const Node*> by_name(const std::vector<Node>& nodes) {
  std::map<std::string, const Node*> named;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const std::string& name = nodes[n].name;
    named[name.empty() || named.contains(name) ? fmt::format("{}#{}", name, n) : name] = &nodes[n];
  }
  return named;
}

void compare_all_nodes(const std::vector<Node>& a, const std::vector<Node>& b, Lines& lines) {
  walk("node", by_name(a), by_name(b), lines,
       [&](const std::string&, const Node* x, const Node* y) { compare_nodes(*x, *y, lines); });
}

void compare_opsets(const std::map<std::string, int64_t>& a, const std::map<std::string, int64_t>& b, Lines& lines) {
  walk("opset", a, b, lines, [&](const std::string& domain, int64_t x, int64_t y) {
    if (x != y) lines.push_back(fmt::format("opset '{}': {} and {}", domain, x, y));
  });
}

void compare_functions(const Graph& a, const Graph& b, Lines& lines) {
  std::map<std::string, const Function*> functions, other_functions;
  for (const Function& function : a.functions) functions[function.op] = &function;
  for (const Function& function : b.functions) other_functions[function.op] = &function;
  walk("function", functions, other_functions, lines,
       [&](const std::string& name, const Function* x, const Function* y) {
         Lines inside;
         compare_opsets(x->opsets, y->opsets, inside);
         if (x->inputs != y->inputs)
           inside.push_back(fmt::format("inputs: {} and {}", list(x->inputs), list(y->inputs)));
         if (x->outputs != y->outputs)
           inside.push_back(fmt::format("outputs: {} and {}", list(x->outputs), list(y->outputs)));
         compare_attributes("defaults", x->defaults, y->defaults, inside);
         compare_all_nodes(x->nodes, y->nodes, inside);
         for (const std::string& line : inside) lines.push_back(fmt::format("function '{}': {}", name, line));
       });
}

// What the files say of outputs, where both say something.
void compare_declared_outputs(const Graph& a, const Graph& b, Lines& lines) {
  if (a.outputs != b.outputs) return;
  const auto x = declared_outputs(a), y = declared_outputs(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].kind != ValueKind::other && y[i].kind != ValueKind::other && input_text(x[i]) != input_text(y[i]))
      lines.push_back(fmt::format("output '{}': {} and {}", x[i].name, input_text(x[i]), input_text(y[i])));
}

}  // namespace

std::vector<std::string> differences(const Graph& a, const Graph& b) {
  Lines lines;
  compare_opsets(a.opsets, b.opsets, lines);
  std::map<std::string, const GraphInput*> inputs, other_inputs;
  for (const GraphInput& input : a.inputs) inputs[input.name] = &input;
  for (const GraphInput& input : b.inputs) other_inputs[input.name] = &input;
  walk("input", inputs, other_inputs, lines, [&](const std::string& name, const GraphInput* x, const GraphInput* y) {
    if (input_text(*x) != input_text(*y))
      lines.push_back(fmt::format("input '{}': {} and {}", name, input_text(*x), input_text(*y)));
  });
  if (a.outputs != b.outputs) lines.push_back(fmt::format("outputs: {} and {}", list(a.outputs), list(b.outputs)));
  compare_declared_outputs(a, b, lines);
  compare_all_nodes(a.nodes, b.nodes, lines);
  compare_functions(a, b, lines);
  compare_tensors("constant", a.constants, b.constants, lines);
  compare_tensors("initial value", a.initial, b.initial, lines);
  walk("metadata", a.metadata, b.metadata, lines,
       [&](const std::string& key, const std::string& x, const std::string& y) {
         if (x != y) lines.push_back(fmt::format("metadata '{}': '{}' and '{}'", key, x, y));
       });
  return lines;
}

}  // namespace d5
