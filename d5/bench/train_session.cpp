// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_session.hpp"

#include <cmath>

#include "d5/bench/meters.hpp"
#include "d5/bench/progress.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/core/parallel.hpp"
#include "d5/datasets/views.hpp"
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
  const auto steps = static_cast<double>(std::max<Index>(1, r.steps));
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
                 {"step_block", r.step_block},
                 {"resumed_at_step", r.resumed_at}};
  if (r.seconds_to_target) {
    result["seconds_to_target"] = *r.seconds_to_target;
    result["epochs_to_target"] = *r.epochs_to_target;
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

class TrainSession final : public Session {
 public:
  explicit TrainSession(Json fields) : fields_(std::move(fields)) {}

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    set_threads(fields_.at("threads").get<int>());
    try {
      backend_ = open_backend(fields_.at("backend").get<std::string>());
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      return {.status = "unsupported", .reason = error.what()};
    }
    if (depth < Depth::measure) shorten();
    TrainingCase described = training_case(fields_, depth < Depth::measure);
    TrainingSettings& settings = described.settings;
    const std::string quality = registered<tasks>(settings.task).quality;
    Teller teller(fields_.at("network").get<std::string>(), quality, settings.batch);
    settings.events.push_back(&teller);
    std::vector<std::unique_ptr<TrainingEvents>> own = listeners();
    for (const auto& listener : own) settings.events.push_back(listener.get());
    std::unique_ptr<Trajectory> trajectory;
    if (const std::string folder = trajectory_folder(fields_); !folder.empty()) {
      trajectory = std::make_unique<Trajectory>(folder, fields_.at("trajectory_every").get<Index>(),
                                                trajectory_runner(fields_).dump());
      settings.events.push_back(trajectory.get());
    }

    peak_.emplace();
    try {
      if (described.discriminator) {
        AdversarialTrainer trainer(settings, described.discriminator, *backend_);
        return trained(trainer, described, trajectory.get(), depth);
      }
      Trainer trainer(settings, *backend_);
      return trained(trainer, described, trajectory.get(), depth);
    } catch (const CannotRun& reason) {
      return {.status = "unsupported", .reason = reason.what()};
    }
  }

  SliceResult run(const Slice&) override { throw Error("[train] a training runs once, in prepare"); }
  Outcome finish() override { return {}; }

 private:
  // One network or two: what is said of a training is the same.
  template <class Training>
  Outcome trained(Training& trainer, const TrainingCase& described, const Trajectory* trajectory, Depth depth) {
    const TrainingSettings& settings = described.settings;
    const std::string quality = registered<tasks>(settings.task).quality;
    Outcome outcome;
    Json& details = outcome.details;
    for (const auto& [name, value] : backend_->facts()) details["backend"][name] = value;
    for (const auto& [name, value] : trainer.kernels()) details["kernels"][name] = value;
    details["optimizer"] = to_json(complete_optimizer_values(settings.optimizer));
    details["batches"] = trainer.batches();
    if (!described.data_note.empty()) details["fixture"] = described.data_note;
    if (depth == Depth::build) return outcome;

    // Where there is a counter of energy, reading it twice costs nothing.
    Meters meters({.names = {fields_.at("device") == "cpu" ? "energy" : "device_energy"}});
    meters.begin();
    const TrainingResult result = trainer.run();
    if (result.resumed_at == 0) meters.end(result.samples);  // else the first part is not in it
    meters.report(details);
    details["training"] = to_json(result, quality);
    Json& training = details["training"];
    for (const double seconds : result.step_seconds) details["step_seconds"].push_back(seconds);
    for (const std::string& warning : result.warnings) details["warnings"].push_back(warning);
    if (trajectory) training["trajectory"] = to_json(*trajectory);
    training["weights_hash"] = fmt::format("{:016x}", weights_hash(trainer.parameters()));
    details["memory"]["planned_bytes"] = trainer.bytes();
    if (const auto growth = peak_->growth_bytes()) details["memory"]["peak_bytes"] = *growth;
    if (result.stopped == "diverged") {
      outcome.status = "failed";
      outcome.reason = result.reason;
      return outcome;
    }
    training["train"] = quality_json(quality, trainer.train_quality());
    training["test"] = quality_json(quality, trainer.test_quality());
    training["train"].erase("wrong");
    if (described.optimum) training["optimum"] = {{"value", *described.optimum}, {"why", described.optimum_why}};
    if (const std::string file = fields_.at("export"); !file.empty() && depth == Depth::measure)
      export_trained(fields_, settings, trainer.parameters(), file);
    return outcome;
  }

  // A few steps on little data show that everything fits together.
  void shorten() {
    fields_["batch"] = std::min<Index>(fields_["batch"].get<Index>(), check_batch * fields_["accumulate"].get<Index>());
    fields_["steps"] = check_steps;
    if (fields_["test_samples"].get<Index>() < 0) fields_["test_samples"] = check_tests;
    fields_["checkpoint"] = "";
    fields_["trajectory"] = "";
  }

  std::vector<std::unique_ptr<TrainingEvents>> listeners() const {
    std::vector<std::unique_ptr<TrainingEvents>> result;
    const std::string names = fields_.at("events");
    for (size_t begin = 0; begin < names.size();) {
      const size_t end = std::min(names.find('+', begin), names.size());
      const NamedValues given = parse_named_values(names.substr(begin, end - begin));
      Attributes values;
      for (const std::string& value : given.values)
        values.set(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
      result.push_back(registered<training_events>(given.name).make(values));
      begin = end + 1;
    }
    return result;
  }

  Json fields_;
  std::unique_ptr<Backend> backend_;
  std::optional<ResidentPeak> peak_;
};

}  // namespace

std::unique_ptr<Session> open_train_session(const Json& fields) { return std::make_unique<TrainSession>(fields); }

}  // namespace d5
