// SPDX-License-Identifier: Apache-2.0
// Little trainings for tests: a few hundred generated images of 8 x 8 and a perceptron of one hidden layer.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <map>

#include "d5/datasets/generators.hpp"
#include "d5/networks/network.hpp"
#include "d5/training/trainer.hpp"

namespace d5 {

inline std::shared_ptr<const Augmented> little_images(const std::string& part, Index samples = 320,
                                                      std::vector<AugmentationStep> steps = {}) {
  Attributes values{{"size", samples},      {"classes", int64_t{4}}, {"channels", int64_t{1}},
                    {"height", int64_t{8}}, {"width", int64_t{8}},   {"strength", 8.0},
                    {"part", part}};
  steps.push_back({"normalise", {{"mean", std::vector<double>{0.5}}, {"deviation", std::vector<double>{0.25}}}});
  return std::make_shared<const Augmented>(generate("generated-images", values), steps, 1);
}

inline TrainingSettings little_training(const std::string& network = "mlp", Attributes values = {}) {
  TrainingSettings s;
  if (network == "mlp" && values.values().empty())
    values = {{"features", int64_t{64}}, {"width", int64_t{16}}, {"depth", int64_t{1}}, {"classes", int64_t{4}}};
  s.network = [network, values](Index samples, Mode mode) {
    return build_network(network, values, samples, DType::f32, mode);
  };
  s.train = little_images("train");
  s.test = little_images("test", 100);
  s.batch = 32;
  s.optimizer = {"momentum", {{"learning_rate", 0.05}}};
  s.stop.epochs = 2;
  return s;
}

// Events that began and did not end.
class OpenEvents final : public TrainingEvents {
 public:
  void before(TrainingEvent event, const TrainingView&) override { ++open_[name(event)]; }
  void after(TrainingEvent event, const TrainingView&) override {
    if (--open_[name(event)] == 0) open_.erase(name(event));
  }
  const std::map<std::string, int>& left() const { return open_; }

 private:
  std::map<std::string, int> open_;
};

// A folder of its own, gone with it.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / fmt::format("d5-{}-{}", name, getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace d5
