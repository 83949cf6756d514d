// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/onnx_tests.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "d5/backends/backend.hpp"
#include "d5/bench/compare_values.hpp"
#include "d5/bench/fields.hpp"
#include "d5/bench/rounding_flips.hpp"
#include "d5/bench/session.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/edit.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/fold.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/declared.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/values.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

bool is_data_set(const fs::path& path) {
  return path.filename().string().starts_with("test_data_set_") && fs::is_directory(path);
}

// test_data_set_0, ... decide. Sets with another name beside them (test_data_set_upstream) are run, too, but may be of
// another arithmetic: where they differ the record says so.
bool is_numbered(const fs::path& path) {
  constexpr size_t prefix = std::string_view("test_data_set_").size();
  const std::string name = path.filename().string();
  return is_data_set(path) && name.size() > prefix &&
         std::ranges::all_of(name.substr(prefix), [](char c) { return c >= '0' && c <= '9'; });
}

// The one .onnx file of a case; empty: the folder is none.
fs::path network_of(const fs::path& folder) {
  fs::path network;
  bool has_data = false;
  for (const fs::path& path : entries(folder)) {
    if (path.extension() == ".onnx") {
      if (!network.empty()) return {};
      network = path;
    }
    has_data = has_data || is_data_set(path);
  }
  return has_data ? network : fs::path();
}

// One set of stored inputs and outputs.
struct DataSet {
  std::string name;
  std::map<std::string, GraphValue> inputs;
  std::vector<GraphValue> outputs;
};

// Suites up to ONNX 1.12 store bf16 as u16, whose bits they are.
bool is_old_bf16(const GraphValue& value, DType declared) {
  return value.kind == ValueKind::tensor && declared == DType::bf16 && value.tensor.dtype() == DType::u16;
}
GraphValue as_bf16(const GraphValue& bits) {
  Tensor tensor(DType::bf16, bits.tensor.shape());
  std::memcpy(tensor.data(), bits.tensor.data(), tensor.bytes());
  return tensor;
}

DataSet read_data_set(const fs::path& folder, const Graph& graph) {
  const auto file = [&](const char* what, size_t i) { return folder / fmt::format("{}_{}.pb", what, i); };
  DataSet set{.name = folder.filename().string()};
  size_t given = 0;
  while (fs::exists(file("input", given))) ++given;
  // As IR version 3 has it, an initialiser may be an input, too; then it may be given or not.
  const auto all = declared_inputs(graph);
  for (size_t i = 0; i < given; ++i) {
    const bool free_only = given <= graph.inputs.size();
    if (!free_only && i >= all.size())
      throw Error("[onnx] {}: {} inputs are stored, the network has {}", folder.string(), given, all.size());
    const std::string& name = free_only ? graph.inputs[i].name : all[i];
    GraphInput declared{.name = name};
    for (const GraphInput& input : graph.inputs)
      if (input.name == name) declared = input;
    const GraphValue value = read_onnx_value(file("input", i), declared.kind);
    set.inputs[name] = is_old_bf16(value, declared.spec.dtype) ? as_bf16(value) : value;
  }
  for (size_t i = 0; fs::exists(file("output", i)); ++i) {
    const ValueKind kind = declared_kind(graph, i);
    const GraphValue value = read_onnx_value(file("output", i), kind == ValueKind::other ? ValueKind::tensor : kind);
    const bool old = kind == ValueKind::tensor && is_old_bf16(value, declared_output(graph, i).dtype);
    set.outputs.push_back(old ? as_bf16(value) : value);
  }
  if (set.outputs.empty() || set.outputs.size() != graph.outputs.size())
    throw Error("[onnx] {}: {} outputs are stored, the network has {}", folder.string(), set.outputs.size(),
                graph.outputs.size());
  for (const GraphInput& input : graph.inputs)
    if (!set.inputs.contains(input.name) && !graph.initial.contains(input.name))
      throw Error("[onnx] {}: input '{}' is not stored", folder.string(), input.name);
  return set;
}

double largest_stored(const DataSet& set) {
  double largest = 0;
  for (const GraphValue& value : set.outputs) {
    if (value.kind != ValueKind::tensor || !is_float(value.tensor.dtype())) continue;
    for (Index i = 0; i < value.tensor.elements(); ++i)
      if (const double a = std::abs(load_as_double(value.tensor.dtype(), value.tensor.data(), i)); std::isfinite(a))
        largest = std::max(largest, a);
  }
  return largest;
}

