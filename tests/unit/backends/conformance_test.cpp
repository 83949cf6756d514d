// SPDX-License-Identifier: Apache-2.0
// Every backend on every case of every operator, against the operator's own loops: forward and backward, in the
// layouts and element types that the backend says it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "d5/backends/backend.hpp"
#include "d5/bench/problem.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

struct Setting {
  std::string backend;
  std::string op;
  friend void PrintTo(const Setting& s, std::ostream* out) { *out << s.backend << " " << s.op; }
};

bool is_on(const std::string& backend) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == backend) return status.available;
  return false;
}

// Integers and bool alone (BitwiseAnd, Not) are a matter for tests/conformance, which has every element type; strings
// for the suites of ONNX.
bool takes_floats(const std::string& op) {
  const OperatorEntry& entry = registered<operators>(op);
  const OperatorCase one = entry.describe(complete_values(op, entry, entry.cases.front()), DType::f32);
  const auto is_string = [](const TensorSpec& spec) { return spec.present && spec.dtype == DType::string; };
  try {
    return std::ranges::none_of(one.specs(), is_string) &&
           std::ranges::none_of(entry.make(one.attributes)->infer(one.specs()), is_string);
  } catch (const Error&) {
    return false;
  }
}

bool has_gradient(const OperatorCase& one) {
  return std::ranges::any_of(one.inputs, [](const OperatorInput& input) {
    return input.spec.present && input.differentiable && is_float(input.spec.dtype);
  });
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const std::string backend : {"reference", "onednn"})
    if (is_on(backend))
      for (const std::string& op : registry_names(operators::kind))
        if (takes_floats(op)) all.push_back({backend, op});
  return all;
}

std::string describe(const Attributes& values) {
  std::string text;
  for (const auto& [name, value] : values.values()) text += fmt::format(" {}={}", name, to_string(value));
  return text;
}

class Conformance : public testing::TestWithParam<Setting> {
 protected:
  // Runs every case; returns the reasons of those that the backend cannot run.
  std::set<std::string> run(DType dtype, Pass pass, LayoutChoice layout, bool time_reorders, InputValues inputs) {
    const auto& [backend_name, op] = GetParam();
    const auto backend = open_backend(backend_name);
    const OperatorEntry& entry = registered<operators>(op);
    std::set<std::string> reasons;
    for (const Attributes& values : entry.cases) {
      SCOPED_TRACE(fmt::format("{} {} {}{}{}{}:{}", backend_name, op, name(dtype),
                               pass == Pass::forward ? " forward" : " backward",
                               layout == LayoutChoice::plain ? " plain" : " fast",
                               time_reorders ? " reorders timed" : "", describe(values)));
      const OperatorCase one = entry.describe(complete_values(op, entry, values), dtype);
      if (pass == Pass::backward && !has_gradient(one)) continue;
      if (inputs == InputValues::integers && !exact_on_integers(op, one, pass)) continue;
      const Graph graph = [&, &op = op] {
        try {
          return single_node_graph(op, one);
        } catch (const Error&) {
          return Graph{};  // not defined for this element type
        }
      }();
      if (graph.nodes.empty()) continue;
      CompileOptions options;
      options.mode = pass == Pass::backward ? Mode::training : Mode::inference;
      options.input_gradients = pass == Pass::backward;
      options.layout = layout;
      options.time_reorders = time_reorders;
      if (const auto reason = backend->why_not(graph, options)) {
        reasons.insert(*reason);
        continue;
      }
      // A set in bf16 would round the gradient of an f32 scale to bf16, too: that is the set's rule, not the kernel's.
      const bool mixed = std::ranges::any_of(one.inputs, [&](const auto& input) { return input.spec.dtype != dtype; });
      ParameterSet parameters(dtype == DType::bf16 && !mixed ? dtype : DType::f32);
      const auto executable = backend->compile(graph, parameters, options);
      const Problem problem = make_problem(op, one,
                                           {.pass = pass,
                                            .inputs = inputs,
                                            .narrow = !executable->narrow_arithmetic(pass).empty(),
                                            .full_flops = 3e6,
                                            .sample = 200});
      write_inputs(problem, *executable);
      poison_results(problem, *executable);
      executable->forward({});
      if (pass == Pass::backward) executable->backward({});
      const CheckResult check = check_results(problem, *executable);
      EXPECT_TRUE(check.passed) << check.reason << "\n" << executable->kernels()[0].second;
      ++ran_;
    }
    return reasons;
  }

  static std::string joined(const std::set<std::string>& reasons) {
    std::string text;
    for (const std::string& reason : reasons) text += "\n" + reason;
    return text;
  }

  int ran_ = 0;
};

// Every layout, element type and the exact pass are a matter of tests/conformance; here reorders are part of the step,
// and everything runs under the sanitizers.
TEST_P(Conformance, FastLayoutsReorderedInsideTheStep) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const auto reasons = run(DType::f32, pass, LayoutChoice::fast, true, InputValues::uniform);
    // What networks are made of has no holes.
    static const std::set<std::string> whole{"Add", "BatchNormalization", "Conv", "Gemm", "MatMul", "Relu", "Softmax"};
    if (GetParam().backend == "reference" || whole.contains(GetParam().op)) {
      EXPECT_TRUE(reasons.empty()) << joined(reasons);
    }
    run(DType::bf16, pass, LayoutChoice::fast, true, InputValues::uniform);
  }
  if (ran_ == 0 && GetParam().backend != "reference") GTEST_SKIP() << "no case of it is supported";
  EXPECT_GT(ran_, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(settings()), [](const auto& info) {
  std::string name = info.param.backend + "_" + info.param.op;
  for (char& c : name)  // "ai.onnx.ml:Scaler"
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace d5
