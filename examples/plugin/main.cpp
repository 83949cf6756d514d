// SPDX-License-Identifier: Apache-2.0
// outside PLUGIN STALE OPTIMIZER SCHEME: an installed libd5 runs the operator of PLUGIN, the optimizer and the scheme
// of the last two, and refuses STALE in plain words.
#include <cstdio>
#include <string>

#include "d5/core/registry.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/operators/operator.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/scheme.hpp"

namespace {

int failures = 0;
void expect(bool condition, const char* what) {
  std::printf("%s %s\n", condition ? "ok    " : "FAILED", what);
  failures += !condition;
}

std::string reason_not_to_load(const char* path) {
  try {
    d5::load_plugin(path);
  } catch (const d5::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  expect(!d5::find_registered<d5::operators>("Double"), "without the plugin there is no operator Double");
  expect(reason_not_to_load(arguments[1]).empty(), "the plugin loads");
  const auto* entry = d5::find_registered<d5::operators>("Double");
  expect(entry, "with the plugin there is one");
  if (!entry) return 1;

  const d5::OperatorCase sample = entry->describe({{"shape", std::string("3")}}, d5::DType::f64);
  const auto op = entry->make(sample.attributes);
  const auto specs = op->infer(sample.specs());
  d5::Context context;
  context.inputs.push_back(d5::Tensor::from<double>({3}, {1, -2, 0.25}));
  context.outputs.emplace_back(specs.at(0).dtype, specs.at(0).shape);
  op->forward(context);
  const auto y = context.output(0).values<double>();
  expect(y.size() == 3 && y[0] == 2 && y[1] == -4 && y[2] == 0.5, "its forward gives 2, -4, 0.5");

  const std::string reason = reason_not_to_load(arguments[2]);
  std::printf("       %s\n", reason.c_str());
  expect(reason.find("built for another version of libd5") != std::string::npos,
         "a stale plugin is refused in plain words");

  expect(reason_not_to_load(arguments[3]).empty(), "the plugin with an optimizer loads");
  d5::ParameterSet set;
  set.add({.name = "w", .spec = {d5::DType::f32, {3}}});
  set.freeze();
  const auto optimizer = d5::make_optimizer({"signum", {{"learning_rate", 0.5}}}, set);
  const auto g = set.gradient("w").values<float>(), w = set.master("w").values<float>();
  g[0] = 3;
  g[1] = -1e-3f;
  optimizer->new_input({.step = 1});
  optimizer->update(set.all());
  expect(w[0] == -0.5f && w[1] == 0.5f && w[2] == 0, "its step goes by the sign of the gradient");

  expect(reason_not_to_load(arguments[4]).empty(), "the plugin with a scheme loads");
  // Of two ranks with weights 0 and gradients 0 and 1, gradient descent leaves 0 and -1: they meet at -0.5.
  float left[2] = {};
  d5::run_ranks({.ranks = 2}, [&](d5::Communicator& ranks) {
    d5::ParameterSet own;
    own.add({.name = "w", .spec = {d5::DType::f32, {3}}});
    own.freeze();
    const auto sgd = d5::make_optimizer({"sgd", {{"learning_rate", 1.0}}}, own);
    const auto scheme = d5::make_scheme("gossip", {}, &ranks);
    scheme->begin_training({.parameters = own, .optimizer = *sgd, .make_optimizer = {}});
    own.gradient("w").values<float>()[0] = static_cast<float>(ranks.rank());
    const d5::Moment moment{.step = 1};
    sgd->new_input(moment);
    d5::Step step(own, *sgd, moment);
    scheme->finish_step(step);
    left[ranks.rank()] = own.master("w").values<float>()[0];
  });
  expect(left[0] == -0.5f && left[1] == -0.5f, "its ranks meet half way");
  return failures ? 1 : 0;
}
