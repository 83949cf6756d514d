// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_case.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "d5/backends/backend.hpp"
#include "d5/bench/data_case.hpp"
#include "d5/bench/net_case.hpp"
#include "d5/bench/train_data.hpp"
#include "d5/core/plugins.hpp"
#include "d5/datasets/generator.hpp"
#include "d5/datasets/named.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/graph/trainable.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/network.hpp"
#include "d5/training/checkpoint.hpp"

namespace d5 {

Graph bare_network(const Json& fields, const std::string& network, Index samples, Mode mode) {
  if (is_file(network)) {
    Graph graph = modernise(read_onnx(network));
    bind_batch(graph, samples);
    graph = mode == Mode::training ? training_form(std::move(graph)) : inference_form(std::move(graph));
    make_trainable(graph);
    return graph;
  }
  Json own = Json::object();
  for (const Parameter& parameter : own_parameters(network))
    if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
  return build_network(network, attributes_from_json(own), samples, parse_dtype(fields.at("dtype").get<std::string>()),
                       mode);
}

namespace {

// Who computes and who updates, not what is learned from what.
constexpr std::array may_differ_in_a_trajectory{"backend", "device", "threads", "optimizer",     "dtype",
                                                "math",    "layout", "kernel",  "deterministic", "fallback"};

std::string file_name_of_network(const Json& fields) {
  std::string network = fields.at("network");
  std::ranges::replace(network, '/', '-');
  return network;
}

// "30/60/80"
std::vector<int64_t> whole_numbers(const std::string& text, const std::string& place) {
  std::vector<int64_t> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '/');) {
    int64_t number = 0;
    const char* end = part.data() + part.size();
    if (const auto r = std::from_chars(part.data(), end, number); r.ec != std::errc() || r.ptr != end)
      throw UsageError("{} is '{}', wanted: whole numbers, 30/60/80", place, text);
    numbers.push_back(number);
  }
  return numbers;
}

// Values of these parameters from "name=value" texts, each as the type that its default has.
Attributes typed_values(const NamedValues& given, const std::vector<Parameter>& parameters, const std::string& place) {
  std::vector<DataOption> options;
  for (const Parameter& parameter : parameters)
    options.push_back({parameter.name, parameter.about, parameter.otherwise});
  Attributes values;
  for (const std::string& value : given.values) {
    const std::string name = value.substr(0, value.find('='));
    const auto known = std::ranges::find(parameters, name, &Parameter::name);
    if (known != parameters.end() && std::holds_alternative<std::vector<int64_t>>(known->otherwise))
      values.set(name, whole_numbers(value.substr(name.size() + 1), place + " " + name));
    else
      set_option(values, value, options, place);
  }
  return values;
}

CompileOptions train_compile_options(const Json& fields) {
  CompileOptions options;
  options.mode = Mode::training;
  options.math = parse_math(fields.at("math").get<std::string>());
  options.layout = parse_layout(fields.at("layout").get<std::string>());
  options.deterministic = fields.at("deterministic");
  options.device = fields.at("device");
  options.kernel = fields.at("kernel");
  options.fallback = fields.at("fallback") == "reference" ? Fallback::reference : Fallback::error;
  return options;
}

}  // namespace

const std::vector<CaseField>& train_fields() {
  static const std::vector<CaseField> fields{
      {"dataset", "generated-images"},
      {"options", ""},
      {"test_dataset", ""},
      {"test_share", 0.1},
      {"data", ""},
      {"samples", -1},
      {"test_samples", -1},
      {"pixels", -1},
      {"fit", "resize", {"resize", "crop"}},
      {"augment", ""},
      {"test_augment", ""},
      {"normalise", ""},
      {"sampler", "shuffle"},
      {"loader_threads", 1},
      {"on_error", "fail", {"fail", "skip"}},
      {"task", ""},
      {"discriminator", ""},
      {"loss", "", {"", "cross-entropy", "token-cross-entropy", "mean-squared-error", "binary-cross-entropy"}},
      {"optimizer", "momentum:learning_rate=0.01"},
      {"schedule", "constant"},
      {"scheme", ""},
      {"algorithm", ""},
      {"ranks", 1},
      {"ranks_per_node", 0},
      {"link", ""},
      {"communicator", "threads", {"threads", "mpi"}},
      {"scaling", "strong", {"strong", "weak"}},
      {"batch", 64},
      {"accumulate", 1},
      {"epochs", 1},
      {"steps", 0},
      {"target", 0.0},
      {"time_limit", 0.0},
      {"plateau", 0},
      {"seed", 1},
      {"backend", "reference"},
      {"threads", 1},
      {"device", "cpu"},
      {"environment", ""},
      {"dtype", "f32", {"f32", "bf16"}},
      {"math", "strict", {"strict", "tf32", "bf16", "winograd"}},
      {"layout", "fast", {"fast", "plain"}},
      {"kernel", "builtin"},
      {"deterministic", false},
      {"fallback", "error", {"error", "reference"}},
      {"events", ""},
      {"checkpoint", ""},
      {"every", 0},
      {"resume", false},
      {"from_ranks", 0},
      {"restarts", 0},
      {"elastic", false},
      {"rank_limit", 60.0},
      {"trajectory", ""},
      {"trajectory_every", 10},
      {"price", 0.0},
      {"trace", ""},
      {"replay", false},
      {"export", ""},
  };
  return fields;
}

