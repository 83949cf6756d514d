// SPDX-License-Identifier: Apache-2.0
#include "d5/training/saved_training.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "d5/datasets/byte_pixels.hpp"
#include "d5/measure/clock.hpp"
#include "d5/training/checkpoint_parts.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

Json to_json(const CurvePoint& p) {
  return {p.epoch, p.step, p.seconds, p.loss, p.quality, p.test_loss, p.test_quality, p.learning_rate};
}

// JSON has no number that is not finite: it is written as null.
double number_from(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

CurvePoint point_from(const Json& p) {
  return {
      p.at(0), p.at(1), p.at(2), number_from(p.at(3)), number_from(p.at(4)), number_from(p.at(5)), number_from(p.at(6)),
      p.at(7)};
}

Json identity_of(const TrainingSettings& settings) {
  const std::string& identity = settings.checkpoint.identity;
  return identity.empty() ? Json::object() : Json::parse(identity);
}

// "seed (1 there, 2 here)": in what a checkpoint is of another run.
std::vector<std::string> differing_fields(const Json& saved, const Json& now) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : now.items())
    if (const auto found = saved.find(name); found == saved.end() || *found != value)
      differences.push_back(
          fmt::format("{} ({} there, {} here)", name, found == saved.end() ? "unknown" : found->dump(), value.dump()));
  return differences;
}

// One field of a run that a checkpoint was not made with.
void check_identity(const std::string& file, const Json& saved, const Json& now) {
  for (const auto& [name, value] : now.items())
    if (const auto found = saved.find(name); found == saved.end() || *found != value)
      throw UsageError("[checkpoint] {} is of another training: {} is {} there and {} here", file, name,
                       found == saved.end() ? "unknown" : found->dump(), value.dump());
}

std::string about(const TrainingSettings& settings, const SavedPosition& at, uint64_t layout_hash,
                  const TrainingResult& r) {
  // What ended by its time or its steps can go on.
  const bool over = r.stopped == "epochs" || r.stopped == "target" || r.stopped == "plateau";
  Json about = {{"identity", identity_of(settings)},
                {"layout_hash", fmt::format("{:016x}", layout_hash)},
                {"byte_pixels", gives_byte_pixels(settings.test->data())},
                {"seed", settings.seed},
                {"epoch", at.epoch},
                {"batch", at.batch},
                {"step", at.step},
                {"first", at.first},
                {"micro_batch", at.micro_batch},
                {"ranks", settings.ranks},
                {"samples", r.samples},
                {"seconds", at.seconds},
                {"test_seconds", r.test_seconds},
                {"checkpoint_seconds", r.checkpoint_seconds},
                {"times", {r.times.whole, r.times.input, r.times.operators, r.times.optimizer, r.times.waiting}},
                {"timed", {r.timed.steps, r.timed.samples}},
                {"step_block", r.means.block},
                {"step_means", !r.means.seconds.empty()},
                {"stopped", over ? r.stopped : ""},
                {"curve", Json::array()},
                {"qualities", at.qualities}};
  for (const CurvePoint& point : r.curve) about["curve"].push_back(to_json(point));
  if (r.seconds_to_target) about["to_target"] = {*r.seconds_to_target, *r.epochs_to_target};
  return about.dump();
}

void read_about(const Json& about, const Checkpoint& saved, SavedPosition& at, TrainingResult& r) {
  const Index micro_batch = about.value("micro_batch", at.micro_batch);
  at.epoch = about.at("epoch");
  at.batch = about.at("batch");
  at.first = about.value("first", Index{0});
  if (micro_batch != at.micro_batch) {  // batches are others from here on
    at.first += at.batch * micro_batch;
    at.batch = 0;
  }
  r.resumed_at = at.step = about.at("step");
  at.seconds = about.at("seconds");
  for (const Json& quality : about.at("qualities")) at.qualities.push_back(number_from(quality));
  r.samples = about.at("samples");
  r.test_seconds = about.at("test_seconds");
  r.checkpoint_seconds = about.at("checkpoint_seconds");
  const Json& times = about.at("times");
  if (const auto timed = about.find("timed"); timed != about.end()) {  // older files say nothing of samples
    r.times = {times.at(0), times.at(1), times.at(2), times.at(3), times.at(4)};
    r.timed = {timed->at(0), timed->at(1)};
    r.means.block = about.at("step_block");
    if (about.at("step_means").get<bool>()) {
      const auto values = saved.at("seconds of steps").values<double>();
      const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      r.means.seconds.assign(values.begin(), half);
      r.means.samples.assign(half, values.end());
    }
  }
  r.stopped = about.at("stopped");
  for (const Json& point : about.at("curve")) r.curve.push_back(point_from(point));
  if (const auto reached = about.find("to_target"); reached != about.end()) {
    r.seconds_to_target = reached->at(0);
    r.epochs_to_target = reached->at(1);
  }
}

}  // namespace

Tensor as_section(std::vector<double>& values) {
  return Tensor::view(DType::f64, {static_cast<Index>(values.size())}, values.data());
}

