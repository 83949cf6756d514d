// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_session.hpp"

#include <sys/resource.h>

#include <cmath>
#include <mutex>

#include "d5/bench/fields.hpp"
#include "d5/bench/meters.hpp"
#include "d5/bench/progress.hpp"
#include "d5/bench/train_algorithm.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/bench/train_ranks.hpp"
#include "d5/bench/train_replay.hpp"
#include "d5/bench/train_trace.hpp"
#include "d5/core/parallel.hpp"
#include "d5/datasets/views.hpp"
#include "d5/distributed/rank_scheme.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/resident_memory.hpp"
#include "d5/networks/loss.hpp"
#include "d5/training/gan.hpp"
#include "d5/training/trajectory.hpp"

namespace d5 {
namespace {

constexpr Index check_batch = 8, check_steps = 3, check_tests = 32;

// Loss, quality, samples/s and the remaining time, a few times a second.
class Teller final : public TrainingEvents {
 public:
  Teller(std::string title, std::string quality, Index batch)
      : title_(std::move(title)), quality_(std::move(quality)), batch_(batch) {}

  void before(TrainingEvent event, const TrainingView& view) override {
    if (event == TrainingEvent::training_set) begin_ = {now_seconds(), view.batch};
  }
  void after(TrainingEvent event, const TrainingView& view) override {
    if (event != TrainingEvent::batch || now_seconds() < next_) return;
    next_ = now_seconds() + 0.5;
    const double epoch = static_cast<double>(view.epoch) +
                         (view.testing ? 0 : static_cast<double>(view.batch) / static_cast<double>(view.batches));
    const double rate = static_cast<double>((view.batch - begin_.batch) * batch_) / (now_seconds() - begin_.seconds);
    report_progress(view.testing
                        ? fmt::format("{}: epoch {}, test", title_, view.epoch)
                        : fmt::format("{}: epoch {}/{}, loss {:.4g}, {} {:.4g}, {:.0f} samples/s", title_,
                                      view.epoch + 1, view.epochs, view.loss, quality_, view.train->value(), rate),
                    epoch / static_cast<double>(view.epochs));
  }

 private:
  struct {
    double seconds = 0;
    Index batch = 0;
  } begin_;
  std::string title_, quality_;
  Index batch_;
  double next_ = 0;
};

class First final : public TrainingEvents {
 public:
  explicit First(const std::function<void(Index)>& began) : began_(began) {}
  void before(TrainingEvent event, const TrainingView& view) override {
    if (event == TrainingEvent::training_set && !std::exchange(told_, true)) began_(view.step);
  }

