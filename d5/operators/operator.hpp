// SPDX-License-Identifier: Apache-2.0
// WHAT is computed. An operator is its meaning: shapes, plain loops in double (integers in their own type), gradient,
// cost and how rounding grows. Its loops are the oracle that every backend is checked against; they need not be fast.
//
// One file per operator. It opens with the formula, then the class, then one line: D5_REGISTER(operators, "Gemm",
// Gemm); Besides the virtuals the class has three static functions:
//   parameters()                    the named values of a case (sizes, attributes), with defaults: --m 512 --axis 1
//   describe(values, dtype)         a case from those values: input specs and ONNX attributes
//   cases()                         the conformance cases, as such values: small, odd, edges, one of a real size
// A class without them has one input, of any --shape. infer() and forward() are all that an operator must have.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

enum class Pass { forward, backward };

// Where a run stands: random numbers (Dropout) are keyed by the step and the global number of a sample, so that they do
// not depend on how samples are spread over batches, slots and ranks. Axis 0 counts samples.
struct Position {
  uint64_t step = 0;
  uint64_t first_sample = 0;
};

// What a run of one operator reads and writes. Tensors are host tensors of compute_dtype (f64 for floats). The caller
// allocates outputs and the wanted gradients from infer(); an input, gradient or output that is absent is not wanted.
class Context {
 public:
  std::vector<Tensor> inputs, outputs, output_gradients, input_gradients;
  std::vector<Tensor> saved;  // what forward keeps for backward (a dropout mask); the operator fills it
  // Element types of the inputs before they were widened, from whoever widened them; empty: as the tensors are.
  std::vector<DType> input_types;
  Position position;
  double round_off = 0x1p-24;  // of the arithmetic that magnitude() speaks of: how near to a kink is undecided

  const Tensor& input(size_t i) const { return at(inputs, i); }
  DType input_type(size_t i) const { return i < input_types.size() ? input_types[i] : input(i).dtype(); }
  const Tensor& output(size_t i) const { return at(outputs, i); }
  const Tensor& output_gradient(size_t i) const { return at(output_gradients, i); }
  const Tensor& input_gradient(size_t i) const { return at(input_gradients, i); }
  // For a shape that only the values tell (NonZero): replaces output i.
  const Tensor& output(size_t i, DType type, Shape shape);

 private:
  static const Tensor& at(const std::vector<Tensor>& tensors, size_t i) {
    static const Tensor absent;
    return i < tensors.size() ? tensors[i] : absent;
  }
};

struct Cost {
  double flops = 0;  // a multiply-add counts two
  double bytes = 0;  // compulsory traffic: every input read once, every output written once
};
double input_bytes(std::span<const TensorSpec>);

// How rounding grows in one result: |error| <= (growth(terms) + units) u_accumulate * magnitude + u_output * |y|, where
// growth is min(n, 6 sqrt(n)) (Higham and Mary, 2019: the probabilistic bound with lambda = 6).
struct Rounding {
  double terms = 1;             // additions in the longest sum
  double units = 1;             // other roundings: a division, an exponential
  bool exact = false;           // on small integers every intermediate is exact, so results must agree bit for bit
  bool stored_outputs = false;  // backward reads forward's results as stored, rounded to their own type
};

class Operator {
 public:
  virtual ~Operator() = default;

  // Specs of the outputs; Error on inputs that do not fit together, naming sizes. A spec may carry a known value.
  virtual std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const = 0;
  virtual void forward(Context&) const = 0;
  // Reads inputs, outputs, saved and output gradients; writes (not adds) the wanted input gradients.
  virtual void backward(Context&) const;  // default: Error "no gradient"
  // Only the elements `at` (flat indices) of output `output`, into `values`. False: cannot, use forward.
  virtual bool forward_at(const Context&, size_t output, std::span<const Index> at, std::span<double> values) const;
  // The same for the gradient of input `input`.
  virtual bool backward_at(const Context&, size_t input, std::span<const Index> at, std::span<double> values) const;