void save_training(const TrainingSettings& settings, const SavedPosition& at, uint64_t layout_hash,
                   NamedTensors tensors, TrainingResult& result, const SumOverRanks& sum) {
  const double begin = now_seconds();
  std::vector<double> means = result.means.seconds;  // then samples
  means.insert(means.end(), result.means.samples.begin(), result.means.samples.end());
  if (!means.empty()) tensors.emplace_back("seconds of steps", as_section(means));
  const std::string text = about(settings, at, layout_hash, result);
  std::string why_not;
  if (settings.ranks > 1) {
    why_not = write_parts(settings.checkpoint.file, text, tensors, {settings.rank, settings.ranks, sum});
  } else {
    try {
      write_checkpoint(settings.checkpoint.file, text, tensors);
    } catch (const Error& error) {
      why_not = error.what();
    }
  }
  if (!why_not.empty() && result.warnings.size() < 20) {
    const bool one_stays = access(settings.checkpoint.file.c_str(), F_OK) == 0;
    result.warnings.push_back(fmt::format("step {}: {}; {}", at.step, why_not,
                                          one_stays ? "the last good one stays" : "there is none so far"));
  }
  result.checkpoint_seconds += now_seconds() - begin;
}

bool load_training(const TrainingSettings& settings, SavedPosition& at, TrainingResult& result,
                   const std::function<void(const Checkpoint&)>& restore) {
  const auto& places = settings.checkpoint;
  const std::string& file = access(places.file.c_str(), F_OK) == 0 ? places.file : places.from;
  if (file.empty() || access(file.c_str(), F_OK) != 0) return false;
  Checkpoint saved = read_checkpoint(file);
  try {
    check_identity(file, Json::parse(saved.about).at("identity"), identity_of(settings));
    read_parts(file, saved, settings.rank, settings.ranks);
    const Json about = Json::parse(saved.about);
    restore(saved);
    read_about(about, saved, at, result);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw Error("[checkpoint] {} does not fit this training: {}", file, error.what());
  } catch (const Json::exception& error) {
    throw Error("[checkpoint] {} is damaged: {}", file, error.what());
  }
  return true;
}

std::string why_not_resumed(const TrainingSettings& settings) {
  const auto& places = settings.checkpoint;
  const std::string folder = std::filesystem::path(places.file).parent_path().string();
  const Json now = identity_of(settings);
  std::string nearest;
  std::vector<std::string> differences;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, none)) {
    if (entry.path().extension() != ".d5c") continue;
    std::vector<std::string> apart;
    try {
      apart = differing_fields(Json::parse(read_checkpoint_about(entry.path().string())).at("identity"), now);
    } catch (const std::exception&) {  // no checkpoint, or a damaged one
      continue;
    }
    if (!nearest.empty() && apart.size() >= differences.size()) continue;
    nearest = entry.path().filename().string();
    differences = std::move(apart);
  }
  if (nearest.empty()) return {};
  if (differences.size() == 1 && differences.front().starts_with("seed (")) return {};  // another case of the same run
  return fmt::format("began anew: there is no checkpoint of this case in {}; {} differs in {}",
                     folder.empty() ? "." : folder, nearest,
                     differences.empty() ? "its number of ranks" : fmt::format("{}", fmt::join(differences, ", ")));
}

NamedTensors saved_network(const std::string& prefix, const ParameterSet& set,
                           const std::vector<Optimizer::State>& states) {
  NamedTensors tensors;
  for (auto& [name, value] : canonical_parameters(set)) tensors.emplace_back(prefix + "parameter " + name, value);
  for (const Optimizer::State& state : states) {
    if (!state.like_parameters) {
      tensors.emplace_back(prefix + "optimizer " + state.name, state.values);
      continue;
    }
    for (const ParameterSet::Parameter& p : set.parameters())
      tensors.emplace_back(fmt::format("{}optimizer {} of {}", prefix, state.name, p.name),
                           canonical_part(set, state.values, p));
  }
  return tensors;
}

void restore_network(const Checkpoint& saved, const std::string& prefix, ParameterSet& set, Optimizer& optimizer) {
  for (const ParameterSet::Parameter& p : set.parameters())
    set_parameter(set, p.name, saved.at(prefix + "parameter " + p.name));
  for (const Optimizer::State& state : optimizer.state()) {
    if (!state.like_parameters) {
      state.values.copy_from(saved.at(prefix + "optimizer " + state.name));
      continue;
    }
    const bool is_whole = state.values.elements() == set.elements();
    const Tensor arena = is_whole ? state.values : Tensor(DType::f32, {set.elements()});
    if (!is_whole) arena.fill_bytes(0);
    for (const ParameterSet::Parameter& p : set.parameters())
      set_canonical_part(set, arena, p, saved.at(fmt::format("{}optimizer {} of {}", prefix, state.name, p.name)));
    if (!is_whole) state.values.copy_from(arena.slice(state.first, state.values.elements()));
  }
}

}  // namespace d5
