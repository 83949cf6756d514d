// SPDX-License-Identifier: Apache-2.0
// How much of the storage a container leaves: samples in files of each container, read in order through the loader with
// the pages cached, against plain sequential reading of the same file in large blocks. Both count the bytes of the
// file; rounds of both alternate, and the median of the rounds' ratios is printed with its interval.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "benchmarks/own_folder.hpp"
#include "d5/core/rng.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/loader.hpp"
#include "d5/datasets/tensor_dataset.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/storage.hpp"

namespace {

using namespace d5;

struct Plan {
  std::vector<std::string> containers{"raw", "tar", "tfrecord", "hdf5", "npz"};
  std::vector<Index> bytes{3072, 150528};
  std::string folder = "/tmp";
  Index mebibytes = 200, batch_bytes = 1 << 20;
  int rounds = 15;
  double share = 0;
};

std::shared_ptr<const Dataset> samples(Index count, Index bytes) {
  const Tensor images(DType::u8, {count, 3, bytes / 3}), labels(DType::i64, {count});
  fill_integers(images, Rng(1), 0, 255);
  fill_integers(labels, Rng(2), 0, 9);
  return std::make_shared<TensorDataset>(
      "samples", std::vector<Field>{{"image", DType::u8, {}, {}}, {"label", DType::i64, {}, 10}},
      std::vector<Tensor>{images, labels});
}

double loading_seconds(Loader& loader) {
  const double began = now_seconds();
  for (Index b = 0; b < loader.batches(); ++b)
    if (!loader.next()) throw Error("[container-reading] the loader ended");
  return now_seconds() - began;
}

bool measure(const Plan& plan, const std::string& kind, Index bytes) {
  const OwnFolder folder(plan.folder, "d5-container-reading");
  const std::string path = folder.path() + "/samples" + container(kind).endings.front();
  const Index count = std::max<Index>(1, (plan.mebibytes << 20) / bytes);
  write_container(kind, *samples(count, bytes), path);
  const std::shared_ptr<const Dataset> data = open_container(kind, path);
  const auto in_file = static_cast<double>(bytes_of({path}));
  const Index batch = std::max<Index>(1, plan.batch_bytes / bytes);
  Loader loader(data, std::shared_ptr<const Sampler>(make_sampler("ordered", count, 1)),
                {.batch = batch, .threads = 0});
  std::vector<double> ratios, read, loaded;
  for (int round = -1; round < plan.rounds; ++round) {  // the first one warms up
    const double plain = sequential_read_rate({path}, 1, 60), ours = in_file / loading_seconds(loader);
    if (round < 0) continue;
    ratios.push_back(ours / plain);
    read.push_back(plain);
    loaded.push_back(ours);
  }
  std::ranges::sort(ratios);
  const auto interval = quantile_interval(ratios, 0.5, static_cast<double>(ratios.size()));
  std::cout << fmt::format("{}, samples of {} bytes: sequential reading {:.2f} GB/s, loader {:.2f} GB/s, share {:.3f}",
                           kind, bytes, 1e-9 * median(read), 1e-9 * median(loaded), median(ratios));
  if (interval) std::cout << fmt::format(" [{:.3f}, {:.3f}]", interval->low, interval->high);
  std::cout << fmt::format(", {} rounds\n", plan.rounds) << std::flush;
  return median(ratios) >= plan.share;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program(
      "Containers read in order through the loader, against plain sequential reading of the same file; hot");
  Plan plan;
  program.add_option("--containers", plan.containers, "Which (d5 list containers)")->delimiter(',');
  program.add_option("--bytes", plan.bytes, "Of a sample")->delimiter(',');
  program.add_option("--folder", plan.folder, "Where the files are made, and removed")->capture_default_str();
  program.add_option("--mebibytes", plan.mebibytes, "Of samples in a file")->capture_default_str();
  program.add_option("--rounds", plan.rounds, "Epochs of each")->capture_default_str();
  program.add_option("--share", plan.share, "Exit 3 where one reaches less of the sequential rate than this");
  CLI11_PARSE(program, count, arguments);
  try {
    bool good = true;
    for (const std::string& kind : plan.containers)
      for (const Index bytes : plan.bytes) good = measure(plan, kind, bytes) && good;
    return good ? 0 : 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