// In a network and in a Fourier transform, unlike in the test of another operator, a small element comes from terms of
// the size of the large ones, whose roundings it keeps.
bool keeps_roundings(const Graph& graph) {
  constexpr size_t network_nodes = 16;
  return graph.nodes.size() > network_nodes || !find_nodes(graph, "DFT").empty() || !find_nodes(graph, "STFT").empty();
}

// Of the narrowest floats that it is given to compute with; those of 8 bits are for storing.
double coarsest_round_off(const Graph& graph) {
  double coarsest = round_off(DType::f32);
  const auto meet = [&](DType type) {
    if (is_float(type) && bits(type) == 16) coarsest = std::max(coarsest, round_off(type));
  };
  for (const GraphInput& input : graph.inputs) meet(input.spec.dtype);
  for (const auto* tensors : {&graph.initial, &graph.constants})
    for (const auto& [name, tensor] : *tensors) meet(tensor.dtype());
  return coarsest;
}

ValueTolerance tolerance_of(const fs::path& folder, const Graph& graph, const DataSet& set) {
  ValueTolerance tolerance;
  if (keeps_roundings(graph)) tolerance.absolute += 16 * coarsest_round_off(graph) * largest_stored(set);
  std::ifstream file(folder / "data.json");
  if (!file) return tolerance;
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) throw Error("[onnx] {}: data.json is no object of JSON", folder.string());
  for (const auto& [key, value] : {std::pair{"rtol", &tolerance.relative}, {"atol", &tolerance.absolute}}) {
    if (!json.contains(key)) continue;
    if (!json[key].is_number() || json[key].get<double>() < 0)
      throw Error("[onnx] {}: data.json has the {} {}; a number from 0 is wanted", folder.string(), key,
                  json[key].dump());
    *value = json[key].get<double>();
  }
  return tolerance;
}

// Besides what holds for all: two units in the last place of bf16, as ONNX's own runner has it (some stored values were
// cut off, not rounded), and of f16 likewise.
double narrow_tolerance(const GraphValue& stored) {
  if (stored.kind != ValueKind::tensor) return 0;
  const DType type = stored.tensor.dtype();
  return type == DType::bf16 || type == DType::f16 ? 4 * round_off(type) : 0;
}

bool agree_as_norm(const GraphValue& stored, const GraphValue& made, double most) {
  return stored.kind == ValueKind::tensor && made.kind == ValueKind::tensor &&
         stored.tensor.dtype() == made.tensor.dtype() && stored.tensor.shape() == made.tensor.shape() &&
         is_float(stored.tensor.dtype()) && distance_of(stored.tensor, made.tensor) <= most;
}

