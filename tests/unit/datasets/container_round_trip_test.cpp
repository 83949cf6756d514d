// SPDX-License-Identifier: Apache-2.0
// What a container wrote is what it reads: values, types, shapes, classes.
#include <thread>

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/parts.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

bool is_off(const std::string& kind, const std::string& name) {
  for (const PartStatus& part : all_of_kind(kind))
    if (part.name == name) return !part.available;
  return true;
}

struct Case {
  std::string container, file;
  Attributes options;
};

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, PicturesAndLabels) {
  const auto& [container, file, options] = GetParam();
  if (is_off("container", container)) GTEST_SKIP() << container << " is off: " << part_status(container).reason;
  const TemporaryFolder folder;
  const InMemory set = pictures(23, {3, 32, 32}, 10);
  write_container(container, set, folder / file, options);
  const auto read = open_container(container, folder / file);
  ASSERT_NO_FATAL_FAILURE(expect_same_samples(*read, set));
  EXPECT_EQ(read->fields()[0].name, "image");
  EXPECT_EQ(read->fields()[0].shape, (Shape{3, 32, 32}));
  EXPECT_EQ(read->fields()[1].name, "label");
  for (const auto& left : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(left.path().string().find(".part"), std::string::npos) << left.path();
  EXPECT_THROW(read->at(23), Error);
  EXPECT_THROW(read->at(-1), Error);
}

INSTANTIATE_TEST_SUITE_P(Containers, RoundTrip,
                         testing::Values(Case{"idx", "x-images-idx4-ubyte", {}},
                                         Case{"idx", "x-images-idx4-ubyte.gz", {}}, Case{"cifar", "x.bin", {}},
                                         Case{"tar", "x.tar", {}}, Case{"tfrecord", "x.tfrecord", {}},
                                         Case{"npz", "x.npz", {}}, Case{"raw", "x.d5raw", {}}, Case{"hdf5", "x.h5", {}},
                                         Case{"hdf5", "y.h5", {{"chunk", int64_t{4}}, {"gzip", int64_t{4}}}},
                                         Case{"lmdb", "x.lmdb", {}}, Case{"lmdb", "x.mdb", {}},
                                         Case{"lmdb", "new/x.lmdb", {}}, Case{"hdf5", "new/x.h5", {}}),
                         [](const auto& one) { return one.param.container + std::to_string(one.index); });

TEST(Containers, ManyThreadsReadTheSame) {
  const TemporaryFolder folder;
  const InMemory set = pictures(64, {3, 32, 32}, 10);
  for (const auto& [container, file] : std::vector<std::pair<std::string, std::string>>{{"tar", "x.tar"},
                                                                                        {"tfrecord", "x.tfrecord"},
                                                                                        {"npz", "x.npz"},
                                                                                        {"raw", "x.d5raw"},
                                                                                        {"hdf5", "x.h5"},
                                                                                        {"lmdb", "x.lmdb"}}) {
    if (is_off("container", container)) continue;
    write_container(container, set, folder / file);
    const auto read = open_container(container, folder / file);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (Index k = 0; k < 200; ++k) {
          const Index i = (k * 17 + t * 5) % 64;
          const Sample a = read->at(i), b = set.at(i);
          if (std::memcmp(a[0].data(), b[0].data(), b[0].bytes()) != 0 ||
              a[1].values<int64_t>()[0] != b[1].values<int64_t>()[0])
            ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << container;
  }
}

TEST(Containers, FloatsAndIntegersKeepTheirTypes) {
  const TemporaryFolder folder;
  std::vector<Sample> samples;
  for (int i = 0; i < 5; ++i)
    samples.push_back({Tensor::from<float>({2, 3}, {0.5f, -1e-30f, 3e30f, float(i), -0.f, 1.f / 3}),
                       Tensor::from<int16_t>({4}, {-32768, 32767, 0, int16_t(i)}),
                       Tensor::from<double>({}, {1.0 / (i + 1)}), Tensor::from<float>({2}, {0.5f, -2}).cast(DType::f16),
                       Tensor::from<float>({2}, {0, 1}).cast(DType::boolean)});
  const InMemory set({{"volume", DType::f32, Shape{2, 3}, {}},
                      {"mask", DType::i16, Shape{4}, {}},
                      {"target", DType::f64, Shape{}, {}},
                      {"half", DType::f16, Shape{2}, {}},
                      {"truth", DType::boolean, Shape{2}, {}}},
                     samples);
  for (const auto& [container, file] : std::vector<std::pair<std::string, std::string>>{
           {"tar", "x.tar"}, {"tfrecord", "x.tfrecord"}, {"npz", "x.npz"}, {"raw", "x.d5raw"}}) {
    write_container(container, set, folder / file);
    const auto read = open_container(container, folder / file);
    ASSERT_NO_FATAL_FAILURE(expect_same_samples(*read, set)) << container;
    for (size_t f = 0; f < 5; ++f) {
      EXPECT_EQ(read->fields()[f].name, set.fields()[f].name) << container;
      EXPECT_EQ(read->fields()[f].shape, set.fields()[f].shape) << container;
    }
  }
}

TEST(Containers, IdxSwapsBytes) {
  const TemporaryFolder folder;
  const InMemory set({{"value", DType::f32, Shape{2}, {}}},
                     {{Tensor::from<float>({2}, {1.5f, -2.25f})}, {Tensor::from<float>({2}, {3.f, 4.f})}});
  write_container("idx", set, folder / "x.idx");
  expect_same_samples(*open_container("idx", folder / "x.idx"), set);
  // 1.5f is 3fc00000, stored with the highest byte first, behind 4 + 2 x 4 bytes
  EXPECT_EQ(contents_of(folder / "x.idx").substr(12, 4), std::string("\x3f\xc0\0\0", 4));
}

TEST(Containers, Cifar100HasTwoLabels) {
  const TemporaryFolder folder;
  std::vector<Sample> samples;
  for (int64_t i = 0; i < 3; ++i)
    samples.push_back(
        {pictures(3, {3, 32, 32}, 10).at(i)[0], Tensor::from<int64_t>({}, {90 + i}), Tensor::from<int64_t>({}, {i})});
  const InMemory set({{"image", DType::u8, Shape{3, 32, 32}, {}},
                      {"label", DType::i64, Shape{}, 100},
                      {"coarse", DType::i64, Shape{}, 20}},
                     samples);
  write_container("cifar", set, folder / "train.bin");
  EXPECT_EQ(contents_of(folder / "train.bin").substr(0, 2), std::string("\0\x5a", 2));  // coarse first
  expect_same_samples(*open_container("cifar", folder / "train.bin"), set);
  expect_same_samples(*open_container("cifar", folder.path(), {{"part", "train"}}), set);
}

TEST(Containers, CsvKeepsNumbersAndNamesBrokenRows) {
  const TemporaryFolder folder;
  const InMemory set({{"value", DType::f32, Shape{3}, {}}, {"label", DType::i64, Shape{}, 3}},
                     {{Tensor::from<float>({3}, {0.1f, -1e-20f, 7}), Tensor::from<int64_t>({}, {2})},
                      {Tensor::from<float>({3}, {1.f / 3, 2, 3}), Tensor::from<int64_t>({}, {0})}});
  write_container("csv", set, folder / "x.csv.gz");
  EXPECT_EQ(contents_of(folder / "x.csv.gz").substr(0, 2), "\x1f\x8b");
  expect_same_samples(*open_container("csv", folder / "x.csv.gz"), set);

  write_file(folder / "y.csv", "a;b;kind\n1;2;0\n3;x;1\n5;6\n\n7;8;-1\n9;10;1\n");
  const auto read = open_container("csv", folder / "y.csv", {{"label", "kind"}, {"separator", ";"}});
  ASSERT_EQ(read->size(), 5);
  EXPECT_EQ(read->at(4)[0].values<float>()[1], 10);
  for (const auto& [row, words] :
       std::vector<std::pair<Index, std::string>>{{1, "y.csv:3"}, {2, "y.csv:4"}, {3, "y.csv:6"}}) {
    try {
      read->at(row);
      FAIL() << "row " << row;
    } catch (const SampleError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

TEST(Containers, TextIsWindowsOrLines) {
  const TemporaryFolder folder;
  write_file(folder / "x.txt", "hello, world\nsecond line\n");
  const auto bytes = open_container("text", folder / "x.txt", {{"window", int64_t{4}}});
  ASSERT_EQ(bytes->size(), 6);  // 25 bytes: the last window is 20..23 with target 21..24
  EXPECT_EQ(std::memcmp(bytes->at(5)[0].data(), "line", 4), 0);
  EXPECT_EQ(std::memcmp(bytes->at(5)[1].data(), "ine\n", 4), 0);
  write_container("text", *bytes, folder / "again.txt.gz");
  expect_same_samples(*open_container("text", folder / "again.txt.gz", {{"window", int64_t{4}}}), *bytes);
  const auto lines = open_container("text", folder / "x.txt", {{"unit", "lines"}});
  ASSERT_EQ(lines->size(), 2);
  EXPECT_EQ(lines->at(1)[0].elements(), 11);
  write_container("text", *lines, folder / "lines.txt", {{"unit", "lines"}});
  EXPECT_EQ(contents_of(folder / "lines.txt"), contents_of(folder / "x.txt"));
}

TEST(Containers, FolderOfPngIsExact) {
  if (is_off("decoder", "png")) GTEST_SKIP() << part_status("png").reason;
  const TemporaryFolder folder;
  const InMemory set = pictures(6, {3, 9, 17}, 3);
  write_container("folder", set, folder / "pictures");
  const auto read = decoded(open_container("folder", folder / "pictures"), {});
  ASSERT_EQ(read->size(), 6);
  EXPECT_EQ(read->fields()[1].classes, 3);
  // sorted by class: labels 0 2 1 0 2 1 of samples 0 ... 5
  const std::vector<Index> order{0, 3, 2, 5, 1, 4};
  for (Index i = 0; i < 6; ++i) {
    expect_same(read->at(i)[0], set.at(order[static_cast<size_t>(i)])[0], read->where(i));
    EXPECT_EQ(read->at(i)[1].values<int64_t>()[0], i / 2);
  }
}

TEST(Containers, ShardsAreOneSet) {
  const TemporaryFolder folder;
  const InMemory set = pictures(4, {1, 2, 2}, 4);
  write_container("tar", set, folder / "part-0.tar");
  write_container("tar", set, folder / "part-1.tar");
  const auto read = open_container("tar", folder / "part-*.tar");
  EXPECT_EQ(read->size(), 8);
  expect_same(read->at(6)[0], set.at(2)[0], "the third of the second shard");
  EXPECT_THROW(open_container("tar", folder / "none-*.tar"), Error);
}

// The pass over the archive is made once: after it, the headers of the members are not looked at again.
TEST(Containers, TarIsIndexedOnce) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const InMemory set = pictures(5000, {1, 2, 2}, 4);
  const std::string path = folder / "many.tar";
  write_container("tar", set, path);
  ASSERT_EQ(open_container("tar", path)->size(), 5000);
  const auto changed = fs::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "no header of a tar file";
  fs::last_write_time(path, changed);
  const auto again = open_container("tar", path);
  ASSERT_EQ(again->size(), 5000);
  expect_same(again->at(4999)[0], set.at(4999)[0], "the last one");
  EXPECT_THROW(open_container("tar", path, {{"index", false}}), Error);
  fs::last_write_time(path, changed + std::chrono::seconds(1));  // another archive: the index is of the old one
  EXPECT_THROW(open_container("tar", path), Error);
}

TEST(Containers, TheKeptIndexOfATarKnowsAllKindsOfLabels) {
  const TemporaryFolder folder;
  write_container("tar", pictures(4, {1, 2, 2}, 4), folder / "x.tar");
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(open_container("tar", folder / "x.tar")->at(1)[1].values<int64_t>()[0], 1);
    EXPECT_EQ(open_container("tar", folder / "x.tar", {{"labels", "none"}})->fields().size(), 1u);
    EXPECT_EQ(open_container("tar", folder / "x.tar", {{"labels", "folder"}})->at(1)[1].values<int64_t>()[0], 0);
  }
}

TEST(Containers, IdxIsBothFilesOrNone) {
  const TemporaryFolder folder;
  write_file(folder / "taken", "");
  const InMemory set = pictures(3, {1, 2, 2}, 4);
  const std::string path = folder / "x-images-idx3-ubyte";
  EXPECT_ANY_THROW(write_container("idx", set, path, {{"labels", folder / "taken/labels"}}));
  EXPECT_THROW(write_container("idx", set, folder / "x.idx"), UsageError);  // no place for the labels
  std::filesystem::create_directories(path + "/in-the-way");
  EXPECT_ANY_THROW(write_container("idx", set, path));
  std::filesystem::remove_all(path);
  std::filesystem::remove(folder / "taken");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Containers, GuessedByName) {
  EXPECT_EQ(guess_container("/a/train-images-idx3-ubyte.gz"), "idx");
  EXPECT_EQ(guess_container("x.csv.gz"), "csv");
  EXPECT_EQ(guess_container("cifar-10-batches-bin.tar.xz"), "cifar");
  EXPECT_EQ(guess_container("shard.tar"), "tar");
  EXPECT_THROW(guess_container("x.unknown"), UsageError);
  EXPECT_THROW(container("hdf6"), UsageError);
  EXPECT_THROW(open_container("npy", "x.npy", {{"nam", "y"}}), UsageError);
}

TEST(Containers, RefuseWhatTheyCannotHold) {
  const TemporaryFolder folder;
  const InMemory any({{"image", DType::u8, {}, {}}}, {{Tensor::from<uint8_t>({2}, {1, 2})}});
  for (const char* name : {"idx", "npy", "npz", "raw", "csv", "cifar"})
    EXPECT_THROW(write_container(name, any, folder / "x"), UsageError) << name;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace d5
