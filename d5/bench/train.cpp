// SPDX-License-Identifier: Apache-2.0
// Level 2: one training. How values become a case, and how the result of a case becomes a record.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "d5/bench/data_case.hpp"
#include "d5/bench/meters.hpp"
#include "d5/bench/net_case.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/bench/train_algorithm.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/bench/train_data.hpp"
#include "d5/bench/train_ranks.hpp"
#include "d5/bench/train_session.hpp"
#include "d5/bench/train_speed.hpp"
#include "d5/core/plugins.hpp"
#include "d5/distributed/cluster.hpp"
#include "d5/measure/metrics/energy.hpp"
#include "d5/measure/proportion.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

// An error about one field, whoever found it.
template <class Act>
auto as_field(const std::string& name, Act act) {
  try {
    return act();
  } catch (const FieldError&) {
    throw;
  } catch (const UsageError& error) {
    throw FieldError(name, fmt::format("[train] {}: {}", name, error.what()));
  }
}

Metric plain(const std::string& unit, double value) { return {.unit = unit, .median = value, .ci95 = {}}; }

// What is not finite came as null: a perplexity is beyond all numbers long before its loss is.
double number_from(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

void add_quality(const Json& training, const std::string& part, Record& record) {
  const std::string quality = training.at("quality");
  const Json& of_part = training.at(part);
  Metric metric = plain(quality == "rmse" ? "" : "1", number_from(of_part.at(quality)));
  metric.n = of_part.at("samples");
  metric.n_eff = static_cast<double>(metric.n);
  // The samples are fixed; what is random is which ones they are. Runs differ, too: over seeds see the summary.
  if (of_part.contains("right") && metric.n > 0) {
    const Interval interval = wilson_interval(of_part["right"], of_part.at("samples"));
    metric.ci95 = {interval.low, interval.high};
  }
  record.metrics.emplace_back(part + "_" + quality, metric);
  record.metrics.emplace_back(part + "_loss", plain("1", number_from(of_part.at("loss"))));
}

// The time of a step is a median; samples/s is what was trained on by the time that took, however uneven steps are.
// With several ranks it is the time of the slowest (train_session.cpp). One step alone has no interval.
void add_speed(const Json& details, const Json& training, Record& record) {
  const std::vector<double> seconds = details.value("step_seconds", std::vector<double>()),
                            samples = details.value("step_samples", std::vector<double>());
  const Json timed = training.value("timed", Json::object());
  const double whole = training["step"]["whole_s"].get<double>() * timed.value("steps", 0.0);
  if (samples.size() != seconds.size() || !(whole > 0)) return;
  if (seconds.empty() && timed["steps"] == 1) {
    record.metrics.emplace_back("step_time", Metric{.unit = "s", .median = whole, .ci95 = {}, .n = 1, .n_eff = 1});
    record.metrics.emplace_back(
        "throughput",
        Metric{
            .unit = "samples/s", .median = timed.at("samples").get<double>() / whole, .ci95 = {}, .n = 1, .n_eff = 1});
  }
  if (seconds.empty()) return;
  const Summary time = summarize(seconds);
  Metric step{.unit = "s", .median = time.median, .ci95 = {}, .n = time.n, .n_eff = time.n_eff};
  if (time.ci95) step.ci95 = {time.ci95->low, time.ci95->high};
  const double mean = timed.at("samples").get<double>() / whole;
  Metric rate{.unit = "samples/s", .median = mean, .ci95 = {}, .n = seconds.size(), .n_eff = time.n_eff};
  if (const auto error = relative_error_of_rate(samples, seconds); error && *error < 1)
    rate.ci95 = {mean * (1 - *error), mean * (1 + *error)};
  record.metrics.emplace_back("step_time", step);
  record.metrics.emplace_back("throughput", rate);
}

// What a sample cost, everything included: joules where there is a counter, money where the hour has a price.
void add_costs(const CaseResult& result, const Json& training, Record& record) {
  const std::string meter = result.fields.at("device") == "cpu" ? "energy" : "device_energy";
  Measured measured{.reports = reports_of(result, meter)};
  std::erase_if(measured.reports, [](const Json& report) { return !report.contains("joules"); });
  if (const auto energy = energy_per_iteration(measured)) record.metrics.emplace_back("energy_per_sample", *energy);
  const double price_of_second = result.fields.at("price").get<double>() / 3600;
  if (price_of_second == 0 || training.at("samples").get<double>() == 0) return;
  const double seconds = training.at("seconds"), samples = training.at("samples");
  record.metrics.emplace_back("cost_per_sample", plain("1", price_of_second * seconds / samples));
  if (training.contains("seconds_to_target"))
    record.metrics.emplace_back("cost_to_target",
                                plain("1", price_of_second * training["seconds_to_target"].get<double>()));
}

// Recovery: from the moment that ranks were known to be lost until new ones, or those that are left, took their first
// step.
void add_losses(const Json& training, Record& record) {
  const Json restarts = training.value("restarts", Json::array()), shrunk = training.value("shrunk", Json::array());
  double recovery = 0;
  size_t lost = 0;
  const auto add = [&](const Json& loss, const std::string& what) {
    recovery = std::max(recovery, loss.value("recovery_s", 0.0));
    record.warnings.push_back(fmt::format("{} from step {} within {:.2g} s: {}", what,
                                          loss.value("resumed_at", Index{0}), loss.value("recovery_s", 0.0),
                                          loss.at("why").get<std::string>()));
  };
  for (const Json& restart : restarts) add(restart, "restarted");
  for (const Json& loss : shrunk) {
    const auto ranks = loss.value("lost", std::vector<int>{});
    lost += ranks.size();
    add(loss, fmt::format("went on without rank {}", fmt::join(ranks, ", ")));
  }
  if (!restarts.empty()) record.metrics.emplace_back("restarts", plain("1", static_cast<double>(restarts.size())));
  if (!shrunk.empty()) record.metrics.emplace_back("lost_ranks", plain("1", static_cast<double>(lost)));
  if (recovery > 0) record.metrics.emplace_back("recovery_time", plain("s", recovery));
}

// How far the weights are in the end from those of the baseline.
void add_drift(const Json& training, Record& record) {
  const Json trajectory = training.value("trajectory", Json::object());
  if (!trajectory.contains("steps") || trajectory["steps"].empty()) return;
  for (const char* norm : {"l2", "linf"})
    if (const Json& last = trajectory[std::string("all_") + norm].back(); last.is_number())
      record.metrics.emplace_back(std::string("trajectory_") + norm, plain("1", last));
}

// What a plugin's event said stays in the details.
std::string stopped_word(const std::string& why) {
  static const std::vector<std::string> own{"", "epochs", "steps", "target", "plateau", "time", "diverged"};
  return std::ranges::find(own, why) == own.end() ? "event" : why;
}

void add_volume(const Json& scheme, Record& record) {
  record.metrics.emplace_back("sent_per_step", plain("B", scheme["sent_bytes"]));
  if (const double least = scheme.value("least_bytes", 0.0); least > 0)
    record.metrics.emplace_back("sent_of_least", plain("1", scheme["sent_bytes"].get<double>() / least));
}

class TrainBench final : public Bench {
 public:
  Json complete(const Json& given) const override {
    if (!given.contains("network") || !given["network"].is_string())
      throw FieldError("network", "[train] no network is named; legal: an ONNX file, or a name of 'd5 list networks'");
    Json fields = given;
    const std::string network = fields["network"];
    const auto parameters = as_field("network", [&] { return own_parameters(network); });
    if (is_file(network) && !std::filesystem::exists(network))
      throw FieldError("network", fmt::format("[train] there is no file {}", network));
    std::vector<std::string> legal{"kind", "network"};
    for (const CaseField& field : train_fields()) legal.push_back(field.name);
    for (const Parameter& parameter : parameters) legal.push_back(parameter.name);
    check_names(fmt::format("[{}]", network), legal, fields);
    for (const char* name : {"optimizer", "schedule", "scheme"})
      if (fields.contains(name)) fields[name] = as_field(name, [&] { return named_values_text(fields[name]); });
    for (const char* name : {"target", "time_limit", "test_share", "price", "rank_limit"})  // 1 is as good as 1.0
      if (fields.contains(name) && fields[name].is_number_integer()) fields[name] = fields[name].get<double>();
    Json result = {{"kind", "train"}, {"network", network}};
    const Json target = fields.value("target", Json());
    if (target.is_object()) fields.erase("target");
    complete_fields("[train]", train_fields(), fields, result);
    if (!fields.contains("communicator")) result["communicator"] = usual_communicator(result);
    for (const Parameter& parameter : parameters)
      result[parameter.name] = fields.contains(parameter.name)
                                   ? fields[parameter.name]
                                   : to_json(Attributes{{parameter.name, parameter.otherwise}})[parameter.name];
    if (target.is_object()) result["target"] = named_target(target, result);
    check_values(result);
    return result;
  }

  void check_case(const Json& fields) const override {
    TrainingCase described = training_case(fields, true);
    infer_specs(described.settings.network(1, Mode::training));
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return open_train_session(fields); }

  Record record(const CaseResult& result) const override {
    Record record{.kind = "train", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.group = result.group;
    record.warnings = result.warnings;
    record.rerun = rerun(result.fields);
    if (!result.prepared.empty()) record.details = result.prepared.front();
    for (const Json& warning : record.details.value("warnings", Json::array())) record.warnings.push_back(warning);
    record.details.erase("warnings");
    record.details["unremarkable"] = defaults(result.fields);
    for (const Plugin& plugin : opened_plugins())
      record.details["plugins"].push_back({{"file", plugin.given}, {"hash", plugin.hash}});
    const Json training = record.details.value("training", Json::object());
    record.stopped = stopped_word(training.value("stopped", ""));
    if (result.status != "passed" || !training.contains("test")) return record;
    add_quality(training, "test", record);
    add_quality(training, "train", record);
    const double target = result.fields.at("target");
    if (training.contains("seconds_to_target")) {
      record.metrics.emplace_back("time_to_target", plain("s", training["seconds_to_target"]));
      record.metrics.emplace_back("epochs_to_target", plain("1", training["epochs_to_target"]));
    } else if (target != 0 && !record.details.value("shortened", false)) {
      const std::string quality = training["quality"];
      record.warnings.push_back(fmt::format("the target was never reached: test {} {:.4g} after {} steps, {:g} wanted",
                                            quality, training["test"][quality].get<double>(),
                                            training["steps"].get<Index>(), target));
    }
    add_drift(training, record);
    record.metrics.emplace_back("training_time", plain("s", training.at("seconds")));
    add_speed(record.details, training, record);
    const Json scheme = training.value("scheme", Json::object());
    if (scheme.value("sent_bytes", Json()).is_number()) add_volume(scheme, record);
    if (scheme.contains("hidden_share"))
      record.metrics.emplace_back("hidden_share", plain("1", scheme["hidden_share"]));
    add_losses(training, record);
    add_costs(result, training, record);
    if (record.details.contains("memory") && record.details["memory"].contains("peak_bytes"))
      record.metrics.emplace_back("memory", plain("B", record.details["memory"]["peak_bytes"]));
    return record;
  }

  std::string rerun(const Json& fields) const override {
    Json with_values = fields;
    with_values.erase("resume");  // an option without a value
    return rerun_command("train", "network", with_values, defaults(fields)) +
           (fields.value("resume", false) ? " --resume" : "");
  }

  std::vector<std::string> compared_fields() const override {
    return {"backend", "device", "environment", "optimizer"};
  }
  bool runs_once() const override { return true; }

 private:
  // { test_accuracy = 0.989 }, as a recipe writes it: the name must be that of the task.
  static double named_target(const Json& target, const Json& fields) {
    const std::string wanted = "test_" + registered<tasks>(task_of_case(fields)).quality;
    if (target.size() != 1 || !target.contains(wanted) || !target[wanted].is_number())
      throw FieldError("target",
                       fmt::format("[train] target is {}; legal: a number, or {{ {} = 0.9 }}", target.dump(), wanted));
    return target[wanted];
  }

  // Of one rank there is nothing to reduce: the base of a scaling study has what its other cases have.
  static void check_algorithm(const std::string& algorithm, const std::string& scheme) {
    if (algorithm.empty()) return;
    const std::vector<std::string> legal = algorithm_choices();
    if (std::ranges::find(legal, algorithm) == legal.end())
      as_field("algorithm", [&] { return fail_unknown("[all-reduce]", "algorithm", algorithm, legal), 0; });
    for (const char* other : {"pssgd", "zero1", "qsgd", "asgd", "ssp", "hierarchical"})
      if (scheme == other)
        throw FieldError("algorithm", fmt::format("[train] algorithm: scheme {} has no all-reduce to choose one for; "
                                                  "legal: with dsgd, compressed, sparcml, mavg, easgd, dpsgd",
                                                  scheme));
  }

  static void check_ranks(const Json& fields) {
    const Index ranks = fields.at("ranks"), all = batch_of_all_ranks(fields);
    const SchemeSettings scheme = as_field("scheme", [&] { return scheme_of(fields); });
    as_field("scheme", [&] {
      return complete_values("scheme " + scheme.name, registered<schemes>(scheme.name).parameters, scheme.values);
    });
    if (const std::string link = fields.at("link"); !link.empty()) {
      as_field("link", [&] { return check_cluster({.name = "train", .nodes = 1, .rate = link, .burst = "128kb"}), 0; });
      if (fields.at("communicator") != "mpi")
        throw FieldError("link",
                         "[train] link: ranks that are threads need no network; legal: with --communicator mpi");
    }
    check_algorithm(fields.at("algorithm"), ranks > 1 ? scheme.name : "");
    if (ranks == 1) return;
    if (const char* const launcher = std::getenv("D5_LAUNCHER"); launcher && fields.at("communicator") != "mpi")
      throw FieldError("communicator",
                       fmt::format("[train] launcher {}: ranks that are threads are not started by it; legal: with "
                                   "--communicator mpi",
                                   launcher));
    if (scheme.name == "single")
      throw FieldError("scheme", fmt::format("[train] scheme single is of one process, and there are {} ranks", ranks));
    if (const Index micros = fields.at("accumulate"); all % (ranks * micros) != 0)
      throw FieldError("batch", fmt::format("[train] a batch of {} is not divided evenly among {} ranks{}", all, ranks,
                                            micros > 1 ? fmt::format(" x {} micro-batches", micros) : ""));
    if (fields.at("discriminator") != "")
      throw FieldError("ranks", "[train] two networks against each other are trained by one rank; legal: 1");
    if (fields.at("device") != "cpu") throw FieldError("device", "[train] several ranks train on the host; legal: cpu");
  }

  // Training and test must be normalised alike, and an export has it inside.
  static void check_augmentations(const Json& fields) {
    for (const std::string name : {"augment", "test_augment"}) {
      const auto steps = as_field(name, [&] { return parse_augmentations(fields.at(name)); });
      if (std::ranges::any_of(steps, [](const AugmentationStep& step) { return step.name == "normalise"; }))
        throw FieldError(
            name, fmt::format("[train] {}: normalise is no augmentation of one set alone; use --normalise", name));
    }
  }

  static void check_values(const Json& fields) {
    for (const auto& [name, least] : std::initializer_list<std::pair<const char*, Index>>{{"batch", 1},
                                                                                          {"epochs", 1},
                                                                                          {"accumulate", 1},
                                                                                          {"steps", 0},
                                                                                          {"ranks", 1},
                                                                                          {"ranks_per_node", 0},
                                                                                          {"from_ranks", 0},
                                                                                          {"restarts", 0},
                                                                                          {"plateau", 0},
                                                                                          {"every", 0},
                                                                                          {"trajectory_every", 1},
                                                                                          {"loader_threads", 0}})
      if (fields.at(name).get<Index>() < least)
        throw FieldError(name, fmt::format("[train] {} is {}; at least {} is legal", name, fields[name].dump(), least));
    check_ranks(fields);
    if (fields.at("batch").get<Index>() % fields.at("accumulate").get<Index>() != 0)
      throw FieldError("accumulate", fmt::format("[train] a batch of {} is not divided evenly into {} micro-batches",
                                                 fields["batch"].dump(), fields["accumulate"].dump()));
    as_field("task", [&] { return registered<tasks>(task_of_case(fields)).quality; });
    const bool two = task_of_case(fields) == "gan";
    const std::string discriminator = fields.at("discriminator");
    if (two != !discriminator.empty())
      throw FieldError("discriminator",
                       fmt::format("[train] discriminator is '{}' and the task {}; task gan wants one, others none",
                                   discriminator, task_of_case(fields)));
    if (two) as_field("discriminator", [&] { return own_parameters(discriminator).size(); });
    as_field("sampler", [&] { return registered<samplers>(fields.at("sampler").get<std::string>()).about; });
    // One whose module is off is unsupported when the case is run; it says nothing of its values before.
    if (!why_no_optimizer(fields))
      as_field("optimizer", [&] { return for_batch(optimizer_of(fields), batch_of_all_ranks(fields)); });
    as_field("schedule", [&] { return make_schedule(schedule_of(fields), {fields.at("epochs"), 1}); });
    check_augmentations(fields);
    as_field("normalise", [&] { return normalisation_of(fields).mean; });
    if (fields.at("resume").get<bool>() && fields.at("checkpoint") == "")
      throw FieldError("resume", "[train] resume: there is nothing to go on from without --checkpoint FOLDER");
    if (fields.at("every").get<Index>() > 0 && fields.at("checkpoint") == "")
      throw FieldError("every", "[train] every: nothing is written without --checkpoint FOLDER");
    if (fields.at("from_ranks").get<Index>() > 0 && !fields.at("resume").get<bool>())
      throw FieldError("from_ranks", "[train] from_ranks: only --resume goes on from a checkpoint");
    if (fields.at("restarts").get<Index>() > 0 && fields.at("checkpoint") == "")
      throw FieldError("restarts", "[train] restarts: there is nothing to start from without --checkpoint FOLDER");
    if (fields.at("restarts").get<Index>() > 0 && scheme_of(fields).name == "single")
      throw FieldError("restarts", "[train] restarts: scheme single has no ranks to lose; legal: 0, or --ranks 2");
    if (fields.at("elastic").get<bool>()) {
      const std::string scheme = scheme_of(fields).name;
      if (fields.at("checkpoint") == "")
        throw FieldError("elastic", "[train] elastic: there is nothing to go on from without --checkpoint FOLDER");
      for (const char* not_legal : {"single", "asgd", "ssp", "hierarchical"})  // alone, or ranks that talk in groups
        if (scheme == not_legal)
          throw FieldError("elastic", fmt::format("[train] elastic: scheme {} cannot go on with fewer ranks", scheme));
    }
    if (!(fields.at("rank_limit").get<double>() > 0))
      throw FieldError("rank_limit", fmt::format("[train] rank_limit is {}; more than 0 seconds are legal",
                                                 fields["rank_limit"].dump()));
    if (fields.at("resume").get<bool>() && fields.at("trajectory") != "")
      throw FieldError("trajectory",
                       "[train] trajectory: one that is resumed has no beginning to compare; leave out "
                       "--resume or --trajectory");
    for (const char* name : {"price", "time_limit"})
      if (!(fields.at(name).get<double>() >= 0))
        throw FieldError(name, fmt::format("[train] {} is {}; 0 and more are legal", name, fields[name].dump()));
    const std::string file = fields.at("export");
    if (!file.empty() && !file.ends_with(".onnx") && !file.ends_with(".npz"))
      throw FieldError("export",
                       fmt::format("[train] export is '{}'; names that end in .onnx or .npz are legal", file));
  }

  std::vector<std::string> defaults(const Json& fields) const {
    std::vector<std::string> names;
    const bool unremarkable = usual_communicator(fields) == "threads";  // what is usual depends on the place
    for (const CaseField& field : train_fields())
      if (fields.at(field.name) == field.otherwise && (field.name != "communicator" || unremarkable))
        names.push_back(field.name);
    for (const Parameter& parameter : own_parameters(fields.at("network")))
      if (fields.at(parameter.name) == to_json(Attributes{{parameter.name, parameter.otherwise}})[parameter.name])
        names.push_back(parameter.name);
    return names;
  }
};

}  // namespace
D5_REGISTER(benches, "train", TrainBench);
}  // namespace d5
