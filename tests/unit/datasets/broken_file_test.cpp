// SPDX-License-Identifier: Apache-2.0
// Files that are cut short, damaged or changed while they are read: an error that names the file, never a crash.
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/parts.hpp"
#include "d5/datasets/record_index.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

// Reads all there is; the number of samples that are errors. Any other exception is let through.
Index broken_samples(const Dataset& set) {
  Index broken = 0;
  for (Index i = 0; i < std::min<Index>(set.size(), 1000); ++i) {  // a damaged count may be of any size
    try {
      set.at(i);
    } catch (const SampleError& error) {
      EXPECT_NE(std::string(error.what()), "");
      ++broken;
    }
  }
  return broken;
}

class BrokenFile : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BrokenFile, CutAnywhereIsAnErrorThatNamesTheFile) {
  const auto [container, file] = GetParam();
  const TemporaryFolder folder;
  const std::string whole_path = folder / file;
  write_container(container, pictures(7, {3, 32, 32}, 10), whole_path);
  const std::string whole = contents_of(whole_path);
  for (size_t keep = 0; keep < whole.size(); keep += keep < 700 ? 13 : 1009) {
    const std::string path = folder / ("cut-" + std::string(file));
    write_file(path, whole.substr(0, keep));
    try {
      const auto set = open_container(container, path,
                                      std::string(container) == "idx" ? Attributes{{"labels", "none"}} : Attributes{});
      // Formats without a count or an end may not know; then whole samples are all that is given.
      EXPECT_LE(set->size() - broken_samples(*set), 7) << keep;
      if (std::string(container) == "raw" || std::string(container) == "npz" || std::string(container) == "idx")
        FAIL() << "cut to " << keep;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cut-"), std::string::npos) << keep << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Containers, BrokenFile,
                         testing::Values(std::pair{"idx", "x-images-idx4-ubyte"}, std::pair{"cifar", "x.bin"},
                                         std::pair{"tar", "x.tar"}, std::pair{"tfrecord", "x.tfrecord"},
                                         std::pair{"npz", "x.npz"}, std::pair{"raw", "x.d5raw"}),
                         [](const auto& one) { return std::string(one.param.first); });

TEST(BrokenFiles, APackedFileThatEndsEarly) {
  const TemporaryFolder folder;
  write_container("idx", pictures(7, {3, 32, 32}, 10), folder / "x-images-idx4-ubyte.gz");
  const std::string whole = contents_of(folder / "x-images-idx4-ubyte.gz");
  write_file(folder / "y.gz", whole.substr(0, whole.size() / 2));
  EXPECT_THROW(open_container("idx", folder / "y.gz"), Error);
  std::string damaged = whole;
  for (size_t i = 40; i < 60; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
  write_file(folder / "z.gz", damaged);
  EXPECT_THROW(open_container("idx", folder / "z.gz"), Error);
}

TEST(BrokenFiles, AbsurdSizesTakeNoMemory) {
  const TemporaryFolder folder;
  write_file(folder / "x.idx", std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff", 16));
  EXPECT_THROW(open_container("idx", folder / "x.idx"), Error);
  write_file(folder / "y.idx", std::string("\0\0\x08\x02\x40\0\0\0\x40\0\0\0", 12));
  EXPECT_THROW(open_container("idx", folder / "y.idx"), Error);
  write_file(
      folder / "x.d5raw",
      "d5raw 1\n{\"samples\":4611686018427387904,\"fields\":[{\"name\":\"x\",\"dtype\":\"u8\",\"shape\":[4]}]}\n" +
          std::string(5000, 'x'));
  EXPECT_THROW(open_container("raw", folder / "x.d5raw"), Error);
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693951,), }";
  header = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  write_file(folder / "x.npy", header + "xx");
  EXPECT_THROW(open_container("npy", folder / "x.npy"), Error);
}

TEST(BrokenFiles, ADamagedFirstRecordIsOfThatSampleAlone) {
  const TemporaryFolder folder;
  write_container("tfrecord", pictures(3, {3, 4, 4}, 10), folder / "x.tfrecord");
  std::string bytes = contents_of(folder / "x.tfrecord");
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  write_file(folder / "x.tfrecord", bytes);
  const auto set = open_container("tfrecord", folder / "x.tfrecord");
  ASSERT_EQ(set->size(), 3);
  EXPECT_THROW(set->at(0), SampleError);
  EXPECT_EQ(set->at(1)[0].elements(), 48);
}

TEST(BrokenFiles, LabelsOutOfRangeNameTheSample) {
  const TemporaryFolder folder;
  write_container("cifar", pictures(3, {3, 32, 32}, 10), folder / "x.bin");
  std::string bytes = contents_of(folder / "x.bin");
  bytes[3073] = 10;
  write_file(folder / "x.bin", bytes);
  const auto set = open_container("cifar", folder / "x.bin");
  EXPECT_NO_THROW(set->at(0));
  EXPECT_NO_THROW(set->at(2));
  try {
    set->at(1);
    FAIL();
  } catch (const SampleError& error) {
    EXPECT_NE(std::string(error.what()).find("record 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("10"), std::string::npos) << error.what();
  }
}

TEST(BrokenFiles, AFileCutWhileItIsMapped) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not survive a jump out of the handler of SIGBUS";
#endif
  const TemporaryFolder folder;
  for (const auto& [container, file] : std::vector<std::pair<std::string, std::string>>{
           {"raw", "x.d5raw"}, {"tfrecord", "x.tfrecord"}, {"tar", "x.tar"}}) {
    write_container(container, pictures(50, {3, 32, 32}, 10), folder / file);
    const auto set = open_container(container, folder / file);
    EXPECT_EQ(broken_samples(*set), 0);
    std::filesystem::resize_file(folder / file, 20000);
    EXPECT_GT(broken_samples(*set), 30) << container;  // beyond the page that holds the end
    Sample row{Tensor(DType::u8, Shape{3, 32, 32}), Tensor(DType::i64, Shape{})};
    EXPECT_THROW(set->read(49, row), SampleError);
  }
}

// Files of libraries that trust them: cut at every length of a few bytes more, and with every byte of their structure
// turned to something else. An answer or an error is right; this process must live.
void expect_survival(const std::string& container, const std::string& whole, size_t step, const std::string& path) {
  const auto attempt = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      broken_samples(*open_container(container, path));
      return true;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      return false;
    }
  };
  EXPECT_TRUE(attempt(whole));
  for (size_t keep = 0; keep < whole.size(); keep += 8 * step) EXPECT_FALSE(attempt(whole.substr(0, keep))) << keep;
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); i += step)
    for (const int change : {0x01, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      refused += !attempt(bytes);
    }
  EXPECT_GT(refused, 0u);
}