NamedValues parse_named_values(const std::string& text) {
  NamedValues result;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ':');) {
    if (part.find('=') != std::string::npos)
      result.values.push_back(part);
    else if (result.values.empty())
      result.name += (result.name.empty() ? "" : ":") + part;  // "torch:adam" is one name
    else
      result.values.back() += ":" + part;
  }
  return result;
}

std::string named_values_text(const Json& value) {
  if (value.is_string()) return value;
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string())
    throw UsageError(
        "{} is given; legal: \"NAME:value=0.1:others=30/60\" (several numbers of one value are joined by '/'), "
        "or {{ name = \"NAME\", value = 0.1 }}",
        value.dump());
  std::string text = value["name"];
  for (const auto& [name, one] : value.items())
    if (name != "name") text += fmt::format(":{}={}", name, one.is_string() ? one.get<std::string>() : one.dump());
  return text;
}

OptimizerSettings optimizer_of(const Json& fields) {
  const NamedValues given = parse_named_values(fields.at("optimizer"));
  return {given.name, typed_values(given, optimizer_parameters(given.name), "[" + given.name + "]")};
}

std::optional<std::string> why_no_optimizer(const Json& fields) {
  const std::string name = parse_named_values(fields.at("optimizer")).name;
  const size_t colon = name.find(':');
  if (colon == std::string::npos || find_registered<optimizers>(name)) return {};
  if (find_registered<optimizers>(name.substr(0, colon))) return {};  // "adam:beta1" is a mistake, not a backend
  std::unique_ptr<Backend> module;
  const auto off = open_backend_of({{"backend", name.substr(0, colon)}}, module);
  return off ? std::optional(off->reason) : std::nullopt;
}

ScheduleSettings schedule_of(const Json& fields) {
  const NamedValues given = parse_named_values(fields.at("schedule"));
  return {given.name, typed_values(given, schedule_parameters(given.name), "[schedule " + given.name + "]")};
}

SchemeSettings scheme_of(const Json& fields) {
  const NamedValues given = parse_named_values(fields.at("scheme"));
  const std::string name = !given.name.empty() ? given.name : fields.at("ranks") == 1 ? "single" : "dsgd";
  return {name, typed_values(given, registered<schemes>(name).parameters, "[scheme " + name + "]")};
}

Index batch_of_all_ranks(const Json& fields) {
  return fields.at("batch").get<Index>() * (fields.at("scaling") == "weak" ? fields.at("ranks").get<Index>() : 1);
}

std::string loss_of_case(const Json& fields) {
  const std::string given = fields.at("loss"), network = fields.at("network"), task = fields.at("task");
  if (!given.empty()) return given;
  if (!is_file(network))
    if (const std::string own = registered<networks>(network).loss; !own.empty()) return own;
  return registered<tasks>(task.empty() ? "classification" : task).loss;
}

std::string task_of_case(const Json& fields) {
  const std::string given = fields.at("task");
  return given.empty() ? task_of_loss(loss_of_case(fields)) : given;
}

Json train_identity(const Json& fields) {
  Json identity = fields;
  for (const char* name :
       {"checkpoint",  "every",  "resume",   "export",     "time_limit",       "steps", "data",  "loader_threads",
        "environment", "events", "kind",     "trajectory", "trajectory_every", "price", "ranks", "communicator",
        "from_ranks",  "trace",  "restarts", "rank_limit", "elastic"})
    identity.erase(name);
  if (follows_length_of_run(schedule_of(fields))) identity["steps"] = fields.at("steps");
  return identity;
}

// By what is shown of a case, and a hash of the rest: seeds, backends and numbers of ranks lie side by side.
std::string checkpoint_file(const Json& fields, Index ranks) {
  const std::string folder = fields.at("checkpoint");
  if (folder.empty()) return {};
  return fmt::format("{}/{}-{}-seed{}-{}{}.d5c", folder, file_name_of_network(fields),
                     fields.at("backend").get<std::string>(), fields.at("seed").get<int64_t>(),
                     content_hash(train_identity(fields).dump()).substr(0, 8),
                     ranks > 1 ? fmt::format("-{}ranks", ranks) : "");
}

