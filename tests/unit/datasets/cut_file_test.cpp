// SPDX-License-Identifier: Apache-2.0
// Files that are cut short while they are mapped: a sample that cannot be had, never the end of the process.
#include <atomic>
#include <thread>

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/parts.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

struct Kind {
  std::string container, file;
  Attributes options;
};

// Those that are mapped, of pictures u8[3x32x32].
std::vector<Kind> mapped_kinds() {
  std::vector<Kind> kinds{{"raw", "x.d5raw", {}},
                          {"tfrecord", "x.tfrecord", {}},
                          {"tfrecord", "y.tfrecord", {{"check", false}}},
                          {"tar", "x.tar", {}},
                          {"cifar", "x.bin", {}},
                          {"npz", "x.npz", {}},
                          {"idx", "x.idx", {{"labels", "none"}}}};
  for (const auto& [module, file] : {std::pair{"hdf5", "x.h5"}, {"lmdb", "x.mdb"}})
    if (part_status(module).available) kinds.push_back({module, file, {}});
  return kinds;
}

void write_kind(const Kind& kind, const std::string& path) {
  Attributes options;
  if (kind.container == "idx") options.set("labels", path + ".labels");
  write_container(kind.container, pictures(50, {3, 32, 32}, 10), path, options);
}

Index broken_samples(const Dataset& set) {
  Index broken = 0;
  for (Index i = 0; i < set.size(); ++i) {
    try {
      set.at(i);
    } catch (const SampleError& error) {
      EXPECT_NE(std::string(error.what()).find("/d5-data-"), std::string::npos) << error.what();
      ++broken;
    }
  }
  return broken;
}

TEST(CutFiles, SamplesBeyondTheEndAreErrors) {
  const TemporaryFolder folder;
  for (const Kind& kind : mapped_kinds()) {
    if (kind.file[0] != 'x') continue;
    write_kind(kind, folder / kind.file);
    const auto set = open_container(kind.container, folder / kind.file, kind.options);
    EXPECT_EQ(broken_samples(*set), 0) << kind.container;
    std::filesystem::resize_file(folder / kind.file, 20000);
    EXPECT_GT(broken_samples(*set), 30) << kind.container;  // beyond the page that holds the end
    Sample row;
    for (const Field& field : set->fields()) row.emplace_back(field.dtype, *field.shape);
    EXPECT_THROW(set->read(49, row), SampleError) << kind.container;
  }
}

TEST(CutFiles, LinesOfText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "line " + std::to_string(i) + "\r\n";
  write_file(folder / "x.txt", text);
  const auto set = open_container("text", folder / "x.txt", {{"unit", "lines"}});
  EXPECT_EQ(broken_samples(*set), 0);
  std::filesystem::resize_file(folder / "x.txt", 20000);
  EXPECT_GT(broken_samples(*set), 7000);
}

TEST(CutFiles, AViewBecomesZerosAndWhoeverReadItCanAsk) {
  const TemporaryFolder folder;
  write_file(folder / "x", std::string(20000, 'x'));
  const auto bytes = FileBytes::map(folder / "x");
  Sample sample(1);
  bytes->give(sample, 0, DType::u8, Shape{20000}, 0);
  const uint8_t* const view = sample[0].values<uint8_t>().data();
  EXPECT_EQ(view[19999], 'x');
  EXPECT_NO_THROW(require_there(view, 20000));
  std::filesystem::resize_file(folder / "x", 4096);
  EXPECT_EQ(view[19999], 0);
  EXPECT_EQ(view[8192], 0);
  EXPECT_EQ(view[4095], 'x');
  EXPECT_THROW(require_there(view, 20000), SampleError);
  EXPECT_THROW(bytes->copy(8000, 1000, std::vector<char>(1000).data()), SampleError);
  EXPECT_NO_THROW(require_there(view, 4096));
  EXPECT_NO_THROW(bytes->range(0, 4096));
  EXPECT_NO_THROW(require_there(folder.path().data(), 1));  // no file's
}

// A picture whose file is cut between the reading and the decoding.
class CutBeforeItIsDecoded : public Dataset {
 public:
  explicit CutBeforeItIsDecoded(std::string path) : path_(std::move(path)), bytes_(FileBytes::map(path_)) {}
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return 1; }
  std::string where(Index) const override { return path_; }
  void read(Index, Sample& into) const override {
    bytes_->give(into, 0, DType::u8, Shape{static_cast<Index>(bytes_->size())}, 0);
    std::filesystem::resize_file(path_, 0);
  }

 private:
  std::string path_;
  std::shared_ptr<const FileBytes> bytes_;
  std::vector<Field> fields_{{"image", DType::u8, {}, {}}};
};

TEST(CutFiles, WhatADecoderReads) {
  const TemporaryFolder folder;
  for (const std::string kind : {"raw", "jpeg", "png"}) {
    if (kind != "raw" && !part_status(kind).available) continue;
    const Tensor picture = pictures(1, {3, 200, 200}, 2).at(0)[0];
    const std::vector<uint8_t> packed = registered<decoders>(kind).encode(picture, 95);
    write_file(folder / kind, {packed.begin(), packed.end()});
    const auto set = decoded(std::make_shared<CutBeforeItIsDecoded>(folder / kind), {.height = 64, .width = 64});
    EXPECT_THROW(set->at(0), SampleError) << kind;
  }
}

// Opened and read again and again while it is cut: at any place, in whatever is read then.
TEST(CutFiles, AtAnyTime) {
  const TemporaryFolder folder;
  for (const Kind& kind : mapped_kinds()) {
    if (kind.container == "hdf5") continue;  // its library takes too long to open a file
    const std::string whole = folder / ("whole-" + kind.file), path = folder / kind.file;
    write_kind(kind, whole);
    for (int round = 0; round < 10; ++round) {
      std::filesystem::remove(path);
      std::filesystem::copy_file(whole, path);
      std::atomic<bool> cut = false;
      std::thread cutter([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
        std::filesystem::resize_file(path, 5000);
        cut = true;
      });
      for (bool last = false; !last;) {
        last = cut;
        try {
          broken_samples(*open_container(kind.container, path, kind.options));
        } catch (const Error&) {
        }
      }
      cutter.join();
    }
  }
}

}  // namespace
}  // namespace d5
