// SPDX-License-Identifier: Apache-2.0
// Little trainings whose ranks are threads, on a network with dropout and without batch normalisation.
#pragma once

#include <mutex>

#include "../training/fixture.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/distributed/rank_scheme.hpp"
#include "d5/networks/builder.hpp"
#include "d5/networks/form.hpp"

namespace d5 {

inline Graph perceptron_with_dropout(Index samples, Mode mode) {
  Builder b("perceptron", samples, DType::f32);
  Edge x = b.input("features", {64});
  x = b.relu("relu", b.linear("hidden", x, 16));
  x = b.dropout("dropout", x, 0.25);
  x = b.linear("classifier", x, 4, "lecun");
  Graph graph = b.finish({{"scores", x}});
  return mode == Mode::training ? training_form(std::move(graph)) : inference_form(std::move(graph));
}

inline TrainingSettings settings_with_dropout() {
  TrainingSettings s = little_training();
  s.network = perceptron_with_dropout;
  s.loader_threads = 0;
  s.train = little_images("train", 104);  // of 32: three batches and a short one
  s.optimizer = {"sgd", {{"learning_rate", 0.01}}};
  s.stop.epochs = 3;
  return s;
}

struct Trained {
  std::vector<std::vector<float>> weights;  // by rank
  std::vector<TrainingResult> results;
  std::vector<size_t> bytes;  // of memory
  Index elements = 0;         // of the arena
  double number(const std::string& name, size_t rank = 0) const {
    for (const auto& [key, value] : results[rank].scheme)
      if (key == name) return value;
    return -1;
  }
};

struct On {
  int ranks = 2, per_node = 0;
  std::string scheme = "dsgd";
  Attributes values = {};
  std::string algorithm = {};  // of all-reduce; empty: by size
  std::function<void(int rank, TrainingSettings&)> change = {};
};

inline std::vector<float> weights_of(const ParameterSet& set) {
  std::vector<float> all;
  for (const auto& [name, value] : canonical_parameters(set)) {
    const auto values = value.values<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// `settings.batch` is that of all ranks together.
inline Trained train(const TrainingSettings& settings, const On& on) {
  Trained trained;
  trained.weights.resize(static_cast<size_t>(on.ranks));
  trained.results.resize(static_cast<size_t>(on.ranks));
  trained.bytes.resize(static_cast<size_t>(on.ranks));
  std::mutex opening;
  run_ranks({.ranks = on.ranks, .per_node = on.per_node, .time_limit_s = 60}, [&](Communicator& communicator) {
    TrainingSettings own = settings;
    own.batch = settings.batch / on.ranks;
    own.scheme = on.scheme;
    own.scheme_values = on.values;
    set_communicator(own, communicator);
    if (!on.algorithm.empty()) communicator.choose(Collective::allreduce, {{0, on.algorithm}});
    if (on.change) on.change(communicator.rank(), own);
    std::unique_ptr<Backend> backend;
    {
      const std::scoped_lock lock(opening);
      backend = open_backend("reference");
    }
    Trainer trainer(own, *backend);
    const auto rank = static_cast<size_t>(communicator.rank());
    trained.results[rank] = trainer.run();
    trained.weights[rank] = weights_of(trainer.parameters());
    trained.bytes[rank] = trainer.bytes();
    if (rank == 0) trained.elements = trainer.parameters().elements();
  });
  return trained;
}

inline Trained train_alone(const TrainingSettings& settings) {
  const auto backend = open_backend("reference");
  Trainer trainer(settings, *backend);
  Trained trained;
  trained.results.push_back(trainer.run());
  trained.weights.push_back(weights_of(trainer.parameters()));
  return trained;
}

}  // namespace d5
