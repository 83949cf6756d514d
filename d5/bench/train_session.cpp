// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_session.hpp"

#include <cmath>
#include <mutex>

#include "d5/bench/fields.hpp"
#include "d5/bench/progress.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/bench/train_ranks.hpp"
#include "d5/core/parallel.hpp"
#include "d5/datasets/views.hpp"
#include "d5/distributed/rank_scheme.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/resident_memory.hpp"
#include "d5/networks/loss.hpp"

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

// Bytes of a step by all ranks together, what the scheme measured, and where each rank's time went: the straggler is
// the one that computes longest.
Json scheme_json(const std::string& name, const TrainingResult& result, Communicator& communicator) {
  const auto steps = static_cast<double>(std::max<Index>(1, result.steps));
  Json json = {{"name", name}};
  double sent = 0;
  for (const auto& [what, value] : result.scheme) {
    if (what == "sent_bytes")
      sent = value;
    else
      json[what] = value;
  }
  const std::vector<double> mine{sent / steps, result.times.operators / steps, result.times.input / steps,
                                 result.times.optimizer / steps};
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
    json["ranks"].push_back(
        {{"sent_bytes", row[0]}, {"operators_s", row[1]}, {"input_s", row[2]}, {"optimizer_s", row[3]}});
    if (row[1] + row[2] > longest) {
      longest = row[1] + row[2];
      json["straggler"] = rank;
    }
  }
  json["sent_bytes"] = sent_by_all;
  return json;
}

std::vector<std::unique_ptr<TrainingEvents>> listeners(const Json& fields) {
  std::vector<std::unique_ptr<TrainingEvents>> result;
  const std::string names = fields.at("events");
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
    if (depth < Depth::measure) shorten();
    return scheme_of(fields_).name == "single" ? run_training(fields_, depth, nullptr) : train_by_ranks(fields_, depth);
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
  }

  Json fields_;
};

}  // namespace

Outcome run_training(const Json& fields, Depth depth, Communicator* communicator) {
  const bool tells = !communicator || communicator->rank() == 0;
  TrainingCase described = training_case(fields, depth < Depth::measure);
  TrainingSettings& settings = described.settings;
  if (communicator) set_communicator(settings, *communicator);
  const std::unique_ptr<Backend> backend = open_one(fields.at("backend"));
  const std::string quality = registered<tasks>(settings.task).quality;
  Teller teller(fields.at("network").get<std::string>(), quality, batch_of_all_ranks(fields));
  TrainingEvents silent;  // every rank has a listener, or none
  settings.events.push_back(tells ? &teller : &silent);
  std::vector<std::unique_ptr<TrainingEvents>> own;
  if (tells) own = listeners(fields);
  for (const auto& listener : own) settings.events.push_back(listener.get());

  Outcome outcome;
  Json& details = outcome.details;
  const ResidentPeak peak;
  std::unique_ptr<Trainer> trainer;
  try {
    trainer = std::make_unique<Trainer>(settings, *backend);
  } catch (const CannotRun& reason) {
    return {.status = "unsupported", .reason = reason.what()};
  }
  for (const auto& [name, value] : backend->facts()) details["backend"][name] = value;
  for (const auto& [name, value] : trainer->kernels()) details["kernels"][name] = value;
  details["optimizer"] = to_json(complete_optimizer_values(settings.optimizer));
  details["batches"] = trainer->batches();
  if (!described.data_note.empty()) details["fixture"] = described.data_note;
  if (depth == Depth::build) return outcome;

  const TrainingResult result = trainer->run();
  details["training"] = to_json(result, quality);
  Json& training = details["training"];
  training["samples"] = result.samples * settings.ranks;
  if (communicator) training["scheme"] = scheme_json(settings.scheme, result, *communicator);
  for (const double seconds : result.step_seconds) details["step_seconds"].push_back(seconds);
  for (const std::string& warning : result.warnings) details["warnings"].push_back(warning);
  training["weights_hash"] = fmt::format("{:016x}", weights_hash(trainer->parameters()));
  details["memory"]["planned_bytes"] = trainer->bytes();
  if (const auto growth = peak.growth_bytes()) details["memory"]["peak_bytes"] = *growth;
  if (result.stopped == "diverged") {
    outcome.status = "failed";
    outcome.reason = result.reason;
    return outcome;
  }
  training["train"] = quality_json(quality, trainer->train_quality());
  training["test"] = quality_json(quality, trainer->test_quality());
  training["train"].erase("wrong");
  if (described.optimum) training["optimum"] = {{"value", *described.optimum}, {"why", described.optimum_why}};
  if (const std::string file = fields.at("export"); !file.empty() && depth == Depth::measure && tells)
    export_trained(fields, settings, trainer->parameters(), file);
  return outcome;
}

std::unique_ptr<Session> open_train_session(const Json& fields) { return std::make_unique<TrainSession>(fields); }

}  // namespace d5