// The operator whose results are random, so that stored ones tell nothing; empty: none.
std::string random_operator(const Graph& graph, const DataSet& set) {
  static const std::set<std::string> random{"Bernoulli",        "Multinomial",   "RandomNormal",
                                            "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  const Specs specs = infer_some_specs(graph).specs;  // ratio and training_mode may be nodes, too (Constant)
  const auto number = [&](const Node& node, size_t i, double otherwise) {
    if (i >= node.inputs.size() || node.inputs[i].empty()) return otherwise;
    const auto given = set.inputs.find(node.inputs[i]);
    const auto spec = specs.find(node.inputs[i]);
    const Tensor* tensor = given != set.inputs.end() ? &given->second.as_tensor()
                           : spec != specs.end()     ? spec->second.known.get()
                                                     : nullptr;
    return tensor && tensor->elements() == 1 ? tensor->cast(DType::f64).values<double>()[0] : otherwise;
  };
  for (const Node& node : graph.nodes) {
    if (node.op == "Dropout" && (number(node, 2, 0) == 0 || number(node, 1, 0.5) == 0)) continue;
    if (is_random(node.op)) return node.op;
  }
  return "";
}

// Why the stored outputs of a test of ONNX's own suites do not belong to its file; empty: they do.
std::string fault_of_test(const fs::path& folder, const Graph& graph) {
  const bool lacks_epsilon = graph.nodes.size() == 1 && !graph.nodes[0].attributes.has("epsilon");
  if (folder.filename() == "test_adam_multiple" && lacks_epsilon)
    return "the stored outputs were made with an epsilon of 0.01, which this file leaves out (later suites have it)";
  return "";
}

// All inputs of the graph that a node depends on.
std::set<std::string> inputs_behind(const Graph& graph, size_t node) {
  std::set<std::string> wanted;
  for (std::string& value : values_read(graph.nodes[node])) wanted.insert(std::move(value));
  for (size_t n = node; n-- > 0;)
    if (std::ranges::any_of(graph.nodes[n].outputs, [&](const std::string& o) { return wanted.contains(o); }))
      for (std::string& value : values_read(graph.nodes[n])) wanted.insert(std::move(value));
  std::set<std::string> inputs;
  for (const GraphInput& input : graph.inputs)
    if (wanted.contains(input.name)) inputs.insert(input.name);
  return inputs;
}

// Most backends want to know all shapes before the run. Inputs that decide them (the shape of Reshape, the condition of
// an If) become constants with the stored values; first integers, then whatever else such a node reads.
void bind_deciding_inputs(Graph& graph, const DataSet& set) {
  const auto bind = [&](size_t node, bool integers_only) {
    bool any = false;
    for (const std::string& name : inputs_behind(graph, node)) {
      const auto given = set.inputs.find(name);
      if (given == set.inputs.end() || given->second.kind != ValueKind::tensor) continue;
      if (integers_only && is_float(given->second.tensor.dtype())) continue;
      bind_value(graph, name, given->second.tensor);
      any = true;
    }
    return any;
  };
  for (const size_t node : find_nodes(graph, "If")) bind(node, true);
  if (!find_nodes(graph, "If").empty()) fold_constants(graph);
  while (!graph.inputs.empty()) {
    const PartialSpecs some = infer_some_specs(graph);
    if (!some.lacks_value || (!bind(*some.failed, true) && !bind(*some.failed, false))) return;
  }
}

// Backends also want to know what decides how a node computes (the axis of CumSum, the ratio of Dropout): lists and
// scalars of integers, and scalars. False: there are none.
bool bind_small_inputs(Graph& graph, const DataSet& set) {
  bool any = false;
  std::set<std::string> free;
  for (const GraphInput& input : graph.inputs) free.insert(input.name);
  for (const auto& [name, value] : set.inputs) {
    if (!free.contains(name) || value.kind != ValueKind::tensor) continue;
    const Tensor& tensor = value.tensor;
    if (tensor.shape().rank() > 1 || (is_float(tensor.dtype()) && tensor.shape().rank() > 0)) continue;
    bind_value(graph, name, tensor);
    any = true;
  }
  return any;
}

// The shapes of the stored inputs count: what a file declares is only a hint, and some suites declare others.
void take_shape(Graph& graph, const std::string& name, const GraphValue& value) {
  for (GraphInput& input : graph.inputs) {
    if (input.name != name || input.kind != ValueKind::tensor || value.kind != ValueKind::tensor) continue;
    if (input.spec.dtype != value.tensor.dtype())
      throw Error("[onnx-test] input '{}' is {}; {} is stored", name, to_string(input.spec), to_string(value));
    input.spec.shape = value.tensor.shape();
    input.symbols.clear();
  }
}

std::optional<std::string> refused(const Backend& backend, const Graph& graph, const CompileOptions& options) {
  try {
    return backend.why_not(graph, options);
  } catch (const UsageError& error) {  // a value of an attribute that an operator does not have
    return error.what();
  }
}

class OnnxTestSession final : public Session {
 public:
  explicit OnnxTestSession(Json fields) : fields_(std::move(fields)) {}

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    try {
      return run_test(depth);
    } catch (const CannotRun& error) {
      return {.status = "unsupported", .reason = error.what()};
    }
  }
  SliceResult run(const Slice&) override { throw Error("[onnx-test] a test has no speed"); }
  Outcome finish() override { return {}; }

 private:
  Outcome run_test(Depth depth) {
    const fs::path folder = fields_.at("folder").get<std::string>();
    set_threads(fields_.value("threads", threads()));
    std::unique_ptr<Backend> backend;
    if (auto off = open_backend_of(fields_, backend)) return *off;
    const Graph as_read = read_onnx(network_of(folder));
    if (const auto reason = unknown_operator_as_read(as_read)) return {.status = "unsupported", .reason = *reason};
    const Graph graph = modernise(as_read);
    if (const auto reason = unknown_operator(graph)) return {.status = "unsupported", .reason = *reason};
    Outcome outcome;
    const std::vector<fs::path> all = entries(folder);
    const bool any_numbered = std::ranges::any_of(all, is_numbered);
    for (const fs::path& path : all) {
      if (!is_data_set(path)) continue;
      const DataSet set = read_data_set(path, graph);
      Outcome one = run_set(graph, set, *backend, tolerance_of(folder, graph, set), depth);
      outcome.details.update(one.details);
      if (one.status == "passed") continue;
      if (const std::string fault = fault_of_test(folder, graph); one.status == "failed" && !fault.empty())
        return {.status = "skipped", .reason = fault};
      if (one.status != "failed" || is_numbered(path) || !any_numbered) return one;
      outcome.details["beside"].push_back(one.reason);
    }
    return outcome;
  }

  Outcome run_set(Graph graph, const DataSet& set, Backend& backend, ValueTolerance tolerance, Depth depth) {
    std::set<std::string> free;
    for (const GraphInput& input : graph.inputs) free.insert(input.name);
    for (const auto& [name, value] : set.inputs) {
      if (!free.contains(name))
        graph.constants[name] = value.as_tensor();  // another value for an initialiser
      else
        take_shape(graph, name, value);
    }
    Outcome outcome;
    const std::string random = random_operator(graph, set);
    const CompileOptions options;
    std::optional<std::string> reason;
    if (fields_.at("backend") == "reference") {
      reason = refused(backend, graph, options);
    } else {
      bind_deciding_inputs(graph, set);
      reason = refused(backend, graph, options);
      if (Graph bound = graph; reason && bind_small_inputs(bound, set) && !refused(backend, bound, options)) {
        graph = std::move(bound);
        reason.reset();
      }
    }
    if (reason) return {.status = "unsupported", .reason = *reason};
    ParameterSet parameters;
    const auto executable = backend.compile(graph, parameters, options);
    if (depth == Depth::build) return outcome;
    for (const GraphInput& input : graph.inputs)
      if (const auto given = set.inputs.find(input.name); given != set.inputs.end())
        executable->write_value(input.name, given->second);
    executable->forward({});
    backend.synchronize();
    tolerance.values = random.empty();
    if (!random.empty())
      outcome.details["compared"] = fmt::format("element types and shapes alone: {} is random", random);
    std::vector<double> flips;
    for (size_t i = 0; i < set.outputs.size(); ++i) {
      ValueTolerance own = tolerance;
      own.relative = std::max(own.relative, narrow_tolerance(set.outputs[i]));
      const GraphValue made = executable->read_value(graph.outputs[i]);
      const std::string wrong = difference(set.outputs[i], made, own);
      if (!wrong.empty() && keeps_roundings(graph) && is_quantised(graph)) {
        if (flips.empty()) flips = flip_distances(graph, set.inputs);
        if (agree_as_norm(set.outputs[i], made, flips[i])) {
          outcome.details["compared"] = "as norms: numbers between two steps of QuantizeLinear fall to either side";
          continue;
        }
      }
      if (!wrong.empty())
        return {.status = "failed", .reason = fmt::format("{}: output '{}': {}", set.name, graph.outputs[i], wrong)};
    }
    if (const std::string overrun = executable->overrun(); !overrun.empty())
      return {.status = "failed", .reason = overrun};
    return outcome;
  }

  Json fields_;
};

class OnnxTestBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    for (const char* name : {"test", "folder", "backend"})
      if (!fields.contains(name)) throw FieldError(name, fmt::format("[onnx-test] {} is missing", name));
    return fields;
  }
  std::unique_ptr<Session> open(const Json& fields) const override { return std::make_unique<OnnxTestSession>(fields); }
  Record record(const CaseResult& result) const override {
    Record record{.kind = "onnx-test", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.group = result.group;
    record.warnings = result.warnings;
    record.rerun = rerun(result.fields);
    if (!result.prepared.empty()) record.details = result.prepared.front();
    if (const auto beside = record.details.find("beside"); beside != record.details.end())
      for (const Json& reason : *beside) record.warnings.push_back(reason.get<std::string>());
    record.details.erase("beside");
    return record;
  }
  std::string rerun(const Json& fields) const override {
    return fmt::format("d5 net --onnx-tests {} --backend {}", shell_word(fields.at("folder")),
                       shell_word(fields.at("backend")));
  }
  std::vector<std::string> compared_fields() const override { return {"backend"}; }
  Depth deepest() const override { return Depth::check; }
};

void add_tests(const fs::path& folder, std::vector<fs::path>& found, int depth) {
  constexpr int deepest = 16;
  if (depth > deepest) return;
  if (!network_of(folder).empty()) found.push_back(folder);
  for (const fs::path& path : entries(folder))
    if (fs::is_directory(path) && !is_data_set(path)) add_tests(path, found, depth + 1);
}

