// SPDX-License-Identifier: Apache-2.0
// Files that are cut short, damaged or changed while they are read: an error that names the file, never a crash.
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>

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

TEST(BrokenFiles, SumsOfPackedFilesAreLookedAt) {
  const TemporaryFolder folder;
  const auto opened = [&](const std::string& bytes) {
    write_file(folder / "y.idx.gz", bytes);
    return open_container("idx", folder / "y.idx.gz");
  };
  write_container("idx", pictures(7, {3, 32, 32}, 10), folder / "x-images-idx4-ubyte.gz");
  const std::string whole = contents_of(folder / "x-images-idx4-ubyte.gz");
  EXPECT_EQ(opened(whole)->size(), 7);
  for (const size_t back : {8u, 5u, 4u, 1u}) {  // the sum and the size behind what is packed (RFC 1952)
    std::string damaged = whole;
    damaged[whole.size() - back] ^= 1;
    EXPECT_THROW(opened(damaged), Error) << back;
    EXPECT_THROW(opened(whole.substr(0, whole.size() - back)), Error) << back;
  }
  EXPECT_THROW(opened(whole + whole), Error);  // more than the header tells
  write_container("idx", pictures(7, {3, 32, 32}, 10), folder / "x-images-idx4-ubyte");
  write_file(folder / "z.idx", contents_of(folder / "x-images-idx4-ubyte") + "x");
  EXPECT_THROW(open_container("idx", folder / "z.idx"), Error);
}

TEST(BrokenFiles, SumsOfArraysAreLookedAt) {
  const TemporaryFolder folder;
  write_container("npz", pictures(7, {3, 32, 32}, 10), folder / "x.npz");
  EXPECT_NO_THROW(open_container("npz", folder / "x.npz")->verify());
  std::string damaged = contents_of(folder / "x.npz");
  damaged[10000] ^= 1;
  write_file(folder / "y.npz", damaged);
  const auto set = open_container("npz", folder / "y.npz");  // stored: not read before it is used
  try {
    joined({set, set})->verify();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("y.npz"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("image"), std::string::npos) << error.what();
  }
  std::string packed = contents_of(test_file("packed.npz"));
  EXPECT_NO_THROW(open_container("npz", test_file("packed.npz"))->verify());
  packed[packed.find("PK\1\2") + 16] ^= 1;  // the sum, in the directory
  write_file(folder / "z.npz", packed);
  EXPECT_THROW(open_container("npz", folder / "z.npz"), Error);
}

TEST(BrokenFiles, AreNamedAndAreNoFaultOfTheUser) {
  const TemporaryFolder folder;
  const auto array = [](const std::string& shape) {
    const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header + std::string(100, 'x');
  };
  const auto raw = [](const std::string& type, const std::string& size) {
    return "d5raw 1\n{\"samples\":3,\"fields\":[{\"name\":\"x\",\"dtype\":\"" + type + "\",\"shape\":[" + size +
           "]}]}\n" + std::string(8192, 'x');
  };
  const InMemory plain({{"x", DType::u8, Shape{4}, {}}}, {{Tensor::from<uint8_t>({4}, {1, 2, 3, 4})}});
  write_container("tfrecord", plain, folder / "whole.tfrecord");
  std::string record = contents_of(folder / "whole.tfrecord");
  record.replace(record.find("u8"), 2, "zz");
  for (const auto& [container, name, contents] : std::vector<std::array<std::string, 3>>{
           {"npy", "a.npy", array("-3, 4")},
           {"npy", "b.npy", array("4611686018427387904, 4")},
           {"raw", "c.d5raw", raw("u8", "-4")},
           {"raw", "d.d5raw", raw("zz", "4")},
           {"tfrecord", "e.tfrecord", record},
           {"idx", "f.idx", std::string("\0\0\x0e\x05", 4) + std::string(20, '\xff') + std::string(100, 'x')}}) {
    write_file(folder / name, contents);
    try {
      open_container(container, folder / name, container == "tfrecord" ? Attributes{{"check", false}} : Attributes{});
      FAIL() << name;
    } catch (const UsageError& error) {
      FAIL() << error.what();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(folder / name), std::string::npos) << error.what();
    }
  }
}

TEST(BrokenFiles, APipeIsNoFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "x.npy").c_str(), 0600), 0);
  EXPECT_THROW(open_container("npy", folder / "x.npy"), Error);
}

TEST(BrokenFiles, ShortRowsOfATableTakeNoRoom) {
  const TemporaryFolder folder;
  std::string table;
  for (int i = 0; i < 200000; ++i) table += "1,";
  table += "2\n";
  for (int i = 0; i < 9000; ++i) table += "1\n";
  for (int i = 0; i < 200000; ++i) table += "3,";
  write_file(folder / "x.csv", table + "4\n");
  const auto most_used = [] {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;  // MiB
  };
  const long before = most_used();
  const auto set = open_container("csv", folder / "x.csv", {{"label", "last"}});
  EXPECT_LT(most_used() - before, 300);
  ASSERT_EQ(set->size(), 9002);
  EXPECT_THROW(set->at(1), SampleError);
  EXPECT_THROW(set->at(9000), SampleError);
  EXPECT_EQ(set->at(0)[1].values<int64_t>()[0], 2);
  EXPECT_EQ(set->at(9001)[0].values<float>()[7], 3);
  EXPECT_EQ(set->at(9001)[1].values<int64_t>()[0], 4);
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