  // Default: no operations; forward reads the inputs and writes the outputs, backward reads the inputs and the output
  // gradients and writes the input gradients.
  virtual Cost cost(std::span<const TensorSpec> in, Pass) const;
  // Of output `index` (forward) or of the gradient of input `index` (backward). Default: nothing is known, so every
  // element of every input may be a term of one sum.
  virtual Rounding rounding(std::span<const TensorSpec> in, Pass, size_t index) const;
  // The scale of errors in that result, elementwise (f64). Absent: the operator is a sum of products, so the scale is
  // the operator applied to absolute values. Called after forward (and backward) filled the context.
  virtual Tensor magnitude(const Context&, Pass, size_t index) const;
  // The same for what a kernel may keep in the element type on its way to the result (a gate, a normalised row), which
  // is `type`: the bound grows by u_output * this. Absent: results alone are rounded to their type.
  virtual Tensor stored_magnitude(const Context&, Pass, size_t index, DType type) const;

  // Entries along these axes (samples of a batch) do not depend on each other, so that a large case can be checked on a
  // few of them. -1: the tensor has no such axis (weights).
  struct Batch {
    std::vector<Index> inputs, outputs;
  };
  virtual std::optional<Batch> batch(std::span<const TensorSpec> in) const;  // default: none
};

// ---- cases at level 0
struct Parameter {
  std::string name, about;
  Value otherwise;  // default; its type is the parameter's type. A shape or list of sizes is text, "2x3"
};

struct OperatorInput {
  TensorSpec spec;
  double low = -1, high = 1;  // random values are drawn from here
  bool differentiable = true;
  bool parameter = false;  // a weight: constant over steps, so a backend may keep it in a layout of its own
};

struct OperatorCase {
  std::vector<OperatorInput> inputs;
  Attributes attributes;              // ONNX's
  size_t outputs = 1;                 // how many of the outputs of infer() the case asks for, from the first
  size_t differentiable_outputs = 1;  // how many of those receive a gradient, from the first
  std::vector<TensorSpec> specs() const;
};

struct OperatorEntry {
  std::function<std::unique_ptr<Operator>(const Attributes&)> make;
  std::vector<Parameter> parameters;
  std::function<OperatorCase(const Attributes& values, DType)> describe;
  std::vector<Attributes> cases;
  bool has_backward = true;
};

// The case of a class that describes none: one input of any shape.
std::vector<Parameter> one_shape_parameters();
OperatorCase describe_one_shape(const Attributes& values, DType);

struct operators {
  static constexpr const char* kind = "operator";
  using Entry = OperatorEntry;
  template <class T>
  static Entry entry() {
    Entry entry;
    entry.make = [](const Attributes& a) -> std::unique_ptr<Operator> {
      if constexpr (std::is_constructible_v<T, const Attributes&>)
        return std::make_unique<T>(a);
      else
        return std::make_unique<T>();
    };
    if constexpr (requires { T::parameters(); })
      entry.parameters = T::parameters();
    else if constexpr (!requires { &T::describe; })
      entry.parameters = one_shape_parameters();
    if constexpr (requires { &T::describe; })
      entry.describe = [](const Attributes& v, DType d) { return T::describe(v, d); };
    else
      entry.describe = describe_one_shape;
    if constexpr (requires { T::cases(); })
      entry.cases = T::cases();
    else
      entry.cases = {{}};
    // Where no class between overrides it, the address is that of a member of Operator itself.
    if constexpr (requires { &T::backward; })
      entry.has_backward = !std::is_same_v<decltype(&T::backward), void (Operator::*)(Context&) const>;
    return entry;
  }
};

// The case that these values describe, with every default filled in and unknown names refused.
Attributes complete_values(std::string_view op, const OperatorEntry&, const Attributes& values);
// The same for whatever else has such parameters: a network.
Attributes complete_values(std::string_view of, std::span<const Parameter>, const Attributes& values);

// "3x3" or "3" (repeated `count` times) as integers; UsageError names the parameter.
std::vector<int64_t> sizes(const Attributes& values, const std::string& name, size_t count);

}  // namespace d5
