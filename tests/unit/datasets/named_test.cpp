// SPDX-License-Identifier: Apache-2.0
// The real sets, where D5_DATA has them: labels and sums of pixels as NumPy, Pillow and h5py find them.
#include "d5/datasets/named.hpp"

#include <numeric>

#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/fetch.hpp"
#include "d5/datasets/parts.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

std::vector<int64_t> labels_of(const Dataset& set, Index first, Index count) {
  std::vector<int64_t> labels;
  for (Index i = first; i < first + count; ++i) labels.push_back(set.at(i)[1].values<int64_t>()[0]);
  return labels;
}

TEST(NamedSets, Mnist) {
  D5_NEEDS_REAL("mnist/train-images-idx3-ubyte.gz");
  const auto train = open_dataset("mnist", real_data()), test = open_dataset("mnist", real_data(), {{"part", "test"}});
  ASSERT_EQ(train->size(), 60000);
  ASSERT_EQ(test->size(), 10000);
  EXPECT_EQ(train->fields()[0].shape, (Shape{1, 28, 28}));
  EXPECT_EQ(labels_of(*train, 0, 5), (std::vector<int64_t>{5, 0, 4, 1, 9}));
  EXPECT_EQ(labels_of(*test, 0, 5), (std::vector<int64_t>{7, 2, 1, 0, 4}));
  EXPECT_EQ(sum_of<uint8_t>(train->at(0)[0]), 27525);
  int64_t sum = 0;
  std::vector<int> histogram(10);
  for (Index i = 0; i < train->size(); ++i) {
    const Sample sample = train->at(i);
    sum += sum_of<uint8_t>(sample[0]);
    ++histogram[static_cast<size_t>(sample[1].values<int64_t>()[0])];
  }
  EXPECT_EQ(sum, 1567298545);
  EXPECT_EQ(histogram, (std::vector<int>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  for (const FileVerdict& verdict : verify_files("mnist", real_data()))
    EXPECT_TRUE(verdict.good) << verdict.path << ": " << verdict.note;
}

TEST(NamedSets, Cifar10FromItsArchive) {
  D5_NEEDS_REAL("cifar10");
  if (!part_status("xz").available) GTEST_SKIP() << part_status("xz").reason;
  const auto train = open_dataset("cifar-10", real_data()),
             test = open_dataset("cifar-10", real_data(), {{"part", "test"}});
  ASSERT_EQ(train->size(), 50000);
  ASSERT_EQ(test->size(), 10000);
  EXPECT_EQ(labels_of(*train, 0, 5), (std::vector<int64_t>{6, 9, 9, 4, 1}));
  EXPECT_EQ(labels_of(*train, 49997, 3), (std::vector<int64_t>{9, 1, 1}));
  EXPECT_EQ(labels_of(*test, 0, 5), (std::vector<int64_t>{3, 8, 8, 0, 6}));
  EXPECT_EQ(sum_of<uint8_t>(train->at(0)[0]), 317790);
  EXPECT_EQ(sum_of<uint8_t>(train->at(49999)[0]), 405136);
  EXPECT_EQ(sum_of<uint8_t>(test->at(0)[0]), 332962);
}

TEST(NamedSets, Digits) {
  D5_NEEDS_REAL("digits/digits.csv.gz");
  const auto set = open_dataset("digits", real_data());
  ASSERT_EQ(set->size(), 1797);
  EXPECT_EQ(set->fields()[0].shape, (Shape{1, 8, 8}));
  EXPECT_EQ(labels_of(*set, 0, 5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  double sum = 0;
  for (Index i = 0; i < set->size(); ++i) {
    const Tensor values = set->at(i)[0];
    for (const float value : values.values<float>()) sum += value;
  }
  EXPECT_EQ(sum, 561718);
}

TEST(NamedSets, Text) {
  D5_NEEDS_REAL("text/tinyshakespeare-input.txt");
  const auto text = open_dataset("tiny-text", real_data());
  EXPECT_EQ(text->size(), (1115394 - 129) / 128 + 1);
  EXPECT_EQ(sum_of<uint8_t>(text->at(0)[0]), 11231);
  EXPECT_EQ(std::memcmp(text->at(0)[1].data(), "irst Citizen", 12), 0);
  const auto names = open_dataset("names", real_data());
  EXPECT_EQ(names->size(), 32033);
  EXPECT_EQ(std::memcmp(names->at(0)[0].data(), "emma", 4), 0);
  EXPECT_EQ(names->at(32032)[0].elements(), 5);  // zzyzx
}

TEST(NamedSets, LigoStrainInWindows) {
  D5_NEEDS_REAL("science/H-H1_LOSC_4_V2-1126259446-32.hdf5");
  if (!part_status("hdf5").available) GTEST_SKIP() << part_status("hdf5").reason;
  const auto set = open_dataset("ligo", real_data());
  ASSERT_EQ(set->size(), 32);
  EXPECT_EQ(set->at(0)[0].values<double>()[0], 2.177040281449375e-19);
  EXPECT_EQ(set->at(1)[0].values<double>()[0], 9.067308911616297e-21);
  EXPECT_EQ(set->at(31)[0].values<double>()[4095], 7.5812119511653e-20);
}

TEST(NamedSets, CaltechPixelsAreThoseOfPillow) {
  D5_NEEDS_REAL("jpegs/caltech101-3perclass");
  if (!part_status("jpeg").available) GTEST_SKIP() << part_status("jpeg").reason;
  const auto set = open_dataset("caltech-101", real_data(), {{"size", int64_t{0}}});
  ASSERT_EQ(set->size(), 306);
  EXPECT_EQ(set->fields()[1].classes, 102);
  EXPECT_EQ(set->at(0)[0].shape(), (Shape{3, 144, 145}));
  int64_t sum = 0;
  for (Index i = 0; i < set->size(); ++i) sum += sum_of<uint8_t>(set->at(i)[0]);
  EXPECT_EQ(sum, 8785213841);
  const auto fixed = open_dataset("caltech-101", real_data(), {{"size", int64_t{64}}, {"order", "hwc"}});
  EXPECT_EQ(fixed->at(7)[0].shape(), (Shape{64, 64, 3}));
}

TEST(NamedSets, ImageNetInThreeLayouts) {
  const TemporaryFolder folder;
  const InMemory photos = pictures(4, {3, 40, 50}, 2);
  write_container("folder", photos, folder / "imagenet/train", {{"format", "raw"}});
  const auto from_folder = open_dataset("imagenet", folder.path(), {{"size", int64_t{32}}});
  ASSERT_EQ(from_folder->size(), 4);
  EXPECT_EQ(from_folder->fields()[0].shape, (Shape{3, 32, 32}));
  const auto encoded = open_container("folder", folder / "imagenet/train");
  write_container("tar", *encoded, folder / "imagenet/train-000.tar");
  write_container("tfrecord", *encoded, folder / "imagenet/train-00000-of-00001", {{"first-class", int64_t{1}}});
  for (const char* layout : {"tar", "tfrecord"}) {
    const auto set = open_dataset("imagenet", folder.path(), {{"layout", layout}, {"size", int64_t{32}}});
    ASSERT_NO_FATAL_FAILURE(expect_same_samples(*set, *from_folder)) << layout;
    EXPECT_EQ(set->fields()[1].classes, 1000);
  }
}

TEST(NamedSets, OnlyWhatThePartNeedsMustBeThere) {
  const TemporaryFolder folder;
  const auto bad = [&](const std::string& name, const Attributes& options) {
    const std::vector<FileVerdict> all = verify_files(name, folder.path(), options);
    return std::ranges::count(all, false, &FileVerdict::good);
  };
  write_container("folder", pictures(4, {3, 8, 8}, 2), folder / "made", {{"format", "raw"}});
  const auto encoded = open_container("folder", folder / "made");
  write_container("tar", *encoded, folder / "imagenet/train-000.tar");
  write_container("tfrecord", *encoded, folder / "imagenet/validation-00000-of-00001", {{"first-class", int64_t{1}}});
  EXPECT_EQ(bad("imagenet", {}), 0);
  EXPECT_EQ(bad("imagenet", {{"part", "val"}}), 0);
  std::filesystem::remove(folder / "imagenet/train-000.tar");
  EXPECT_EQ(bad("imagenet", {}), 1);
  EXPECT_EQ(bad("imagenet", {{"part", "val"}}), 0);
  EXPECT_EQ(bad("mnist", {{"part", "test"}}), 2);
}

TEST(NamedSets, TellTheFilesThatTheyRead) {
  const TemporaryFolder folder;
  const InMemory photos = pictures(4, {3, 40, 50}, 2);
  write_container("folder", photos, folder / "imagenet/train", {{"format", "raw"}});
  const auto from_folder = open_dataset("imagenet", folder.path());
  EXPECT_EQ(from_folder->files().size(), 4u);
  write_container("tar", *open_container("folder", folder / "imagenet/train"), folder / "imagenet/train-000.tar");
  const std::string tar = folder / "imagenet/train-000.tar";
  const auto from_tar = open_dataset("imagenet", folder.path(), {{"layout", "tar"}});
  EXPECT_EQ(from_tar->files(), (std::vector<std::string>{tar, tar + ".d5index"}));
  EXPECT_EQ(open_dataset("imagenet", folder.path(), {{"layout", "tar"}})->files(), from_tar->files());
  write_container("idx", pictures(3, {1, 4, 4}, 2), folder / "x-images-idx3-ubyte");
  write_container("idx", pictures(3, {1, 4, 4}, 2), folder / "y-images-idx3-ubyte.gz");
  EXPECT_EQ(open_container("idx", folder / "x-images-idx3-ubyte")->files().size(), 1u);
  EXPECT_TRUE(open_container("idx", folder / "y-images-idx3-ubyte.gz")->files().empty());
}

TEST(NamedSets, MissingFilesSayWhatToFetchAndWhere) {
  const TemporaryFolder folder;
  for (const std::string& name : registry_names(datasets::kind)) {
    if (registered<datasets>(name).files.empty()) continue;  // generated
    if (name == "ligo" && !part_status("hdf5").available) continue;
    try {
      open_dataset(name, folder.path());
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(folder.path()), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("https://"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(open_dataset("mnistt", folder.path()), UsageError);
  EXPECT_THROW(open_dataset("mnist", folder.path(), {{"part", "trian"}}), UsageError);
}

TEST(NamedSets, ADamagedFileIsFoundByItsSum) {
  D5_NEEDS_REAL("mnist/t10k-labels-idx1-ubyte.gz");
  const TemporaryFolder folder;
  std::filesystem::copy(real_data() + "/mnist", folder / "mnist");
  std::filesystem::permissions(folder / "mnist/t10k-labels-idx1-ubyte.gz", std::filesystem::perms::owner_all);
  std::string bytes = contents_of(folder / "mnist/t10k-labels-idx1-ubyte.gz");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  write_file(folder / "mnist/t10k-labels-idx1-ubyte.gz", bytes);
  int bad = 0;
  for (const FileVerdict& verdict : verify_files("mnist", folder.path())) bad += !verdict.good;
  EXPECT_EQ(bad, 1);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
}

TEST(NamedSets, AFilePackedAnewIsKnownByWhatItHolds) {
  D5_NEEDS_REAL("mnist/t10k-labels-idx1-ubyte.gz");
  const TemporaryFolder folder;
  const std::string published = contents_of(real_data() + "/mnist/t10k-labels-idx1-ubyte.gz");
  const std::string packed = folder / "mnist/t10k-labels-idx1-ubyte.gz",
                    unpacked = folder / "mnist/t10k-labels-idx1-ubyte";
  const auto verdict = [&](const std::string& path) {
    const std::vector<FileVerdict> all = verify_files("mnist", folder.path());
    return *std::ranges::find(all, path, &FileVerdict::path);
  };
  std::filesystem::create_directories(folder / "mnist");
  // gzip of nothing behind it (RFC 1952): another file with the same contents
  const std::string nothing("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
  write_file(packed, published + nothing);
  EXPECT_TRUE(verdict(packed).good);
  EXPECT_TRUE(verdict(packed).note.starts_with("repacked")) << verdict(packed).note;
  const auto contents = whole_contents(packed, 1 << 20);
  std::filesystem::remove(packed);
  std::string labels(static_cast<size_t>(contents->size()), '\0');
  contents->copy(0, contents->size(), labels.data());
  write_file(unpacked, labels);
  EXPECT_TRUE(verdict(unpacked).good) << verdict(unpacked).note;
  labels[100] ^= 1;
  write_file(unpacked, labels);
  EXPECT_FALSE(verdict(unpacked).good);
}

TEST(NamedSets, FetchSaysWhatToDoByHand) {
  const TemporaryFolder folder;
  try {
    fetch_dataset("imagenet", folder.path(), [](const std::string&) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("image-net.org"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("1d675b47d978889d74fa0da5fadfb00e"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace d5
