// SPDX-License-Identifier: Apache-2.0
// Training where parameters lie on a device: on every CUDA device's kind that is there, and always on the host's memory
// behind the interface of a device's, which the host reaches by copies alone.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "d5/graph/graph.hpp"
#include "d5/training/device_loop.hpp"
#include "d5/training/optimizer.hpp"
#include "fixture.hpp"
#include "parameters.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

class DeviceTraining : public testing::Test {
 protected:
  void SetUp() override {
    setenv("D5_TORCH_HOST_AS_DEVICE", "1", 1);
    try {
      torch_ = open_backend("torch");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    devices_ = {"cpu"};
    for (const auto& [name, value] : torch_->facts())
      if (name == "cuda" && !value.starts_with("none")) devices_.push_back("cuda");
  }
  void TearDown() override { unsetenv("D5_TORCH_HOST_AS_DEVICE"); }

  std::unique_ptr<Backend> torch_;
  std::vector<std::string> devices_;
};

// odd_parameters(), with one between them that is not trained or without it: in one piece.
ParameterSet parameters_in(Memory& memory, DType compute = DType::f32, bool in_one_piece = false) {
  ParameterSet set(compute, memory);
  const ParameterSet shapes = odd_parameters();
  for (const ParameterSet::Parameter& p : shapes.parameters()) {
    set.add({.name = p.name, .spec = {compute, p.spec.shape}});
    if (p.name == "fc.weight" && !in_one_piece)
      set.add({.name = "fc.mean", .spec = {compute, {21}}, .trainable = false});
  }
  set.freeze();
  for (const ParameterSet::Parameter& p : set.parameters()) {
    const Tensor values(DType::f32, {p.padded_elements});
    fill_uniform(values, Rng(1, stream_of(p.name)), -1, 1);
    set.master(p.name).copy_from(values);
  }
  return set;
}

std::vector<float> on_host(const Tensor& t) {
  const Tensor here = t.to(host_memory());
  const auto values = here.values<float>();
  return {values.begin(), values.end()};
}

struct Moved {
  std::vector<float> all;  // parameters, then states
  double largest_step = 0, largest = 0;
};

Moved moved(const OptimizerSettings& settings, Memory& memory, Index steps, bool in_one_piece = false) {
  ParameterSet set = parameters_in(memory, DType::f32, in_one_piece);
  const auto optimizer = make_optimizer(settings, set);
  Moved result;
  result.all = on_host(set.masters(set.all()));
  for (Index step = 1; step <= steps; ++step) {
    const std::vector<float> before = result.all;
    for (const ParameterSet::Parameter& p : set.parameters()) {
      const Tensor gradient(DType::f32, {p.padded_elements});
      fill_normal(gradient, Rng(static_cast<uint64_t>(step) + 2, stream_of(p.name)), 0, 1);
      set.gradient(p.name).copy_from(gradient);
    }
    optimizer->new_input({.step = step, .rate_factor = 1.0 / static_cast<double>(step), .gradient_factor = 0.5});
    optimizer->prepare();
    optimizer->update(set.all());
    result.all = on_host(set.masters(set.all()));
    for (size_t i = 0; i < before.size(); ++i) {
      result.largest = std::max(result.largest, std::fabs(static_cast<double>(before[i])));
      result.largest_step = std::max(result.largest_step, std::fabs(static_cast<double>(result.all[i]) - before[i]));
    }
  }
  for (const Optimizer::State& state : optimizer->state())
    if (state.like_parameters) {
      const std::vector<float> values = on_host(state.values);
      result.all.insert(result.all.end(), values.begin(), values.end());
    }
  return result;
}

double apart(const Moved& a, const Moved& b) {
  double most = 0;
  for (size_t i = 0; i < a.all.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(a.all[i]) - b.all[i]) /
                              std::max({1.0, a.largest, std::fabs(static_cast<double>(a.all[i]))}));
  return most;
}

// Every operation is rounded for itself on both sides. Norms are sums of doubles in another order: the factor that they
// become may be another f32, so what is made of it in three steps may differ by a few roundings. So may what is made of
// a root on the CPU, where LibTorch's is no correctly rounded one (MKL's, within one unit).
// What the driver says of memory of the host: 0 where it is page-locked.
int page_lock_status(void* pointer) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto flags = reinterpret_cast<int (*)(unsigned*, void*)>(dlsym(driver, "cuMemHostGetFlags"));
  unsigned found = 0;
  return flags ? flags(&found, pointer) : -1;
}

