// SPDX-License-Identifier: Apache-2.0
// What must come out of a network, and how far rounding may move it (net_problem.hpp).
#include <algorithm>
#include <cmath>
#include <map>

#include "d5/bench/net_oracle_cache.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/oracle.hpp"
#include "d5/core/rng.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/transforms/precision.hpp"
#include "d5/measure/error_norms.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;
using Results = std::vector<Tensor>;  // floats in double, integers in their own type; absent: nothing to compare

// What makes the arithmetic of kernels coarser than its types say.
struct KernelMath {
  double enlarges = 1;     // Winograd's transforms enlarge rounding (bench/oracle.cpp)
  double of_products = 0;  // coarser arithmetic rounds the factors of products
};

KernelMath kernel_math(Math math) {
  return {.enlarges = math == Math::winograd ? 81.0 : 1.0,
          .of_products = math == Math::tf32   ? 0x1p-11
                         : math == Math::bf16 ? round_off(DType::bf16)
                                              : 0};
}

// One run that is moved: by which random numbers, and factors of products by up to how much of themselves.
struct Draw {
  uint64_t seed = 0;
  double of_products = 0;
};

// What rounding does at a node: in its sums, and where a result is stored in a coarser type than any that was read.
struct NodeRounding {
  double unit = 0;
  std::vector<double> stored;  // by result
};

// 0 for types that the oracle leaves as they are, too.
double rounding_of(const Specs& specs, const std::string& name) {
  const auto found = specs.find(name);
  return found != specs.end() && is_network_float(found->second.dtype) ? round_off(found->second.dtype) : 0;
}

NodeRounding rounding_at(const Node& node, Pass pass, const Specs& specs, const KernelMath& math) {
  NodeRounding rounding;
  double read = 0;
  for (const std::string& name : node.inputs) read = std::max(read, rounding_of(specs, name));
  rounding.unit = read;
  for (const std::string& name : node.outputs) {
    const double made = rounding_of(specs, name);
    rounding.unit = std::max(rounding.unit, made);
    if (pass == Pass::forward) rounding.stored.push_back(read > 0 && made > read ? made : 0);
  }
  rounding.unit = rounding.unit * math.enlarges + math.of_products;
  return rounding;
}

// By result: the bound of operators/operator.hpp; absent where there is nothing to move.
std::vector<Tensor> errors_of(Oracle& o, const NodeRounding& rounding) {
  std::vector<Tensor> errors(o.results());
  std::vector<double> relative(o.results());
  for (size_t i = 0; i < o.results(); ++i) {
    if (!o.result(i).present || !is_network_float(o.result(i).dtype) || !o.is_wanted(i)) continue;
    const Rounding grows = o.op.rounding(o.in, o.options.pass, i);
    relative[i] = (std::min(grows.terms, 6 * std::sqrt(grows.terms)) + grows.units) * rounding.unit;
    if (i < rounding.stored.size()) relative[i] += rounding.stored[i];
  }
  if (std::ranges::all_of(relative, [](double by) { return by == 0; })) return errors;
  run_loops(o, o.context);
  std::optional<Context> of_absolutes;
  for (size_t i = 0; i < o.results(); ++i) {
    if (relative[i] == 0) continue;
    errors[i] = error_scale(o, i, of_absolutes).clone();
    for (double& scale : errors[i].values<double>()) scale = relative[i] * std::abs(scale);
  }
  return errors;
}

// What is infinite stays so: the score of what a mask hides.
template <class T>
void move(std::span<T> values, std::span<const double> most, const Rng& rng) {
  for (size_t k = 0; k < values.size(); ++k)
    if (std::isfinite(values[k])) values[k] = static_cast<T>(values[k] + most[k] * (2 * rng.uniform(k) - 1));
}

// Some results are f32 in the oracle, too, because ONNX knows them in no other type.
void move(const Tensor& tensor, const Tensor& error, const Rng& rng) {
  if (tensor.dtype() == DType::f32)
    move<float>(tensor.values<float>(), error.values<double>(), rng);
  else
    move<double>(tensor.values<double>(), error.values<double>(), rng);
}

// Moves what each node has computed, up to the error that its kernel may make.
class Shaker final : public Observer {
 public:
  Shaker(const Graph& graph, const Graph& wide, Executable& executable, const KernelMath& math)
      : math_(math), narrow_(infer_specs(graph)), specs_(infer_specs(wide)) {
    narrow_.insert(specs_.begin(), specs_.end());  // what the oracle alone has
    for (const auto& [name, spec] : specs_)
      for (const Role role : {Role::value, Role::gradient}) try {
          if (role == Role::value || is_float(spec.dtype)) views_[{role, name}] = executable.view(role, name);
        } catch (const Error&) {  // nobody asked for its gradient
        }
  }

  void draw(uint64_t seed) { seed_ = seed; }