// The number of rows, as the file of arrays has it, made absurd.
TEST(BrokenFiles, Hdf5WithRowsWithoutEnd) {
  if (!part_status("hdf5").available) GTEST_SKIP() << part_status("hdf5").reason;
  const TemporaryFolder folder;
  write_container("hdf5", pictures(29, {3, 4, 4}, 10), folder / "x.h5", {{"chunk", int64_t{4}}});
  std::string bytes = contents_of(folder / "x.h5");
  int changed = 0;
  const std::string rows("\x1d\0\0\0\0\0\0\0", 8);
  for (size_t at = bytes.find(rows); at != std::string::npos; at = bytes.find(rows, at + 8), ++changed)
    bytes[at + 5] = '\x30';
  ASSERT_GT(changed, 0);
  write_file(folder / "y.h5", bytes);
  EXPECT_THROW(open_container("hdf5", folder / "y.h5"), Error);
}

TEST(HostileFiles, Hdf5) {
  if (!part_status("hdf5").available) GTEST_SKIP() << part_status("hdf5").reason;
  const TemporaryFolder folder;
  expect_survival("hdf5", contents_of(test_file("arrays.h5")), 61, folder / "hostile.h5");
}

TEST(HostileFiles, Lmdb) {
  if (!part_status("lmdb").available) GTEST_SKIP() << part_status("lmdb").reason;
  const TemporaryFolder folder;
  expect_survival("lmdb", contents_of(test_file("datum.lmdb")), 7, folder / "hostile.lmdb");
  // with branches and values on pages of their own
  write_container("lmdb", pictures(300, {3, 10, 10}, 10), folder / "branches.mdb");
  expect_survival("lmdb", contents_of(folder / "branches.mdb"), 1013, folder / "hostile.lmdb");
  write_container("lmdb", pictures(3, {3, 50, 50}, 10), folder / "overflow.mdb");
  expect_survival("lmdb", contents_of(folder / "overflow.mdb"), 211, folder / "hostile.lmdb");
}

