// SPDX-License-Identifier: Apache-2.0
// Nodes as a hostile file could have them: every operator, in each of its own cases with one or two things changed
// (an attribute, a size, a rank, an element type, an input that is missing, indices that lie anywhere), gives results
// of the shapes that it inferred, or a reason in words. It neither crashes nor takes memory that nobody asked for.
#include <limits>

#include "d5/core/rng.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
const std::vector<int64_t> odd_numbers{
    0, 1, -1, 2, -2, 3, 7, -7, 100, 1 << 20, int64_t{1} << 33, int64_t{1} << 62, most, least};

// Names that operators read, whatever the operator: one that it does not know is ignored or refused.
const std::vector<std::string> names{
    "axis",       "axes",      "strides",     "pads",        "dilations",    "kernel_shape",
    "group",      "to",        "perm",        "keepdims",    "output_shape", "output_padding",
    "blocksize",  "num_heads", "hidden_size", "num_outputs", "batch_dims",   "start",
    "end",        "epsilon",   "alpha",       "mode",        "size",         "auto_pad",
    "num_groups", "direction", "k",           "dtype",       "equation",     "value"};

class Chance {
 public:
  explicit Chance(std::string_view name) : rng_(7, stream_of(name)) {}
  size_t below(size_t bound) { return rng_.next_below(bound); }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  int64_t number() { return of(odd_numbers); }

  Value value() {
    switch (below(7)) {
      case 0:
        return std::string(of(std::vector<std::string>{"", "x", "SAME_UPPER", "ij,jk->ik", "...i->", "linear", "f32"}));
      case 1: return below(2) ? std::numeric_limits<double>::quiet_NaN() : -1e308;
      case 2: return true;
      case 3: return std::make_shared<const Tensor>(Tensor::from<int64_t>({2}, {number(), number()}));
      case 4: return std::vector<double>(below(4), 0.5);
      case 5: {
        std::vector<int64_t> list(below(6));
        for (int64_t& one : list) one = number();
        return list;
      }
      default: return number();
    }
  }

 private:
  Rng rng_;
};

// A list stays as long as it was, mostly: only then is it looked into.
Value changed(const Value& value, Chance& chance) {
  if (chance.below(4) == 0) return chance.value();
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value); list && !list->empty()) {
    std::vector<int64_t> other = *list;
    other[chance.below(other.size())] = chance.number();
    return other;
  }
  if (std::holds_alternative<int64_t>(value)) return chance.number();
  return chance.value();
}

void change_attribute(Attributes& attributes, Chance& chance) {
  std::vector<std::string> own;
  for (const auto& [name, value] : attributes.values()) own.push_back(name);
  if (own.empty() || chance.below(4) == 0) return attributes.set(chance.of(names), chance.value());
  const std::string name = chance.of(own);
  attributes.set(name, changed(attributes.values().at(name), chance));
}

// Small enough to be filled; sizes that no machine holds meet inference alone.
Shape changed(const Shape& shape, Chance& chance) {
  auto sizes = shape.sizes();
  switch (sizes.empty() ? 0 : chance.below(4)) {
    case 0:
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(chance.below(sizes.size() + 1)), chance.below(3));
      break;
    case 1: sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(chance.below(sizes.size()))); break;
    default: sizes[chance.below(sizes.size())] = static_cast<Index>(chance.below(6)); break;
  }
  return Shape(std::move(sizes));
}

const std::vector<DType> types{DType::f32,    DType::f64, DType::f16,     DType::bf16, DType::i8,
                               DType::u8,     DType::i32, DType::i64,     DType::u64,  DType::boolean,
                               DType::string, DType::u4,  DType::f8e4m3fn};

struct Call {
  Node node;
  std::vector<Tensor> inputs;
};

Tensor filled(const OperatorInput& input, bool odd, Chance& chance) {
  if (input.spec.known && !odd && input.spec.known->shape() == input.spec.shape &&
      input.spec.known->dtype() == input.spec.dtype)
    return *input.spec.known;
  Tensor tensor(input.spec.dtype, input.spec.shape);
  if (input.spec.dtype == DType::string) return tensor;
  const Rng rng(chance.below(1000), 3);
  if (is_float(input.spec.dtype))
    fill_uniform(tensor, rng, input.low, input.high);
  else
    fill_integers(tensor, rng, static_cast<int64_t>(input.low), static_cast<int64_t>(input.high));
  if (odd && tensor.elements() > 0 && input.spec.dtype == DType::i64)
    tensor.values<int64_t>()[chance.below(static_cast<size_t>(tensor.elements()))] = chance.number();
  if (odd && tensor.elements() > 0 && input.spec.dtype == DType::i32)
    tensor.values<int32_t>()[chance.below(static_cast<size_t>(tensor.elements()))] =
        static_cast<int32_t>(chance.number());
  return tensor;
}

