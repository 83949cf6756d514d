// SPDX-License-Identifier: Apache-2.0
// What the loader leaves of the decoder: a folder of JPEG files of one size through the loader (files opened and read,
// pixels in planes in the rows of a batch), against libjpeg-turbo called in a plain loop on the same pictures in memory
// (interleaved pixels, one buffer). The same number of threads; epochs of both alternate.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>
// after <cstdio>
#include <jpeglib.h>

#include "benchmarks/own_folder.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/generators.hpp"
#include "d5/datasets/loader.hpp"
#include "d5/datasets/views.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"

namespace {

using namespace d5;

struct Plan {
  std::string pictures;
  Index pixels = 256, count = 300, batch = 32;
  int rounds = 9, quality = 90;
  double share = 0;
  std::vector<int> threads{1};
};

// Keeps what was released: a loader that is made anew finds its batches where the last one had them. Pages that are
// touched for the first time are a cost of the first epoch, not of loading.
class KeptMemory final : public Memory {
 public:
  ~KeptMemory() override {
    for (const auto& [bytes, pointer] : kept_) host_memory().release(pointer, bytes);
  }
  std::string device() const override { return host_memory().device(); }
  void* allocate(size_t bytes) override {
    const auto found = kept_.find(bytes);
    if (found == kept_.end()) return host_memory().allocate(bytes);
    void* const pointer = found->second;
    kept_.erase(found);
    return pointer;
  }
  void release(void* pointer, size_t bytes) noexcept override { kept_.emplace(bytes, pointer); }
  void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }

 private:
  std::multimap<size_t, void*> kept_;
};

// Every `step`-th picture, so that threads share them out.
void decode(const std::vector<Sample>& pictures, size_t first, size_t step, Index pixels, uint64_t& sum) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  std::vector<uint8_t> image(static_cast<size_t>(3 * pixels * pixels));
  for (size_t i = first; i < pictures.size(); i += step) {
    jpeg_mem_src(&info, pictures[i][0].values<uint8_t>().data(), pictures[i][0].bytes());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows[1] = {image.data() + static_cast<size_t>(info.output_scanline) * info.output_width * 3};
      jpeg_read_scanlines(&info, rows, 1);
    }
    jpeg_finish_decompress(&info);
    sum += image[image.size() / 2];
  }
  jpeg_destroy_decompress(&info);
}

double decoding_seconds(const std::vector<Sample>& pictures, int threads, Index pixels) {
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  const double began = now_seconds();
  const auto share = [&](int t) {
    decode(pictures, static_cast<size_t>(t), static_cast<size_t>(threads), pixels, sums[static_cast<size_t>(t)]);
  };
  for (int t = 1; t < threads; ++t) others.emplace_back(share, t);
  share(0);
  for (std::thread& other : others) other.join();
  return now_seconds() - began;
}

int measure(const Plan& plan) {
  const OwnFolder folder(std::filesystem::temp_directory_path(), "d5-jpeg-decoding");
  DatasetPointer source;
  if (plan.pictures.empty())
    source = generate("generated-images", {{"size", plan.count}, {"height", plan.pixels}, {"width", plan.pixels}});
  else
    source =
        decoded(open_container("folder", plan.pictures), {.height = plan.pixels, .width = plan.pixels, .resize = true});
  source = range(source, 0, std::min(plan.count, source->size()) / plan.batch * plan.batch);
  write_container("folder", *source, folder.path(),
                  {{"format", "jpeg"}, {"quality", static_cast<int64_t>(plan.quality)}});
  const DatasetPointer files = open_container("folder", folder.path());
  std::vector<Sample> pictures;
  for (Index i = 0; i < files->size(); ++i) pictures.push_back(files->at(i));
  const auto count = static_cast<double>(pictures.size());
  const DatasetPointer data = decoded(files, {.height = plan.pixels, .width = plan.pixels});
  bool good = true;
  KeptMemory memory;
  for (const int threads : plan.threads) {
    const std::shared_ptr<const Sampler> order = make_sampler("shuffle", files->size(), 1);
    std::vector<double> ratios, plain, ours;
    for (int round = -1; round < plan.rounds; ++round) {  // the first one warms up
      const double alone = decoding_seconds(pictures, threads, plan.pixels);
      // A new loader each time: its threads would otherwise read ahead while the other side is timed.
      const double began = now_seconds();
      {
        Loader loader(data, order,
                      {.batch = plan.batch, .threads = threads, .ahead = 4, .epochs = 1, .memory = &memory});
        while (loader.next()) {
        }
      }
      const double loading = now_seconds() - began;
      if (round < 0) continue;
      ratios.push_back(alone / loading);
      plain.push_back(count / alone);
      ours.push_back(count / loading);
    }
    std::ranges::sort(ratios);
    const auto interval = quantile_interval(ratios, 0.5, static_cast<double>(ratios.size()));
    std::cout << fmt::format("threads {}: libjpeg-turbo {:.0f} pictures/s, loader {:.0f} pictures/s, share {:.3f}",
                             threads, median(plain), median(ours), median(ratios));
    if (interval) std::cout << fmt::format(" [{:.3f}, {:.3f}]", interval->low, interval->high);
    std::cout << fmt::format(", {} pictures of {} x {}, {} rounds\n", count, plan.pixels, plan.pixels, plan.rounds);
    good = good && median(ratios) >= plan.share;
  }
  return good ? 0 : 3;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program(
      "A folder of JPEG files through the loader, against libjpeg-turbo in a plain loop on the same pictures");
  Plan plan;
  program.add_option("--pictures", plan.pictures, "A folder of pictures to make them from [generated ones]");
  program.add_option("--pixels", plan.pixels, "A side")->capture_default_str();
  program.add_option("--count", plan.count, "Pictures at most")->capture_default_str();
  program.add_option("--quality", plan.quality, "Of the JPEG files")->capture_default_str();
  program.add_option("--batch", plan.batch, "Pictures of a batch")->capture_default_str();
  program.add_option("--threads", plan.threads, "Numbers of threads")->delimiter(',');
  program.add_option("--rounds", plan.rounds, "Epochs of each")->capture_default_str();
  program.add_option("--share", plan.share, "Exit 3 where the loader reaches less of the decoder than this");
  CLI11_PARSE(program, count, arguments);
  try {
    return measure(plan);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