TEST(HostileFiles, AnLmdbFileWhosePagesGoInCircles) {
  if (!part_status("lmdb").available) GTEST_SKIP() << part_status("lmdb").reason;
  const TemporaryFolder folder;
  write_container("lmdb", pictures(300, {3, 10, 10}, 10), folder / "x.mdb");
  const std::string whole = contents_of(folder / "x.mdb");
  // The root of the later head becomes the child of itself: its first node points to its own page.
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, whole.data() + at, 8);
    return value;
  };
  const size_t head = number(16 + 128) > number(4096 + 16 + 128) ? 0 : 4096;
  const uint64_t root = number(head + 16 + 112);
  std::string bytes = whole;
  uint16_t node = 0;
  std::memcpy(&node, whole.data() + root * 4096 + 16, 2);
  std::memcpy(bytes.data() + root * 4096 + node, &root, 6);
  write_file(folder / "x.mdb", bytes);
  try {
    open_container("lmdb", folder / "x.mdb");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("circles"), std::string::npos) << error.what();
  }
}

TEST(BrokenFiles, EmptyAndMissing) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  for (const char* name : {"idx", "npy", "npz", "raw", "csv", "text", "tar"})
    EXPECT_THROW(open_container(name, folder / "empty"), Error) << name;
  for (const char* name : {"idx", "npy", "npz", "raw", "csv", "text", "tar", "tfrecord", "cifar", "folder"})
    EXPECT_THROW(open_container(name, folder / "missing"), Error) << name;
  EXPECT_THROW(open_container("raw", folder.path()), Error);
}

TEST(RecordIndex, IsMadeOnceAndAgainWhenTheFileChanges) {
  const TemporaryFolder folder;
  const std::string archive = folder / "x.tar";
  write_container("tar", pictures(5, {1, 2, 2}, 4), archive);
  EXPECT_EQ(open_container("tar", archive)->size(), 5);
  ASSERT_TRUE(std::filesystem::exists(archive + ".d5index"));
  const auto made = std::filesystem::last_write_time(archive + ".d5index");
  EXPECT_EQ(open_container("tar", archive)->size(), 5);
  EXPECT_EQ(std::filesystem::last_write_time(archive + ".d5index"), made);
  write_container("tar", pictures(9, {1, 2, 2}, 4), archive);
  EXPECT_EQ(open_container("tar", archive)->size(), 9);
  // a damaged index is made again, whatever is wrong with it
  const std::string good = contents_of(archive + ".d5index");
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xff);
    write_file(archive + ".d5index", bad);
    try {
      const auto set = open_container("tar", archive);
      broken_samples(*set);
    } catch (const Error&) {
    }
  }
  write_file(archive + ".d5index", good.substr(0, good.size() - 1));
  expect_same_samples(*open_container("tar", archive), pictures(9, {1, 2, 2}, 4));
}

}  // namespace
}  // namespace d5
