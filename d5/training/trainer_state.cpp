// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds of a training, and how it goes on from there.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "d5/measure/clock.hpp"
#include "d5/training/trainer_work.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

Json to_json(const CurvePoint& p) {
  return {p.epoch, p.step, p.seconds, p.loss, p.quality, p.test_loss, p.test_quality, p.learning_rate};
}

CurvePoint point_from(const Json& p) {
  return {p.at(0), p.at(1), p.at(2), p.at(3), p.at(4), p.at(5), p.at(6), p.at(7)};
}

// One field of a run that a checkpoint was not made with.
void check_identity(const std::string& file, const Json& saved, const Json& now) {
  for (const auto& [name, value] : now.items())
    if (const auto found = saved.find(name); found == saved.end() || *found != value)
      throw UsageError("[checkpoint] {} is of another training: {} is {} there and {} here", file, name,
                       found == saved.end() ? "unknown" : found->dump(), value.dump());
}

Tensor doubles(std::vector<double>& values) {
  return Tensor::view(DType::f64, {static_cast<Index>(values.size())}, values.data());
}

}  // namespace

std::string Trainer::Work::about() const {
  const TrainingResult& r = result_;
  const std::string& identity = settings_.checkpoint.identity;
  // What ended by its time or its steps can go on.
  const bool over = r.stopped == "epochs" || r.stopped == "target" || r.stopped == "plateau";
  Json about = {{"identity", identity.empty() ? Json::object() : Json::parse(identity)},
                {"layout_hash", fmt::format("{:016x}", set_.layout_hash())},
                {"seed", settings_.seed},
                {"epoch", epoch_},
                {"batch", batch_},
                {"step", step_},
                {"samples", r.samples},
                {"seconds", elapsed()},
                {"test_seconds", r.test_seconds},
                {"checkpoint_seconds", r.checkpoint_seconds},
                {"times", {r.times.whole, r.times.input, r.times.operators, r.times.optimizer}},
                {"step_block", r.step_block},
                {"stopped", over ? r.stopped : ""},
                {"curve", Json::array()},
                {"qualities", qualities_}};
  for (const CurvePoint& point : r.curve) about["curve"].push_back(to_json(point));
  if (r.seconds_to_target) about["to_target"] = {*r.seconds_to_target, *r.epochs_to_target};
  return about.dump();
}

void Trainer::Work::save() {
  const double begin = now_seconds();
  NamedTensors tensors;
  for (auto& [name, value] : canonical_parameters(set_)) tensors.emplace_back("parameter " + name, value);
  for (const Optimizer::State& state : optimizer_->state()) {
    if (!state.like_parameters) {
      tensors.emplace_back("optimizer " + state.name, state.values);
      continue;
    }
    for (const ParameterSet::Parameter& p : set_.parameters())
      tensors.emplace_back(fmt::format("optimizer {} of {}", state.name, p.name),
                           canonical_part(set_, state.values, p));
  }
  for (const auto& [name, value] : scheme_->state()) tensors.emplace_back("scheme " + name, value);
  tensors.emplace_back("quality of the epoch", doubles(train_->sums()));
  if (!result_.step_seconds.empty()) tensors.emplace_back("seconds of steps", doubles(result_.step_seconds));
  try {
    write_checkpoint(settings_.checkpoint.file, about(), tensors);
  } catch (const Error& error) {  // hours of work are worth more than a way to repeat them
    const std::string warning = fmt::format("step {}: {}; the last good one stays", step_, error.what());
    if (result_.warnings.size() < 20) result_.warnings.push_back(warning);
  }
  result_.checkpoint_seconds += now_seconds() - begin;
}

void Trainer::Work::load() {
  const std::string& file = settings_.checkpoint.file;
  if (access(file.c_str(), F_OK) != 0) return;
  const Checkpoint saved = read_checkpoint(file);
  try {
    const Json about = Json::parse(saved.about);
    const std::string& identity = settings_.checkpoint.identity;
    check_identity(file, about.at("identity"), identity.empty() ? Json::object() : Json::parse(identity));
    for (const ParameterSet::Parameter& p : set_.parameters())
      set_parameter(set_, p.name, saved.at("parameter " + p.name));
    for (const Optimizer::State& state : optimizer_->state()) {
      if (!state.like_parameters) {
        state.values.copy_from(saved.at("optimizer " + state.name));
        continue;
      }
      for (const ParameterSet::Parameter& p : set_.parameters())
        set_canonical_part(set_, state.values, p, saved.at(fmt::format("optimizer {} of {}", state.name, p.name)));
    }
    for (const auto& [name, value] : scheme_->state()) value.copy_from(saved.at("scheme " + name));
    doubles(train_->sums()).copy_from(saved.at("quality of the epoch"));
    TrainingResult& r = result_;
    epoch_ = about.at("epoch");
    batch_ = about.at("batch");
    r.resumed_at = step_ = about.at("step");
    r.samples = about.at("samples");
    seconds_before_ = about.at("seconds");
    r.test_seconds = about.at("test_seconds");
    r.checkpoint_seconds = about.at("checkpoint_seconds");
    const Json& times = about.at("times");
    r.times = {times.at(0), times.at(1), times.at(2), times.at(3)};
    r.step_block = about.at("step_block");
    if (step_ >= r.step_block) {
      const auto seconds = saved.at("seconds of steps").values<double>();
      r.step_seconds.assign(seconds.begin(), seconds.end());
    }
    r.stopped = about.at("stopped");
    for (const Json& point : about.at("curve")) r.curve.push_back(point_from(point));
    qualities_ = about.at("qualities").get<std::vector<double>>();
    if (const auto reached = about.find("to_target"); reached != about.end()) {
      r.seconds_to_target = reached->at(0);
      r.epochs_to_target = reached->at(1);
    }
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw Error("[checkpoint] {} does not fit this training: {}", file, error.what());
  } catch (const Json::exception& error) {
    throw Error("[checkpoint] {} is damaged: {}", file, error.what());
  }
}

}  // namespace d5