// The same reason for two tests is one: places and names in quotes go.
std::string kind_of_reason(const std::string& reason) {
  std::string text;
  bool quoted = false;
  char before = ' ';
  for (const char c : reason) {
    if (c == '\'' && (quoted || before == ' ')) {
      quoted = !quoted;
      if (quoted) text += "'..'";
    } else if (!quoted) {
      text += c;
    }
    before = c;
  }
  // "[graph] NAME: node '..' (Op): " says little more than Op.
  if (const size_t open = text.find(" ("); text.starts_with("[graph] ") && open != std::string::npos)
    if (const size_t close = text.find("): ", open); close != std::string::npos)
      return text.substr(open + 2, close - open - 2) + ": " + text.substr(close + 3);
  if (const size_t colon = text.find(": "); text.starts_with("[graph] ") && colon != std::string::npos)
    return text.substr(colon + 2);
  return text;
}

}  // namespace

std::vector<fs::path> find_onnx_tests(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw UsageError("[onnx-test] '{}' is no folder", folder.string());
  std::vector<fs::path> found;
  add_tests(folder, found, 0);
  if (found.empty())
    throw UsageError("[onnx-test] '{}' holds no folder with one .onnx file and test_data_set_* folders",
                     folder.string());
  return found;
}

std::vector<Json> onnx_test_cases(const fs::path& folder, const std::vector<std::string>& backends) {
  std::vector<Json> cases;
  for (const fs::path& test : find_onnx_tests(folder)) {
    const std::string relative = test.lexically_relative(folder).string();  // links stay what they are called
    const std::string name = relative == "." ? fs::canonical(test).filename().string() : relative;
    for (const std::string& backend : backends)
      cases.push_back({{"kind", "onnx-test"}, {"test", name}, {"folder", test.string()}, {"backend", backend}});
  }
  return cases;
}

std::string onnx_tests_table(const std::vector<Record>& records) {
  const std::vector<std::string> statuses{"passed", "failed", "unsupported", "error", "skipped"};
  std::vector<std::string> backends;
  std::map<std::string, std::map<std::string, size_t>> counts;
  std::map<std::string, std::map<std::pair<std::string, std::string>, size_t>> reasons;
  for (const Record& record : records) {
    const std::string backend = record.fields.at("backend").get<std::string>();
    if (!counts.contains(backend)) backends.push_back(backend);
    ++counts[backend][record.status];
    if (record.status != "passed") ++reasons[backend][{record.status, kind_of_reason(record.reason)}];
  }
  TextTable table;
  table.column("backend");
  table.column("tests", Align::right);
  for (const std::string& status : statuses) table.column(status, Align::right);
  table.column("passed", Align::right);
  for (const std::string& backend : backends) {
    size_t all = 0;
    for (const auto& [status, count] : counts[backend]) all += count;
    std::vector<Cell> cells{{backend}, {std::to_string(all)}};
    for (const std::string& status : statuses) cells.push_back({std::to_string(counts[backend][status])});
    cells.push_back(
        {fmt::format("{:.1f} %", 100.0 * static_cast<double>(counts[backend]["passed"]) / static_cast<double>(all))});
    table.row(std::move(cells));
  }
  std::string text = table.text(false);
  for (const std::string& backend : backends) {
    std::vector<std::pair<std::pair<std::string, std::string>, size_t>> sorted(reasons[backend].begin(),
                                                                               reasons[backend].end());
    std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [what, count] : sorted)
      text += fmt::format("{:>6} x {} {}: {}\n", count, backend, what.first, what.second);
  }
  return text;
}

D5_REGISTER(benches, "onnx-test", OnnxTestBench);
}  // namespace d5