TEST_F(DeviceTraining, BatchesForAGpuAreMadeInPageLockedMemory) {
  EXPECT_EQ(&torch_->staging_memory("cpu"), &host_memory());
  for (const std::string& device : devices_) {
    Memory& staging = torch_->staging_memory(device);
    EXPECT_TRUE(staging.is_host());
    const Tensor batch(DType::f32, {64, 100}, staging);
    fill_uniform(batch, Rng(1, 1), -1, 1);
    const Tensor there = batch.to(torch_->memory(device));
    EXPECT_EQ(on_host(there), on_host(batch));
    if (device != "cpu") {
      EXPECT_EQ(page_lock_status(batch.data()), 0);
      EXPECT_NE(page_lock_status(Tensor(DType::f32, {64, 100}).data()), 0);
    }
  }
}

TEST_F(DeviceTraining, FormulasGiveTheBitsOfTheHost) {
  const std::vector<std::string> with_norms{"accelegrad", "lamb", "lars"};
  const std::vector<std::string> with_roots{"adadelta", "adagrad", "adam", "adamw", "rmsprop"};
  const auto among = [](const auto& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const std::string& device : devices_)
    for (const std::string& name : registry_names(optimizers::kind)) {
      ParameterSet one = one_parameter({1});
      if (name.find(':') != std::string::npos || make_optimizer({name, {}}, one)->evaluates()) continue;
      const Attributes decay{{"weight_decay", 0.01}, {"clip_value", 0.5}, {"no_decay", std::string("*bias")}};
      for (const Attributes& values : {Attributes{}, decay, Attributes{{"clip_norm", 0.1}}}) {
        const bool rounded =
            values.has("clip_norm") || among(with_norms, name) || (device == "cpu" && among(with_roots, name));
        for (const bool in_one_piece : {false, true}) {
          const Moved there = moved({name, values}, torch_->memory(device), 3, in_one_piece);
          const Moved here = moved({name, values}, host_memory(), 3, in_one_piece);
          ASSERT_EQ(there.all.size(), here.all.size());
          EXPECT_GT(here.largest_step, 0) << name;
          EXPECT_LE(apart(here, there), rounded ? 3 * 4 * round_off(DType::f32) : 0) << name << " on " << device;
        }
      }
    }
}

// Else the tests above see LibTorch's functions twice.
TEST_F(DeviceTraining, OnAGpuAFormulaIsOneKernel) {
  Formula formula;
  auto [p, g] = formula.parameter_and_gradient();
  p -= formula.scalar("learning_rate") * g;
  const std::vector<int> stream_of{0};
  const std::vector<Wanted> stores{{formula.slots().front().now, 0}};
  const Program program = make_program(formula, stream_of, stores, 2);
  for (const std::string& device : devices_)
    EXPECT_EQ(make_device_loop(program, torch_->memory(device))->name(), device == "cpu" ? "eager" : "fused");
}

// Chunks of more than one block of threads, and what no chunk or four elements divide.
TEST_F(DeviceTraining, LongParametersGiveTheBitsOfTheHost) {
  for (const std::string& device : devices_)
    for (const char* const name : {"momentum", "lion", "lars"}) {
      const auto updated = [&](Memory& memory) {
        ParameterSet set(DType::f32, memory);
        for (const Index elements : {Index{100003}, Index{4096}, Index{1}, Index{4099}})
          set.add({.name = fmt::format("p{}", elements), .spec = {DType::f32, {elements}}});
        set.freeze();
        const Tensor values(DType::f32, {set.elements()});
        fill_uniform(values, Rng(1), -1, 1);
        set.masters(set.all()).copy_from(values);
        set.gradients(set.all()).copy_from(values);
        const auto optimizer = make_optimizer({name, {}}, set);
        optimizer->new_input({});
        optimizer->update(set.all());
        std::vector<float> all;
        for (const ParameterSet::Parameter& p : set.parameters())
          for (const float value : on_host(set.master(p.name))) all.push_back(value);
        return all;
      };
      const std::vector<float> here = updated(host_memory()), there = updated(torch_->memory(device));
      ASSERT_EQ(here.size(), there.size());
      const double bound = name == std::string("lars") ? 4 * round_off(DType::f32) : 0;
      for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(here[i], there[i], bound) << name << " on " << device;
    }
}

TEST_F(DeviceTraining, WhatIsNotTrainedStays) {
  for (const std::string& device : devices_) {
    ParameterSet set = parameters_in(torch_->memory(device));
    const std::vector<float> before = on_host(set.master("fc.mean")), others = on_host(set.master("fc.weight"));
    const auto optimizer = make_optimizer({"momentum", {{"weight_decay", 0.1}}}, set);
    optimizer->new_input({});
    optimizer->update(set.all());
    EXPECT_EQ(on_host(set.master("fc.mean")), before) << device;
    EXPECT_NE(on_host(set.master("fc.weight")), others) << device;
  }
}

