// SPDX-License-Identifier: Apache-2.0
// What the loader costs: samples of the size of CIFAR's, raw and in memory, through the loader and through a plain loop
// that copies the same samples in the same shuffled order into one batch. Epochs of both alternate in one process; the
// ratio of a round is of its two times, and the median of the rounds' ratios is printed with its interval.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "d5/core/rng.hpp"
#include "d5/datasets/loader.hpp"
#include "d5/datasets/tensor_dataset.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"

namespace {

using namespace d5;

struct Plan {
  Index samples = 50000, bytes = 3072, batch = 128;
  int rounds = 15;
  double share = 0;
  std::vector<int> threads{0, 1};
};

std::shared_ptr<const Dataset> raw_samples(const Plan& plan) {
  const Tensor images(DType::u8, {plan.samples, plan.bytes}), labels(DType::i64, {plan.samples});
  fill_integers(images, Rng(1), 0, 255);
  fill_integers(labels, Rng(2), 0, 9);
  return std::make_shared<TensorDataset>(
      "raw", std::vector<Field>{{"image", DType::u8, {}, {}}, {"label", DType::i64, {}, 10}},
      std::vector<Tensor>{images, labels});
}

// An epoch of copies; the sum keeps the compiler from leaving them out.
double copying_seconds(const Plan& plan, const Dataset& data, const Sampler& order, Index epoch, uint64_t& sum) {
  const Sample first = data.at(0);
  const auto* images = static_cast<const char*>(first[0].data());
  const auto* labels = static_cast<const int64_t*>(first[1].data());
  const Tensor batch_images(DType::u8, {plan.batch, plan.bytes}), batch_labels(DType::i64, {plan.batch});
  std::vector<Index> wanted(static_cast<size_t>(plan.batch));
  const double began = now_seconds();
  for (Index b = 0; b < plan.samples / plan.batch; ++b) {
    order.take(epoch, b * plan.batch, 1, wanted);
    for (Index r = 0; r < plan.batch; ++r) {
      const Index i = wanted[static_cast<size_t>(r)];
      std::memcpy(static_cast<char*>(batch_images.data()) + r * plan.bytes, images + i * plan.bytes,
                  static_cast<size_t>(plan.bytes));
      static_cast<int64_t*>(batch_labels.data())[r] = labels[i];
    }
    sum += batch_images.values<uint8_t>()[0] + static_cast<uint64_t>(batch_labels.values<int64_t>()[0]);
  }
  return now_seconds() - began;
}

double loading_seconds(const Plan& plan, Loader& loader, uint64_t& sum) {
  const double began = now_seconds();
  for (Index b = 0; b < plan.samples / plan.batch; ++b) {
    const Batch* batch = loader.next();
    sum += batch->fields[0].values<uint8_t>()[0] + static_cast<uint64_t>(batch->fields[1].values<int64_t>()[0]);
  }
  return now_seconds() - began;
}

int measure(const Plan& plan) {
  const auto data = raw_samples(plan);
  const std::shared_ptr<const Sampler> order = make_sampler("shuffle", plan.samples, 1);
  bool good = true;
  for (const int threads : plan.threads) {
    std::vector<double> ratios, copied, loaded;
    Loader loader(data, order, {.batch = plan.batch, .drop_last = true, .threads = threads});
    for (int round = -1; round < plan.rounds; ++round) {  // the first one warms up
      uint64_t copies = 0, loads = 0;
      const double loop = copying_seconds(plan, *data, *order, round + 1, copies);
      const double ours = loading_seconds(plan, loader, loads);
      if (copies != loads) throw Error("[data-loading] the loader gave other samples than the loop");
      if (round < 0) continue;
      ratios.push_back(loop / ours);
      copied.push_back(loop);
      loaded.push_back(ours);
    }
    std::ranges::sort(ratios);
    const auto interval = quantile_interval(ratios, 0.5, static_cast<double>(ratios.size()));
    const auto rate = [&](const std::vector<double>& seconds) {
      return static_cast<double>(plan.samples / plan.batch * plan.batch) / median(seconds);
    };
    std::cout << fmt::format("threads {}: loop {:.0f} samples/s, loader {:.0f} samples/s, loader / loop {:.3f}",
                             threads, rate(copied), rate(loaded), median(ratios));
    if (interval) std::cout << fmt::format(" [{:.3f}, {:.3f}]", interval->low, interval->high);
    std::cout << fmt::format(", {} rounds\n", plan.rounds);
    good = good && median(ratios) >= plan.share;
  }
  return good ? 0 : 3;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program("The loader against a plain loop that copies the same raw samples in the same shuffled order");
  Plan plan;
  program.add_option("--samples", plan.samples, "Samples of an epoch")->capture_default_str();
  program.add_option("--bytes", plan.bytes, "Of a sample")->capture_default_str();
  program.add_option("--batch", plan.batch, "Samples of a batch")->capture_default_str();
  program.add_option("--threads", plan.threads, "Numbers of loading threads; 0: the caller reads")->delimiter(',');
  program.add_option("--rounds", plan.rounds, "Epochs of each")->capture_default_str();
  program.add_option("--share", plan.share, "Exit 3 where the loader reaches less of the loop than this");
  CLI11_PARSE(program, count, arguments);
  try {
    return measure(plan);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