namespace {

// Where a training without a file of its own goes on: of the number of ranks that is named, else of the only other
// number that did not come to its end. Empty: nowhere.
std::string checkpoint_of_others(const Json& fields, std::string& note) {
  namespace fs = std::filesystem;
  if (const Index from = fields.at("from_ranks"); from > 0) {
    if (const std::string file = checkpoint_file(fields, from); fs::exists(file)) return file;
    if (from == fields.at("ranks").get<Index>()) return {};
    throw UsageError("[train] from_ranks is {}, and there is no {}", from, checkpoint_file(fields, from));
  }
  const fs::path alone = checkpoint_file(fields, 1);
  const std::string start = alone.stem().string();
  std::vector<std::string> files, ended;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(alone.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    Index ranks = 0;
    if (name.starts_with(start + "-"))
      std::from_chars(name.data() + start.size() + 1, name.data() + name.size(), ranks);
    if (name != alone.filename() && (ranks == 0 || entry.path() != checkpoint_file(fields, ranks))) continue;
    const Json about = Json::parse(read_checkpoint(entry.path().string()).about);
    (about.value("stopped", "").empty() ? files : ended).push_back(entry.path().string());
  }
  std::ranges::sort(files);
  if (files.size() > 1)
    throw UsageError(
        "[train] resume: there is no checkpoint of {} ranks, but several of others: {}; --from-ranks says "
        "which",
        fields.at("ranks").get<Index>(), fmt::join(files, ", "));
  if (files.empty() && !ended.empty())
    note = fmt::format("began anew: the training in {} has come to its end; --from-ranks goes on from it all the same",
                       ended.front());
  return files.empty() ? "" : files.front();
}

}  // namespace

std::string trajectory_folder(const Json& fields) {
  const std::string folder = fields.at("trajectory");
  if (folder.empty()) return {};
  Json same = train_identity(fields);
  for (const char* name : may_differ_in_a_trajectory) same.erase(name);
  return fmt::format("{}/{}-seed{}-{}", folder, file_name_of_network(fields), fields.at("seed").get<int64_t>(),
                     content_hash(same.dump()).substr(0, 8));
}

Json trajectory_runner(const Json& fields) {
  Json who;
  for (const char* name : may_differ_in_a_trajectory) who[name] = fields.at(name);
  return who;
}

TrainingCase training_case(const Json& fields, bool fixture) {
  TrainingCase result;
  TrainingSettings& s = result.settings;
  const std::string network = fields.at("network"), discriminator = fields.at("discriminator");
  s.network = [fields, network](Index samples, Mode mode) { return bare_network(fields, network, samples, mode); };
  if (!discriminator.empty())  // its sizes are those of the generator, by their names
    result.discriminator = [fields, discriminator](Index samples, Mode mode) {
      return bare_network(fields, discriminator, samples, mode);
    };
  s.loss = loss_of_case(fields);
  s.task = task_of_case(fields);
  s.sampler = fields.at("sampler");
  s.batch = batch_of_all_ranks(fields) / fields.at("ranks").get<Index>();
  const SchemeSettings scheme = scheme_of(fields);
  s.scheme = scheme.name;
  s.scheme_values = scheme.values;
  s.accumulate = fields.at("accumulate");
  s.loader_threads = fields.at("loader_threads");
  s.on_error = parse_on_error(fields.at("on_error").get<std::string>());
  s.seed = fields.at("seed");
  s.optimizer = optimizer_of(fields);
  s.schedule = schedule_of(fields);
  const DType dtype = parse_dtype(fields.at("dtype").get<std::string>());
  s.compute = dtype;
  s.compile = train_compile_options(fields);
  s.stop = {.epochs = fields.at("epochs"),
            .steps = fields.at("steps"),
            .target = fields.at("target"),
            .seconds = fields.at("time_limit"),
            .plateau = fields.at("plateau")};
  s.checkpoint.file = checkpoint_file(fields, fields.at("ranks"));
  s.checkpoint.every = fields.at("every");
  s.checkpoint.resume = fields.at("resume");
  if (s.checkpoint.resume && !fixture && !std::filesystem::exists(s.checkpoint.file))
    s.checkpoint.from = checkpoint_of_others(fields, result.resume_note);
  s.checkpoint.identity = train_identity(fields).dump();

  TrainData data;
  try {
    data = open_train_data(fields);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    if (!fixture) throw;
    result.data_note = error.what();
    const auto& judging = result.discriminator ? result.discriminator : s.network;
    data = fixture_data(with_loss(judging(s.batch, Mode::training), s.loss), batch_of_all_ranks(fields), s.seed);
  }
  s.train = data.train;
  s.test = data.test;
  const auto* generated = dynamic_cast<const Generator*>(&s.test->data());
  if (generated && !result.discriminator)  // what is known is how well samples can be told apart
    if (const auto optimum = generated->optimum()) {
      result.optimum = optimum->value;
      result.optimum_why = optimum->metric + ": " + optimum->why;
    }
  return result;
}

}  // namespace d5