 private:
  const std::function<void(Index)>& began_;
  bool told_ = false;
};

Json quality_json(const std::string& name, const Evaluation& evaluation) {
  Json result = {{"loss", evaluation.loss()}, {name, evaluation.value()}, {"samples", evaluation.samples()}};
  if (const auto share = evaluation.right_of()) result["right"] = share->first;
  result.update(evaluation.report());
  return result;
}

Json to_json(const TrainingResult& r, const std::string& quality) {
  Json curve = Json::array();
  for (const CurvePoint& p : r.curve)
    curve.push_back({{"epoch", p.epoch},
                     {"step", p.step},
                     {"seconds", p.seconds},
                     {"train_loss", p.loss},
                     {"train_" + quality, p.quality},
                     {"test_loss", p.test_loss},
                     {"test_" + quality, p.test_quality},
                     {"learning_rate", p.learning_rate}});
  const auto steps = static_cast<double>(std::max<Index>(1, r.timed.steps));
  Json result = {{"quality", quality},
                 {"stopped", r.stopped},
                 {"steps", r.steps},
                 {"samples", r.samples},
                 {"seconds", r.seconds},
                 {"test_seconds", r.test_seconds},
                 {"checkpoint_seconds", r.checkpoint_seconds},
                 {"curve", curve},
                 {"step",
                  {{"whole_s", r.times.whole / steps},
                   {"operators_s", r.times.operators / steps},
                   {"optimizer_s", r.times.optimizer / steps},
                   {"input_s", r.times.input / steps},
                   {"residual_s", r.times.residual() / steps}}},
                 {"timed", {{"steps", r.timed.steps}, {"samples", r.timed.samples}}},
                 {"step_block", r.means.block},
                 {"resumed_at_step", r.resumed_at}};
  if (r.waiting_known) result["step"]["waiting_s"] = r.times.waiting / steps;
  if (r.skipped.train + r.skipped.test > 0)
    result["skipped"] = {{"train", r.skipped.train}, {"test", r.skipped.test}, {"first", r.skipped.first}};
  if (r.seconds_to_target) {
    result["seconds_to_target"] = *r.seconds_to_target;
    result["epochs_to_target"] = *r.epochs_to_target;
  }
  return result;
}

// Bytes of a step by all ranks together, what the scheme measured, and where each rank's time went: the straggler is
// the one that computes longest. The step that is told of is that of the slowest rank: all wait for it in the end.
Json scheme_json(const std::string& name, const TrainingResult& result, Communicator& communicator, Json& slowest) {
  const auto steps = static_cast<double>(std::max<Index>(1, result.timed.steps));
  Json json = {{"name", name}};
  double sent = 0;
  for (const auto& [what, value] : result.scheme) {
    if (what == "sent_bytes")
      sent = value;
    else
      json[what] = value;
  }
  // What was sent before it was resumed nobody knows any more.
  const auto steps_here = static_cast<double>(std::max<Index>(1, result.steps - result.resumed_at));
  const StepTimes& times = result.times;
  const std::vector<double> mine{sent / steps_here,       times.operators / steps, times.input / steps,
                                 times.optimizer / steps, times.whole / steps,     times.waiting / steps};
  std::vector<double> all(mine.size() * static_cast<size_t>(communicator.size()));
  communicator.run({.collective = Collective::allgather,
                    .input = mine.data(),
                    .output = all.data(),
                    .count = static_cast<int64_t>(mine.size()),
                    .dtype = DType::f64});
  double sent_by_all = 0, longest = -1;
  for (size_t rank = 0; rank * mine.size() < all.size(); ++rank) {
    const double* const row = all.data() + rank * mine.size();
    sent_by_all += row[0];
    json["ranks"].push_back({{"sent_bytes", row[0]},
                             {"operators_s", row[1]},
                             {"input_s", row[2]},
                             {"optimizer_s", row[3]},
                             {"whole_s", row[4]}});
    if (row[4] > slowest.at("whole_s").get<double>()) {
      slowest.update({{"whole_s", row[4]}, {"operators_s", row[1]}, {"optimizer_s", row[3]}, {"input_s", row[2]}});
      slowest["residual_s"] = row[4] - row[1] - row[2] - row[3] - row[5];
      if (slowest.contains("waiting_s")) slowest["waiting_s"] = row[5];
    }
    if (row[1] + row[2] > longest) {
      longest = row[1] + row[2];
      json["straggler"] = rank;
    }
  }
  json["sent_bytes"] = sent_by_all;
  return json;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What ranks of one machine did with its cores: above four fifths they were in each other's way all the same.
void stamp_replayed(double cpu, bool by_processes, const TrainingResult& result, Communicator& communicator,
                    Json& details) {
  double used = cpu;  // of threads it is everyone's already
  if (by_processes)
    communicator.run(
        {.collective = Collective::allreduce, .input = &cpu, .output = &used, .count = 1, .dtype = DType::f64});
  const double share = used / (result.seconds * usable_cores());
  details["training"]["replayed"] = {{"cpu_share", share}, {"cpu_bound", share > 0.8}};
  details["warnings"].push_back(
      "replayed compute: the ranks slept as long as rank 0 alone had computed; loss and accuracy mean nothing");
  if (share > 0.8)
    details["warnings"].push_back(
        fmt::format("cpu-bound: communication alone kept {:.0f} % of {} cores busy", 100 * share, usable_cores()));
}

std::vector<std::unique_ptr<TrainingEvents>> listeners(const Json& fields, bool rank_0) {
  std::vector<std::unique_ptr<TrainingEvents>> result;
  const std::string names = fields.at("events");
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find('+', begin), names.size());
    const NamedValues given = parse_named_values(names.substr(begin, end - begin));
    Attributes values;
    for (const std::string& value : given.values)
      values.set(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
    const training_events::Entry& entry = registered<training_events>(given.name);
    if (rank_0 || entry.on_all_ranks) result.push_back(entry.make(values));
    begin = end + 1;
  }
  return result;
}

// By look, then by parameter, so that a figure is one row of each list.
Json to_json(const Trajectory& trajectory) {
  Json result = {{"folder", trajectory.folder()}, {"every", trajectory.every()}};
  if (trajectory.is_baseline()) return result;
  result["baseline"] = Json::parse(trajectory.baseline());
  result["parameters"] = trajectory.names();
  for (const char* name : {"steps", "all_l2", "all_linf", "baseline_l2", "l2", "linf"}) result[name] = Json::array();
  for (const TrajectoryPoint& point : trajectory.points()) {
    result["steps"].push_back(point.step);
    result["all_l2"].push_back(point.all.l2);
    result["all_linf"].push_back(point.all.linf);
    result["baseline_l2"].push_back(point.baseline_l2);
    Json l2 = Json::array(), linf = Json::array();
    for (const ParameterDistance& distance : point.parameters) {
      l2.push_back(distance.l2);
      linf.push_back(distance.linf);
    }
    result["l2"].push_back(l2);
    result["linf"].push_back(linf);
  }
  return result;
}

struct Run {
  const Json& fields;
  const TrainingCase& described;
  const Backend& backend;
  Communicator* communicator;  // null: one process
  const Trajectory* trajectory;
  TrainTrace* trace;
  const ResidentPeak& peak;
  Depth depth;
};

// One network or two: what is said of a training is the same.
Outcome trained(TrainingFrame& trainer, const Run& run) {
  const TrainingSettings& settings = run.described.settings;
  const std::string quality = registered<tasks>(settings.task).quality;
  Outcome outcome;
  Json& details = outcome.details;
  for (const auto& [name, value] : run.backend.facts()) details["backend"][name] = value;
  for (const auto& [name, value] : trainer.kernels()) details["kernels"][name] = value;
  details["optimizer"] = to_json(complete_optimizer_values(settings.optimizer));
  details["batches"] = trainer.batches();
  if (run.depth < Depth::measure) details["shortened"] = true;
  if (const std::string& why = run.described.data_note; !why.empty()) {
    details["fixture"] = why;
    details["warnings"].push_back(
        fmt::format("random samples stand in for the data ({}): how well they are learned "
                    "means nothing{}",
                    why, settings.stop.target != 0 ? "; the target is not reproduced here" : ""));
  }
  if (run.depth == Depth::build) return outcome;

  Json algorithm;
  if (run.communicator) algorithm = choose_algorithm(run.fields, trainer.parameters(), *run.communicator);
  if (algorithm.contains("table") && algorithm["table"] == "" && run.communicator->rank() == 0)
    details["warnings"].push_back(
        "the tuned algorithms could not be kept in the user's cache: one that is resumed may take others, which round "
        "otherwise");

  // Where there is a counter of energy, reading it twice costs nothing.
  Meters meters({.names = {run.fields.at("device") == "cpu" ? "energy" : "device_energy"}});
  meters.begin();
  const double cpu_before = cpu_seconds();
  const TrainingResult result = trainer.run();
  const double cpu = cpu_seconds() - cpu_before;
  Json clocks;
  if (run.trace) clocks = run.trace->write();
  if (result.resumed_at == 0) meters.end(result.samples);  // else the first part is not in it
  meters.report(details);
  details["training"] = to_json(result, quality);
  Json& training = details["training"];
  if (!clocks.is_null()) training["clocks"] = clocks;
  if (run.communicator) training["algorithm"] = algorithm;
  if (run.communicator) training["scheme"] = scheme_json(settings.scheme, result, *run.communicator, training["step"]);
  if (run.communicator && sends_by_library(algorithm)) {  // what that sends inside is not known
    training["scheme"]["sent_bytes"] = nullptr;
    for (Json& rank : training["scheme"]["ranks"]) rank["sent_bytes"] = nullptr;
  }
  if (run.communicator && run.fields.at("replay").get<bool>())
    stamp_replayed(cpu, run.fields.at("communicator") == "mpi", result, *run.communicator, details);
  if (!result.means.seconds.empty()) details["step_seconds"] = result.means.seconds;
  if (!result.means.samples.empty()) details["step_samples"] = result.means.samples;
  if (!run.described.resume_note.empty()) details["warnings"].push_back(run.described.resume_note);
  for (const std::string& warning : result.warnings) details["warnings"].push_back(warning);
  if (const auto& skipped = result.skipped; skipped.train + skipped.test > 0)
    details["warnings"].push_back(
        fmt::format("samples that could not be read: {} times in training, where others took their "
                    "places, and {} of the test; the first: {}",
                    skipped.train, skipped.test, skipped.first.empty() ? "another rank's" : skipped.first.front()));
  if (run.trajectory) training["trajectory"] = to_json(*run.trajectory);
  training["weights_hash"] = fmt::format("{:016x}", weights_hash(trainer.parameters()));
  details["memory"]["planned_bytes"] = trainer.bytes();
  if (const auto growth = run.peak.growth_bytes()) details["memory"]["peak_bytes"] = *growth;
  if (result.stopped == "diverged") {
    outcome.status = "failed";
    outcome.reason = result.reason;
    return outcome;
  }
  training["train"] = quality_json(quality, trainer.train_quality());
  training["test"] = quality_json(quality, trainer.test_quality());
  training["train"].erase("wrong");
  if (run.described.optimum)
    training["optimum"] = {{"value", *run.described.optimum}, {"why", run.described.optimum_why}};
  const bool tells = !run.communicator || run.communicator->rank() == 0;
  if (const std::string file = run.fields.at("export"); !file.empty() && run.depth == Depth::measure && tells) try {
      export_trained(run.fields, settings, trainer.parameters(), file);
    } catch (const std::exception& error) {  // what was learned is worth more than a file of it
      details["warnings"].push_back(fmt::format("--export {}: {}", file, error.what()));
    }
  return outcome;
}

std::unique_ptr<Backend> open_one(const std::string& name) {
  static std::mutex one_at_a_time;  // ranks are threads
  const std::scoped_lock lock(one_at_a_time);
  return open_backend(name);
}

class TrainSession final : public Session {
 public:
  explicit TrainSession(Json fields) : fields_(std::move(fields)) {}

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    set_threads(fields_.at("threads").get<int>());
    std::unique_ptr<Backend> tried;  // each rank opens its own
    if (auto off = open_backend_of(fields_, tried)) return *off;
    if (const auto why = why_no_optimizer(fields_)) return {.status = "unsupported", .reason = *why};
    if (const std::string file = fields_.at("export"); !file.empty() && depth == Depth::measure) check_export(file);
    if (depth < Depth::measure) shorten();
    return needs_ranks(fields_) ? train_by_ranks(fields_, depth) : run_training(fields_, depth, nullptr);
  }