  void node_end(const Node& node, Pass pass) override {
    const bool forward = pass == Pass::forward;
    const auto& names = forward ? node.outputs : node.inputs;
    const std::vector<Tensor>& errors = errors_at(node, pass);
    for (size_t i = 0; i < names.size(); ++i)
      if (errors[i].present())
        move(view(forward ? Role::value : Role::gradient, names[i]), errors[i],
             Rng(seed_, stream_of(fmt::format("{} {} {}", node.name, forward, i))));
  }

 private:
  Tensor view(Role role, const std::string& name) const {
    const auto found = views_.find({role, name});
    return found == views_.end() ? Tensor() : found->second;
  }

  const std::vector<Tensor>& errors_at(const Node& node, Pass pass) {
    const auto [entry, is_new] = errors_.try_emplace({&node, pass});
    if (!is_new) return entry->second;
    const auto op = make_operator(node);
    const ProblemOptions options{.pass = pass};
    Oracle o{node.op, *op, options, specs_of(specs_, node.inputs), specs_of(specs_, node.outputs), {}, {}};
    for (const std::string& name : node.inputs) {
      o.context.inputs.push_back(view(Role::value, name));
      o.wanted.push_back(pass == Pass::backward && view(Role::gradient, name).present());
    }
    for (const std::string& name : node.outputs) o.context.output_gradients.push_back(view(Role::gradient, name));
    entry->second = errors_of(o, rounding_at(node, pass, narrow_, math_));
    return entry->second;
  }

  KernelMath math_;
  uint64_t seed_ = 0;
  Specs narrow_, specs_;  // in the types of the graph, and of the oracle
  std::map<std::pair<Role, std::string>, Tensor> views_;
  std::map<std::pair<const Node*, Pass>, std::vector<Tensor>> errors_;
};

class NetOracle {
 public:
  NetOracle() = default;
  NetOracle(const NetOracle&) = delete;
  virtual ~NetOracle() = default;
  // One for each of problem.expected; `draw` is null where nothing is moved.
  virtual Results run(const NetProblem& problem, const Draw* draw) = 0;

 protected:
  static Tensor input(const std::string& name, const Tensor& value, const Draw* draw) {
    if (!is_network_float(value.dtype())) return value;
    const Tensor wide = value.cast(DType::f64);
    if (draw && draw->of_products > 0) {
      const Rng rng(draw->seed, stream_of(name));
      const auto values = wide.values<double>();
      for (size_t i = 0; i < values.size(); ++i) values[i] *= 1 + draw->of_products * (2 * rng.uniform(i) - 1);
    }
    return wide;
  }
  static Tensor result(const Tensor& value) { return is_float(value.dtype()) ? value.cast(DType::f64) : value; }
};

// Where all shapes are known before the run: the reference backend, with gradients.
class PlannedOracle final : public NetOracle {
 public:
  PlannedOracle(const Graph& graph, Mode mode, const KernelMath& math)
      : graph_(with_float_type(graph, DType::f64)), mode_(mode) {
    CompileOptions options;
    options.mode = mode;
    options.keep_all = true;
    backend_ = open_backend("reference");
    executable_ = backend_->compile(graph_, parameters_, options);
    shaker_ = std::make_unique<Shaker>(graph, graph_, *executable_, math);
  }

  Results run(const NetProblem& problem, const Draw* draw) override {
    Shaker* shaker = draw ? shaker_.get() : nullptr;
    if (shaker) shaker->draw(draw->seed);
    for (const auto* values : {&problem.parameters, &problem.inputs})
      for (const auto& [name, value] : *values) executable_->write(Role::value, name, input(name, value, draw));
    for (const auto& [name, value] : problem.output_gradients)
      executable_->write(Role::gradient, name, input(name, value, draw));
    executable_->forward({.observer = shaker});
    if (mode_ == Mode::training) executable_->backward({.observer = shaker});
    Results results;
    for (const NetExpected& e : problem.expected) results.push_back(result(executable_->read(e.role, e.value)));
    return results;
  }

 private:
  Graph graph_;
  Mode mode_;
  ParameterSet parameters_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<Shaker> shaker_;
};

// Where they are not: node by node, shaken as it goes. What is expected are the outputs, in their order.
class EvaluatedOracle final : public NetOracle {
 public:
  EvaluatedOracle(const Graph& graph, const KernelMath& math)
      : graph_(with_float_type(graph, DType::f64)), evaluator_(graph_) {
    double unit = round_off(DType::f32);
    for (const auto& [name, spec] : infer_some_specs(graph).specs)
      if (is_network_float(spec.dtype)) unit = std::max(unit, round_off(spec.dtype));
    rounding_.unit = unit * math.enlarges + math.of_products;
  }

  Results run(const NetProblem& problem, const Draw* draw) override {
    std::map<std::string, GraphValue> inputs;
    for (const auto& [name, value] : problem.inputs) inputs[name] = input(name, value, draw);
    uint64_t calls = 0;
    evaluator_.options().made = {};
    if (draw)
      evaluator_.options().made = [&](const Node& node, const Operator& op, const std::vector<Tensor>& read,
                                      const std::vector<Tensor>& made) {
        shake(node, op, read, made, Rng(draw->seed, calls++));
      };
    Results results;
    for (const GraphValue& value : evaluator_.run(inputs)) {
      const bool compared = value.kind == ValueKind::tensor && value.tensor.dtype() != DType::string;
      results.push_back(compared ? result(value.tensor) : Tensor());
    }
    return results;
  }

