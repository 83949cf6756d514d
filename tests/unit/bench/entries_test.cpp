// SPDX-License-Identifier: Apache-2.0
// Large cases with independent samples are checked on a few of them: that is the whole result at those places, and it
// has power.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "d5/bench/problem.hpp"
#include "d5/core/convert.hpp"

namespace d5 {
namespace {

struct Named {
  std::string op;
  Attributes values;
};

OperatorCase described(const Named& n, DType type = DType::f32) {
  const OperatorEntry& entry = registered<operators>(n.op);
  return entry.describe(complete_values(n.op, entry, n.values), type);
}

std::vector<Named> cases() {
  const Attributes small{{"hidden", 5}, {"batch", 5}, {"timesteps", 4}, {"input", 3}, {"initial_state", true}};
  Attributes both = small;
  both.set("direction", "bidirectional");
  both.set("lengths", true);
  Attributes first = both;
  first.set("batch_first", true);
  return {{"RNN", small},
          {"LSTM", both},
          {"LSTM", first},
          {"GRU", both},
          {"Attention", {{"batch", 4}, {"heads", 2}, {"queries", 5}, {"size", 3}, {"past", 2}, {"mask", "float"}}},
          {"Attention", {{"batch", 4}, {"heads", 2}, {"queries", 5}, {"size", 3}, {"packed", true}, {"padded", true}}},
          {"LayerNormalization", {{"shape", "6x3x7"}, {"statistics", true}}},
          {"GroupNormalization", {{"shape", "6x4x7"}, {"groups", 2}}},
          {"InstanceNormalization", {{"shape", "6x4x7"}}}};
}

// Every result of the operator's own loops for the inputs and output gradients of this problem.
std::vector<Tensor> whole_results(const std::string& op, const OperatorCase& one, const Problem& problem) {
  const auto made = registered<operators>(op).make(one.attributes);
  const auto specs = one.specs();
  Context c;
  const auto find = [](const auto& list, const std::string& name) {
    for (const auto& [value, tensor] : list)
      if (value == name) return tensor.cast(compute_dtype(tensor.dtype()));
    return Tensor();
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    c.inputs.push_back(find(problem.inputs, "x" + std::to_string(i)));
    const bool wanted = one.inputs[i].differentiable && specs[i].present;
    c.input_gradients.push_back(wanted ? Tensor(DType::f64, specs[i].shape) : Tensor());
  }
  auto out = made->infer(specs);
  out.resize(one.outputs);
  for (size_t i = 0; i < out.size(); ++i) {
    c.outputs.emplace_back(compute_dtype(out[i].dtype), out[i].shape);
    c.output_gradients.push_back(find(problem.output_gradients, "y" + std::to_string(i)));
  }
  made->forward(c);
  if (problem.pass == Pass::forward) return c.outputs;
  made->backward(c);
  return c.input_gradients;
}

TEST(Entries, AreTheWholeResultAtThosePlaces) {
  for (const Named& named : cases())
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      SCOPED_TRACE(named.op + (pass == Pass::forward ? " forward" : " backward"));
      const OperatorCase one = described(named);
      ProblemOptions options{.pass = pass};
      const Problem all = make_problem(named.op, one, options);
      options.full_flops = 0;
      const Problem few = make_problem(named.op, one, options);
      ASSERT_EQ(few.expected.size(), all.expected.size());
      const std::vector<Tensor> results = whole_results(named.op, one, few);
      for (size_t r = 0; r < few.expected.size(); ++r) {
        const Expected& e = few.expected[r];
        SCOPED_TRACE(e.value);
        EXPECT_EQ(e.elements, all.expected[r].elements);
        const auto whole = results[std::stoul(e.value.substr(1))].values<double>();
        ASSERT_EQ(e.values.size(), e.at.empty() ? whole.size() : e.at.size());
        EXPECT_TRUE(pass == Pass::backward || (!e.at.empty() && e.at.size() < whole.size()));
        for (size_t i = 0; i < e.values.size(); ++i) {
          const size_t at = e.at.empty() ? i : static_cast<size_t>(e.at[i]);
          ASSERT_NEAR(e.values[i], whole[at], 1e-12) << at;
          if (pass == Pass::forward) {
            ASSERT_NEAR(e.tolerance[i], all.expected[r].tolerance[at], 1e-9 * e.tolerance[i] + 1e-20) << at;
          }
        }
      }
    }
}

TEST(Entries, OnlyTheirOutputGradientsAreNotZero) {
  const OperatorCase one = described(cases()[1]);
  ProblemOptions options{.pass = Pass::backward};
  options.full_flops = 0;
  const Problem problem = make_problem("LSTM", one, options);
  const Tensor dy = problem.output_gradients.at(0).second.cast(DType::f64);  // steps x 2 x 5 samples x 5 units
  std::set<Index> samples;
  for (Index i = 0; i < dy.elements(); ++i)
    if (dy.values<double>()[i] != 0) samples.insert(i / 5 % 5);
  EXPECT_EQ(samples.size(), 2u);
  EXPECT_TRUE(samples.contains(4));
}

TEST(Entries, OneWrongElementOfASampleIsCaught) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const OperatorCase one = described(cases()[3], type);
      ProblemOptions options{.pass = pass};
      options.full_flops = 0;
      const Problem problem = make_problem("GRU", one, options);
      CompileOptions compile;
      compile.mode = pass == Pass::backward ? Mode::training : Mode::inference;
      compile.input_gradients = pass == Pass::backward;
      ParameterSet parameters;
      const auto executable = open_backend("reference")->compile(single_node_graph("GRU", one), parameters, compile);
      write_inputs(problem, *executable);
      executable->forward({});
      if (pass == Pass::backward) executable->backward({});
      const CheckResult right = check_results(problem, *executable);
      EXPECT_TRUE(right.passed) << right.reason;
      for (const Expected& e : problem.expected) {
        const Tensor kept = executable->read(e.role, e.value).clone(), wrong = kept.clone();
        // Half of the range of the values: a gate forgotten, a step too many.
        const Index at = e.at.empty() ? e.elements / 2 : e.at[e.at.size() / 2];
        double largest = 0;
        for (const double value : e.values) largest = std::max(largest, std::abs(value));
        store_from_double(type, wrong.data(), at, load_as_double(type, kept.data(), at) + largest / 2);
        executable->write(e.role, e.value, wrong);
        EXPECT_FALSE(check_results(problem, *executable).passed) << e.value;
        executable->write(e.role, e.value, kept);
      }
    }
}

}  // namespace
}  // namespace d5