Call hostile_call(const std::string& op, OperatorCase one, Chance& chance) {
  bool odd = false;
  for (size_t changes = 1 + chance.below(2); changes > 0; --changes) {
    OperatorInput* input = one.inputs.empty() ? nullptr : &one.inputs[chance.below(one.inputs.size())];
    switch (input ? chance.below(8) : 0) {
      case 0:
      case 1:
      case 2: change_attribute(one.attributes, chance); break;
      case 3:
      case 4: input->spec.shape = changed(input->spec.shape, chance); break;
      case 5: input->spec.dtype = chance.of(types); break;
      case 6: odd = true; break;
      default:
        if (chance.below(2)) {
          one.inputs.pop_back();
        } else {
          input->spec.present = false;
        }
    }
  }
  Call call{.node = {.op = op, .name = "n", .attributes = one.attributes}};
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const bool present = one.inputs[i].spec.present;
    call.node.inputs.push_back(present ? fmt::format("x{}", i) : "");
    call.inputs.push_back(present ? filled(one.inputs[i], odd, chance) : Tensor());
  }
  for (size_t i = 0; i < one.outputs; ++i) call.node.outputs.push_back(fmt::format("y{}", i));
  return call;
}

std::string described(const Call& call) {
  std::string text = call.node.op + " ";
  for (const auto& [name, value] : call.node.attributes.values()) text += fmt::format("{}={} ", name, to_string(value));
  for (const Tensor& input : call.inputs)
    text += input.present() ? to_string(TensorSpec{input.dtype(), input.shape()}) + " " : "- ";
  return text;
}

// One size of one input is absurd, nothing is filled.
void infer_huge(const std::string& op, OperatorCase one, Chance& chance) {
  std::vector<TensorSpec> specs = one.specs();
  if (specs.empty()) return;
  TensorSpec& spec = specs[chance.below(specs.size())];
  if (!spec.present || spec.known || spec.shape.rank() == 0) return;
  auto sizes = spec.shape.sizes();
  sizes[chance.below(sizes.size())] = std::abs(std::max(chance.number(), -most));
  spec.shape = Shape(std::move(sizes));
  const Node node{.op = op, .attributes = one.attributes};
  const auto made = make_operator(node);
  infer_node(node, *made, specs);
  made->cost(specs, Pass::forward);
}

class EveryOperator : public testing::TestWithParam<std::string> {};

TEST_P(EveryOperator, GivesResultsOrReasons) {
  constexpr int tries = sanitized ? 100 : 400;
  const OperatorEntry& entry = registered<operators>(GetParam());
  Chance chance(GetParam());
  const EvaluateOptions options{.most_bytes = 16 << 20};
  const bool print = std::getenv("D5_PRINT_CALLS") != nullptr;  // the last line before a crash is its reason
  for (int i = 0; i < tries; ++i) {
    const OperatorCase one = entry.describe(complete_values(GetParam(), entry, chance.of(entry.cases)), DType::f32);
    double elements = 0;
    for (const OperatorInput& input : one.inputs) elements += static_cast<double>(input.spec.elements());
    if (elements > 20'000) continue;
    const Call call = hostile_call(GetParam(), one, chance);
    if (print) fmt::print(stderr, "{}\n", described(call));
    try {
      infer_huge(GetParam(), one, chance);
    } catch (const Error&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << GetParam() << " with a huge input: " << error.what();
    }
    try {
      const auto op = make_operator(call.node);
      std::vector<TensorSpec> specs;
      for (const Tensor& input : call.inputs)
        specs.push_back(input.present()
                            ? TensorSpec{input.dtype(), input.shape(), std::make_shared<const Tensor>(input)}
                            : TensorSpec::absent());
      const auto made = infer_node(call.node, *op, specs);
      const Cost cost = op->cost(specs, Pass::forward);
      if (cost.flops > 1e7 || cost.bytes > 1e7) continue;
      const auto results = evaluate_node(call.node, *op, call.inputs, options);
      for (size_t j = 0; j < results.size(); ++j) {
        if (!results[j].present()) continue;
        EXPECT_EQ(results[j].dtype(), made.at(j).dtype) << described(call);
        EXPECT_EQ(results[j].shape(), made.at(j).shape) << described(call);
      }
    } catch (const Error&) {  // a reason in words
    } catch (const std::exception& error) {
      ADD_FAILURE() << described(call) << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hostile, EveryOperator, testing::ValuesIn(registry_names(operators::kind)),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

}  // namespace
}  // namespace d5