  SliceResult run(const Slice&) override { throw Error("[train] a training runs once, in prepare"); }
  Outcome finish() override { return {}; }

 private:
  // A few steps on little data show that everything fits together.
  void shorten() {
    const Index parts = fields_["accumulate"].get<Index>() * fields_["ranks"].get<Index>();
    fields_["batch"] = std::min<Index>(fields_["batch"].get<Index>(), check_batch * parts);
    fields_["steps"] = check_steps;
    if (fields_["test_samples"].get<Index>() < 0) fields_["test_samples"] = check_tests;
    fields_["checkpoint"] = "";
    fields_["restarts"] = 0;
    fields_["trajectory"] = "";
    fields_["trace"] = "";
  }

  Json fields_;
};

}  // namespace

Outcome run_training(const Json& fields, Depth depth, Communicator* communicator,
                     const std::function<void(Index)>& began) {
  const bool tells = !communicator || communicator->rank() == 0;
  TrainingCase described = training_case(fields, depth < Depth::measure);
  TrainingSettings& settings = described.settings;
  if (communicator) set_communicator(settings, *communicator);
  std::unique_ptr<Backend> backend = open_one(fields.at("backend"));
  if (fields.at("replay").get<bool>()) backend = replayed_backend(std::move(backend), communicator);
  First first(began);
  if (began) settings.events.push_back(&first);
  std::optional<TrainTrace> trace;
  if (const std::string file = fields.at("trace"); !file.empty()) {
    const auto batches = static_cast<Index>(settings.train->data().size()) / (settings.batch * settings.ranks);
    const Index most = batches * settings.stop.epochs;
    trace.emplace(file, communicator, settings.stop.steps > 0 ? std::min(most, settings.stop.steps) : most);
    backend = trace->watched(std::move(backend));
    settings.events.push_back(&trace->events());
  }
  Teller teller(fields.at("network").get<std::string>(), registered<tasks>(settings.task).quality,
                batch_of_all_ranks(fields));
  TrainingEvents silent;  // every rank has a listener, or none
  settings.events.push_back(tells ? &teller : &silent);
  const std::vector<std::unique_ptr<TrainingEvents>> own = listeners(fields, tells);
  for (const auto& listener : own) settings.events.push_back(listener.get());
  std::unique_ptr<Trajectory> trajectory;
  if (const std::string folder = trajectory_folder(fields); !folder.empty() && tells) {
    trajectory = std::make_unique<Trajectory>(folder, fields.at("trajectory_every").get<Index>(),
                                              trajectory_runner(fields).dump());
    settings.events.push_back(trajectory.get());
  }
  const ResidentPeak peak;
  const Run run{fields, described, *backend, communicator, trajectory.get(), trace ? &*trace : nullptr, peak, depth};
  try {
    if (described.discriminator) {
      AdversarialTrainer trainer(settings, described.discriminator, *backend);
      return trained(trainer, run);
    }
    Trainer trainer(settings, *backend);
    return trained(trainer, run);
  } catch (const CannotRun& reason) {
    return {.status = "unsupported", .reason = reason.what()};
  }
}

std::unique_ptr<Session> open_train_session(const Json& fields) { return std::make_unique<TrainSession>(fields); }

}  // namespace d5