 private:
  void shake(const Node& node, const Operator& op, const std::vector<Tensor>& read, const std::vector<Tensor>& made,
             const Rng& rng) const {
    const ProblemOptions options;
    Oracle o{node.op, op, options, known_specs(read), known_specs(made), {}, {}};
    for (const Tensor& tensor : read) {
      o.context.inputs.push_back(tensor.present() ? tensor.cast(compute_dtype(tensor.dtype())) : tensor);
      o.context.input_types.push_back(tensor.dtype());
    }
    const std::vector<Tensor> errors = errors_of(o, rounding_);
    for (size_t i = 0; i < made.size(); ++i)
      if (errors[i].present()) move(made[i], errors[i], Rng(rng.bits(i)));
  }

  Graph graph_;
  Evaluator evaluator_;
  NodeRounding rounding_;
};

// Floats: the Euclidean norm of the difference. Integers: how many differ. Infinite where another shape came out.
double distance(const Tensor& a, const Tensor& b) {
  if (!a.present()) return 0;
  if (!b.present() || !(a.shape() == b.shape()) || a.dtype() != b.dtype()) return INFINITY;
  return is_float(a.dtype()) ? error_norms(a.values<double>(), b.values<double>()).l2
                             : static_cast<double>(differing(a, b));
}

// What rounding may do to each result. The bound of a node is six standard deviations of its error, and what is drawn
// from all of it has a deviation of 6 / sqrt(3) = 3.5 of those. So the mean square of four draws, which for a scalar is
// within a factor of two of the true one 19 times in 20, leaves seven deviations of a kernel's error, in such a case
// still 3.5.
std::vector<double> moved_by_rounding(NetOracle& oracle, const NetProblem& problem, const Results& exact,
                                      double of_products, uint64_t seed) {
  constexpr int draws = 4;
  constexpr double safety = 2;
  std::vector<double> squares(exact.size());
  for (uint64_t number = 1; number <= draws; ++number) {
    const Draw draw{seed + number, of_products};
    Results shaken;
    try {
      shaken = oracle.run(problem, &draw);
    } catch (const Error&) {  // a shape that rounding decides
      shaken.resize(exact.size());
    }
    for (size_t i = 0; i < exact.size(); ++i) squares[i] += std::pow(distance(exact[i], shaken[i]), 2) / draws;
  }
  for (double& square : squares) square = safety * std::sqrt(square);
  return squares;
}

std::vector<NetExpected> results_of(const Graph& graph, Mode mode, const Specs& specs) {
  std::vector<NetExpected> expected;
  for (const std::string& name : graph.outputs)
    if (const auto found = specs.find(name); found == specs.end() || found->second.dtype != DType::string)
      expected.push_back({name, Role::value, {}, 0});
  if (mode == Mode::training)
    for (const GraphInput& input : graph.inputs)
      if (input.parameter && input.differentiable && is_float(input.spec.dtype))
        expected.push_back({input.name, Role::gradient, {}, 0});
  return expected;
}

}  // namespace

void add_expected(const Graph& graph, Mode mode, Math math, uint64_t seed, NetProblem& problem) {
  const bool evaluated = why_evaluated(graph).has_value();
  const Specs specs = infer_some_specs(graph).specs;
  problem.expected = results_of(graph, mode, evaluated ? Specs() : specs);
  const KernelMath coarser = kernel_math(math);
  const std::string key =
      oracle_key(graph, fmt::format("{} math {} {} seed {}", mode == Mode::training ? "training" : "inference",
                                    coarser.enlarges, coarser.of_products, seed));
  if (load_expected(key, problem)) return;
  std::unique_ptr<NetOracle> oracle;
  if (evaluated)
    oracle = std::make_unique<EvaluatedOracle>(graph, coarser);
  else
    oracle = std::make_unique<PlannedOracle>(graph, mode, coarser);
  const Results exact = oracle->run(problem, nullptr);
  const std::vector<double> moved = moved_by_rounding(*oracle, problem, exact, coarser.of_products, seed);
  for (size_t i = 0; i < exact.size(); ++i) {
    NetExpected& e = problem.expected[i];
    e.values = exact[i];
    e.tolerance = moved[i];
    if (e.values.present() && is_float(e.values.dtype()))
      e.tolerance +=
          2 * std::max(rounding_of(specs, e.value), evaluated ? round_off(DType::f32) : 0) * finite_norm(e.values);
    else
      e.tolerance = std::ceil(e.tolerance);
  }
  std::erase_if(problem.expected, [](const NetExpected& e) { return !e.values.present(); });
  save_expected(key, problem);
}

}  // namespace d5