// The same functions of the library: on the host's memory the same bits, on a GPU the roundings of torch_test.cpp.
TEST_F(DeviceTraining, LibTorchsOwnOptimizersRunThere) {
  const Index steps = 3;
  for (const std::string& device : devices_)
    for (const std::string name : {"torch:sgd", "torch:adam", "torch:adamw", "torch:adagrad", "torch:rmsprop"})
      for (const bool fused : {true, false}) {
        Attributes values{{"weight_decay", 0.02}, {"no_decay", std::string("*bias")}};
        if (name == "torch:sgd") values.set("mu", 0.9);
        if (name != "torch:rmsprop") values.set("fused", fused);
        const Moved here = moved({name, values}, host_memory(), steps);
        const Moved there = moved({name, values}, torch_->memory(device), steps);
        const double u = round_off(DType::f32);
        const double tolerance = 2 * static_cast<double>(steps) * u * (1 + (10 + 3 * 3) * (1 + here.largest_step));
        EXPECT_LE(apart(here, there), device == "cpu" ? 0 : tolerance) << name << " on " << device;
      }
}

TEST_F(DeviceTraining, WhatDoesNotRunThereIsSaid) {
  ParameterSet set = parameters_in(torch_->memory("cpu")), narrow = parameters_in(torch_->memory("cpu"), DType::bf16);
  const auto refusal = [](const std::string& name, ParameterSet& of) -> std::string {
    try {
      make_optimizer({name, {}}, of);
    } catch (const CannotRun& reason) {
      return reason.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("lbfgs", set), HasSubstr("parameters are on cpu; it runs on the host"));
  EXPECT_THAT(refusal("momentum", narrow), HasSubstr("parameters are bf16 on cpu; formulas run there in f32"));
}

// Convolutions, running statistics, a short last batch, tests after every epoch.
TrainingSettings pictures(const std::string& device) {
  TrainingSettings settings = little_training("resnet-20", {{"classes", int64_t{4}}});
  const auto images = [](const std::string& part, Index samples) {
    const Attributes values{{"size", samples},       {"classes", int64_t{4}}, {"channels", int64_t{3}},
                            {"height", int64_t{32}}, {"width", int64_t{32}},  {"strength", 8.0},
                            {"part", part}};
    return std::make_shared<const Augmented>(
        generate("generated-images", values),
        std::vector<AugmentationStep>{
            {"normalise", {{"mean", std::vector<double>{0.5}}, {"deviation", std::vector<double>{0.25}}}}},
        1);
  };
  settings.train = images("train", 40);
  settings.test = images("test", 12);
  settings.batch = 16;
  settings.compile.device = device;
  settings.compile.deterministic = true;
  settings.optimizer = {"momentum", {{"learning_rate", 0.02}, {"weight_decay", 0.001}}};
  return settings;
}

struct Done {
  uint64_t weights;
  TrainingResult result;
};
Done train(const TrainingSettings& settings, Backend& on) {
  Trainer trainer(settings, on);
  const TrainingResult result = trainer.run();
  return {weights_hash(trainer.parameters()), result};
}

TEST_F(DeviceTraining, GivesTheWeightsOfTheHost) {
  const Done there = train(pictures("cpu"), *torch_);
  unsetenv("D5_TORCH_HOST_AS_DEVICE");
  const Done here = train(pictures("cpu"), *torch_);
  EXPECT_EQ(there.weights, here.weights);
  EXPECT_EQ(there.result.curve.back().test_loss, here.result.curve.back().test_loss);
  ASSERT_EQ(here.result.steps, 6);
  // A GPU sums in another order: after one step the test is off by roundings, which fifty normalised values in a row
  // make larger by what they divide by; a step that went wrong moves the loss by tenths.
  if (devices_.size() < 2) return;
  const Done gpu = train(pictures("cuda"), *torch_);
  EXPECT_NEAR(gpu.result.curve[0].loss, here.result.curve[0].loss, 1e-2);
}

TEST_F(DeviceTraining, BrokenOffItGoesOnWithTheSameBits) {
  for (const std::string& device : devices_) {
    TrainingSettings settings = pictures(device);
    const Done whole = train(settings, *torch_);
    const Folder folder("device-resume");
    settings.checkpoint.file = folder.file("a.d5c");
    settings.checkpoint.resume = true;
    settings.stop.steps = 4;
    EXPECT_EQ(train(settings, *torch_).result.stopped, "steps");
    settings.stop.steps = 0;
    const Done resumed = train(settings, *torch_);
    EXPECT_EQ(resumed.result.resumed_at, 4);
    EXPECT_EQ(resumed.weights, whole.weights) << device;
  }
}

TEST_F(DeviceTraining, ALossThatIsNoNumberIsSeen) {
  for (const std::string& device : devices_) {
    TrainingSettings settings = pictures(device);
    settings.optimizer = {"sgd", {{"learning_rate", 1e30}}};
    EXPECT_EQ(train(settings, *torch_).result.stopped, "diverged") << device;
  }
}

}  // namespace
}  // namespace d5
