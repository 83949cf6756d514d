// SPDX-License-Identifier: Apache-2.0
// Where the time of a network's step goes: every step of the plan in situ, with the kernel that computed it. Times are
// the process's own CPU time, the least of several runs, so that they can be read on a machine that others use, too.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "d5/backends/backend.hpp"
#include "d5/core/parallel.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/network.hpp"
#include "d5/networks/samples.hpp"

namespace {

using namespace d5;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double wall_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Times final : Observer {
  struct Entry {
    std::string name;
    Pass pass;
    double least = 1e9;
  };
  std::vector<Entry> entries;
  size_t at = 0;
  double begin = 0;

  void node_begin(const Node& node, Pass pass) override {
    if (at == entries.size()) entries.push_back({node.name, pass});
    begin = cpu_seconds();
  }
  void node_end(const Node&, Pass) override {
    entries[at].least = std::min(entries[at].least, cpu_seconds() - begin);
    ++at;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Times of the steps of a built-in network.");
  std::string name = "lenet", backend = "onednn";
  std::vector<std::string> values;
  int64_t batch = 1;
  int threads = 1, repeats = 10;
  bool training = false, all = false, plain = false;
  app.add_option("network", name)->required();
  app.add_option("--batch", batch);
  app.add_option("--backend", backend);
  app.add_option("--threads", threads);
  app.add_option("--repeats", repeats);
  app.add_option("--set", values, "name=value of the network");
  app.add_flag("--training", training);
  app.add_flag("--steps", all, "one line for each step");
  app.add_flag("--plain", plain, "row-major layouts");
  CLI11_PARSE(app, argc, argv);

  set_threads(threads);
  const NetworkEntry& entry = registered<networks>(name);
  Attributes given;
  for (const std::string& value : values) {
    const size_t equals = value.find('=');
    const std::string key = value.substr(0, equals), text = value.substr(equals + 1);
    const auto known = std::ranges::find_if(entry.parameters, [&](const Parameter& p) { return p.name == key; });
    const bool is_text = known != entry.parameters.end() && std::holds_alternative<std::string>(known->otherwise);
    if (is_text)
      given.set(key, text);
    else if (text.find('.') != std::string::npos)
      given.set(key, std::stod(text));
    else
      given.set(key, int64_t{std::stol(text)});
  }
  Graph graph = build_network(name, given, batch, DType::f32, training ? Mode::training : Mode::inference);
  if (training) graph = with_loss(graph, entry.loss);
  CompileOptions options;
  options.mode = training ? Mode::training : Mode::inference;
  if (plain) options.layout = LayoutChoice::plain;
  const auto opened = open_backend(backend);
  ParameterSet parameters;
  const double before = wall_seconds();
  const auto run = opened->compile(graph, parameters, options);
  std::printf("compiled in %.2f s, %.1f MB beside the parameters (%.1f MB)\n", wall_seconds() - before,
              static_cast<double>(run->bytes()) / 1e6, static_cast<double>(parameters.elements()) * 4e-6);
  for (const auto& [parameter, value] : initial_values(graph, 1)) run->write(Executable::Role::value, parameter, value);
  for (const auto& [input, value] : sample_inputs(graph, 1)) run->write(Executable::Role::value, input, value);
  if (training)
    run->write(Executable::Role::gradient, loss_name,
               Tensor::scalar(1, DType::f32).reshaped(infer_specs(graph).at(loss_name).shape));

  const auto step = [&](Observer* observer) {
    run->forward({.observer = observer});
    if (training) run->backward({.observer = observer});
  };
  for (int i = 0; i < 2; ++i) step(nullptr);
  std::vector<double> cpu, wall;
  for (int i = 0; i < repeats; ++i) {
    const double c = cpu_seconds(), w = wall_seconds();
    step(nullptr);
    cpu.push_back(cpu_seconds() - c);
    wall.push_back(wall_seconds() - w);
  }
  std::ranges::sort(cpu);
  std::ranges::sort(wall);
  std::printf("%s batch %ld %s, %d threads: cpu least %.3f median %.3f ms; wall least %.3f median %.3f ms\n",
              name.c_str(), batch, training ? "training" : "inference", threads, cpu[0] * 1e3,
              cpu[cpu.size() / 2] * 1e3, wall[0] * 1e3, wall[wall.size() / 2] * 1e3);
  if (!all) return 0;
  Times times;
  for (int i = 0; i < repeats; ++i) {
    times.at = 0;
    step(&times);
  }
  double sum = 0;
  std::map<std::string, std::string> kernels;
  for (const auto& [node, kernel] : run->kernels()) kernels[node] = kernel;
  for (const Times::Entry& one : times.entries) {
    sum += one.least;
    std::printf("%9.1f us %s %-60s %s\n", one.least * 1e6, one.pass == Pass::forward ? "f" : "b", one.name.c_str(),
                one.pass == Pass::forward ? kernels[one.name].c_str() : "");
  }
  std::printf("sum of steps %.3f ms\n", sum * 1e3);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
