// SPDX-License-Identifier: Apache-2.0
// Does the system call equal things different, and does it find a planted slowdown? Real comparisons, with the default
// launches and rounds: one case against itself (A/A), and against a kernel that takes a known share longer. The records
// can be given to d5-statistics-coverage --noise, which resamples this machine's noise for thousands of simulated
// comparisons.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>

#include "d5/backends/kernel.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/verdicts.hpp"
#include "d5/runner/runner.hpp"
#include "d5/runner/worker.hpp"

namespace d5 {
namespace {

double planted_share() {
  const char* text = std::getenv("D5_PLANTED_SHARE");
  return text ? std::strtod(text, nullptr) : 0.02;
}

// The built-in kernel, then a wait of the planted share of the time it took.
class SlowedKernel final : public Kernel {
 public:
  void prepare(KernelSetup& setup) override {
    kernel_ = make_kernel("onednn", setup.node.op, "builtin");
    if (!kernel_) throw Error("[self-check] onednn has no kernel for {}", setup.node.op);
    kernel_->prepare(setup);
  }
  void bind(int slot, const Buffers& buffers) override { kernel_->bind(slot, buffers); }
  void forward(int slot) override {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    kernel_->forward(slot);
    const auto end = Clock::now();
    const auto until = end + std::chrono::duration_cast<Clock::duration>((end - begin) * share_);
    while (Clock::now() < until) {
    }
  }
  std::string implementation() const override { return kernel_->implementation() + ", slowed"; }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  double share_ = planted_share();
};
D5_REGISTER_KERNEL(onednn, "Gemm", "slowed", SlowedKernel);

struct Options {
  int equal = 100, planted = 40;
  double share = 0.02;
  int launches = 0, rounds = 4;
  double slice = 0.02;
  std::string folder;
};

struct Tally {
  int same = 0, faster = 0, slower = 0, unclear = 0;
  std::vector<double> ratios, noise;  // noise: spread of the launches' log ratios
  int total() const { return same + faster + slower + unclear; }
};

double deviation(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (double v : values) mean += v / static_cast<double>(values.size());
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Sizes from about 0.1 ms to 5 ms, so that launches are not all alike.
Json gemm(int i, const std::string& kernel) {
  const int size = 128 + 32 * (i % 12);
  const Json fields = {{"kind", "op"}, {"operator", "Gemm"}, {"backend", "onednn"}, {"m", size},
                       {"n", size},    {"k", size},          {"kernel", kernel}};
  return bench_of(fields).complete(fields);
}

Tally compare_many(int count, const std::string& second, const Options& o, RecordWriter* writer) {
  Tally tally;
  const std::atomic<bool> never{false};
  for (int i = 0; i < count; ++i) {
    RunOptions run{.launches = o.launches,
                   .rounds = o.rounds,
                   .slice_seconds = o.slice,
                   .max_seconds = 0,
                   .seed = static_cast<uint64_t>(i + 1)};
    std::vector<Record> records;
    run_cases(
        {gemm(i, "builtin"), gemm(i, second)}, run, [&](const Record& r) { records.push_back(r); },
        [](const Progress&) {}, never);
    const auto standings = verdicts(records);
    if (records.size() != 2 || !standings[1])
      throw Error("[self-check] no comparison: {}", records.empty() ? "no records" : records.back().reason);
    if (writer)
      for (const Record& record : records) writer->write(record);
    const Comparison& c = standings[1]->comparison;
    ++(c.verdict == Verdict::same     ? tally.same
       : c.verdict == Verdict::faster ? tally.faster
       : c.verdict == Verdict::slower ? tally.slower
                                      : tally.unclear);
    tally.ratios.push_back(c.ratio);
    std::map<int, std::vector<double>> by_launch;
    for (const PairedSlices& p : paired_slices(records[1], records[0], true))
      by_launch[p.launch].push_back(p.log_ratio);
    std::vector<double> medians;
    for (auto& [launch, values] : by_launch) medians.push_back(median(values));
    tally.noise.push_back(deviation(medians));
    fmt::print(stderr, "\r{} of {}: {}          ", i + 1, count, verdict_text(c));
  }
  fmt::print(stderr, "\n");
  return tally;
}

void print(const char* what, const Tally& t) {
  fmt::print("{:<22} {:>5} {:>6} {:>7} {:>7} {:>8}   {:.4f}   {:.2f} %\n", what, t.total(), t.same, t.faster, t.slower,
             t.unclear, median(t.ratios), 100 * median(t.noise));
}

int run(const Options& o) {
  std::unique_ptr<RecordWriter> writer;
  if (!o.folder.empty()) writer = std::make_unique<RecordWriter>(o.folder);
  setenv("D5_PLANTED_SHARE", std::to_string(o.share).c_str(), 1);
  fmt::print("Gemm f32 on onednn, 1 thread, {} rounds, slices of {:.0f} ms\n", o.rounds, 1e3 * o.slice);
  fmt::print("comparison             count   same  faster  slower  unclear   ratio    noise of a launch\n");
  bool good = true;
  if (o.equal > 0) {
    const Tally t = compare_many(o.equal, "builtin", o, writer.get());
    print("A against A", t);
    const double rate = static_cast<double>(t.faster + t.slower) / t.total();
    fmt::print("  called different: {:.1f} % (at most 5 %)\n", 100 * rate);
    good = good && rate <= 0.05;
  }
  if (o.planted > 0) {
    const Tally t = compare_many(o.planted, "slowed", o, nullptr);
    print(fmt::format("planted {:.1f} % slower", 100 * o.share).c_str(), t);
    const double rate = static_cast<double>(t.slower) / t.total();
    fmt::print("  found: {:.1f} % (at least 95 %)\n", 100 * rate);
    good = good && rate >= 0.95;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  using namespace d5;
  if (argc == 2 && std::strcmp(argv[1], "worker") == 0) return worker_main();
  Options o;
  CLI::App app{"Real A/A comparisons and planted slowdowns: how often the verdict is wrong", "d5-self-check"};
  app.add_option("--equal", o.equal, "A/A comparisons")->capture_default_str();
  app.add_option("--planted", o.planted, "Comparisons with a planted slowdown")->capture_default_str();
  app.add_option("--share", o.share, "The planted slowdown")->capture_default_str();
  app.add_option("--launches", o.launches, "Launches of a comparison; 0: the default")->capture_default_str();
  app.add_option("--rounds", o.rounds, "Rounds in a launch")->capture_default_str();
  app.add_option("--slice", o.slice, "Seconds of a slice")->capture_default_str();
  app.add_option("-o,--output", o.folder, "Folder for the records of the A/A comparisons");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    fmt::print(stderr, "d5-self-check: {}\n", error.what());
    return 1;
  }
}
