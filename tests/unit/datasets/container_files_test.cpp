// SPDX-License-Identifier: Apache-2.0
// Files that other programs wrote (files/make.py): NumPy, tarfile, protobuf, h5py, lmdb.
#include <map>

#include "d5/datasets/parts.hpp"
#include "d5/datasets/unpack.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

TEST(ForeignFiles, Npy) {
  const auto rows = open_container("npy", test_file("rows.npy"));
  ASSERT_EQ(rows->size(), 4);
  EXPECT_EQ(rows->fields()[0].shape, (Shape{2, 3}));
  EXPECT_EQ(rows->at(3)[0].values<float>()[5], 23.f / 8);
  const auto big = open_container("npy", test_file("big_endian.npy"));
  EXPECT_EQ(big->at(1)[0].values<int32_t>()[1], 40000);
  EXPECT_EQ(big->at(0)[0].values<int32_t>()[1], -2);
  // np.asfortranarray(np.arange(6.0).reshape(2, 3))
  const auto columns = open_container("npy", test_file("fortran.npy"));
  ASSERT_EQ(columns->size(), 2);
  EXPECT_EQ(columns->at(0)[0].values<double>()[1], 1);
  EXPECT_EQ(columns->at(1)[0].values<double>()[0], 3);
}

TEST(ForeignFiles, NpzStoredAndPacked) {
  for (const char* name : {"stored.npz", "packed.npz"}) {
    const auto set = open_container("npz", test_file(name));
    ASSERT_EQ(set->size(), 5) << name;
    EXPECT_EQ(set->fields()[1].classes, 6);
    EXPECT_EQ(set->at(4)[0].values<int16_t>()[11], 29);
    EXPECT_EQ(set->at(2)[1].values<int64_t>()[0], 4);
  }
}

TEST(ForeignFiles, TarWithLongNames) {
  for (const char* name : {"gnu.tar", "pax.tar"}) {
    const auto set = open_container("tar", test_file(name), {{"index", false}});
    ASSERT_EQ(set->size(), 2) << name;
    ASSERT_EQ(set->fields().size(), 2u);
    EXPECT_EQ(set->at(0)[0].elements(), 5896);
    EXPECT_EQ(set->at(0)[1].values<int64_t>()[0], 2);
    EXPECT_EQ(set->at(1)[1].values<int64_t>()[0], 0);
    EXPECT_TRUE(set->where(1).ends_with("deep/second")) << set->where(1);
  }
}

TEST(ForeignFiles, TarThatLeavesItsFolder) {
  const auto set = open_container("tar", test_file("hostile.tar"), {{"index", false}});
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->at(0)[0].elements(), 3);
  try {
    set->at(1);
    FAIL();
  } catch (const SampleError& error) {
    EXPECT_NE(std::string(error.what()).find("../../outside"), std::string::npos) << error.what();
  }
}

std::string first_part(const Dataset& set, Index i) {
  const Tensor part = set.at(i)[0];
  return {static_cast<const char*>(part.data()), part.bytes()};
}

TEST(ForeignFiles, LinksOfATarAreTheMembersTheyLeadTo) {
  for (const char* name : {"links_gnu.tar", "links_pax.tar"}) {
    const auto set = open_container("tar", test_file(name), {{"index", false}, {"labels", "none"}});
    std::map<std::string, Index> number;
    for (Index i = 0; i < set->size(); ++i) number[set->where(i).substr(set->where(i).rfind(' ') + 1)] = i;
    ASSERT_EQ(set->size(), 15) << name;  // "shown" leads to a folder and is none
    for (const char* key : {"a/1", "a/2", "b/3", "b/4", "d/7", "d/8"})
      EXPECT_EQ(first_part(*set, number.at(key)), "first") << key;
    EXPECT_EQ(first_part(*set, number.at("b/5")), "far");
    const std::vector<std::pair<const char*, const char*>> lost{{"c/1", "leaves the archive"},
                                                                {"c/2", "leaves the archive"},
                                                                {"c/3", "circle"},
                                                                {"c/4", "circle"},
                                                                {"c/5", "not in the archive"},
                                                                {"c/6", "not in the archive"},
                                                                {"d/9", "not in the archive"}};
    for (const auto& [key, why] : lost) {
      try {
        set->at(number.at(key));
        ADD_FAILURE() << key;
      } catch (const SampleError& error) {
        EXPECT_NE(std::string(error.what()).find(fmt::format("{}: its part .image is a link", key)), std::string::npos)
            << error.what();
        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      }
    }
    const auto labelled = open_container("tar", test_file(name), {{"index", false}});
    EXPECT_EQ(labelled->at(number.at("b/4"))[1].values<int64_t>()[0], 1);
  }
}

TEST(ForeignFiles, ALabelThatLeavesTheFolderSpoilsNoOtherSample) {
  const TemporaryFolder folder;
  std::string archive;
  for (const char* name : {"a.ppm", "a.cls", "../b.ppm", "../b.cls", "c.ppm", "c.cls"})
    archive += tar_header(name, 1) + "1" + std::string(tar_padding(1), '\0');
  write_file(folder / "x.tar", archive + std::string(1024, '\0'));
  const auto set = open_container("tar", folder / "x.tar", {{"index", false}});
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->at(0)[1].values<int64_t>()[0], 1);
  EXPECT_EQ(set->at(2)[1].values<int64_t>()[0], 1);
  EXPECT_THROW(set->at(1), SampleError);
}

TEST(ForeignFiles, TfRecordOfImageNet) {
  const auto set = open_container("tfrecord", test_file("examples.tfrecord"),
                                  {{"first-class", int64_t{1}}, {"classes", int64_t{1000}}, {"index", false}});
  ASSERT_EQ(set->size(), 2);
  ASSERT_EQ(set->fields()[0].name, "image");
  ASSERT_EQ(set->fields()[1].name, "label");
  const std::string photo = contents_of(test_file("photo.jpg"));
  const Tensor image = set->at(1)[0];
  EXPECT_EQ(std::string(static_cast<const char*>(image.data()), image.bytes()), photo);
  EXPECT_EQ(set->at(0)[1].values<int64_t>()[0], 0);
  EXPECT_EQ(set->at(1)[1].values<int64_t>()[0], 999);
  // without the shift, 1000 is no class of 1000
  const auto unshifted =
      open_container("tfrecord", test_file("examples.tfrecord"), {{"classes", int64_t{1000}}, {"index", false}});
  EXPECT_NO_THROW(unshifted->at(0));
  EXPECT_THROW(unshifted->at(1), SampleError);
  const auto other =
      open_container("tfrecord", test_file("examples.tfrecord"), {{"image", "-"}, {"label", "-"}, {"index", false}});
  ASSERT_EQ(other->fields().size(), 3u);
  for (size_t f = 0; f < 3; ++f)
    if (other->fields()[f].name == "image/object/bbox") {
      EXPECT_EQ(other->at(1)[f].values<float>()[2], 1000.f);
    }
}

TEST(ForeignFiles, TfRecordSumsAreChecked) {
  const TemporaryFolder folder;
  std::string bytes = contents_of(test_file("examples.tfrecord"));
  bytes[bytes.size() - 100] ^= 1;  // in the second record
  write_file(folder / "x.tfrecord", bytes);
  const auto set = open_container("tfrecord", folder / "x.tfrecord");
  EXPECT_NO_THROW(set->at(0));
  try {
    set->at(1);
    FAIL();
  } catch (const SampleError& error) {
    EXPECT_NE(std::string(error.what()).find("record 1"), std::string::npos) << error.what();
  }
  bytes = contents_of(test_file("examples.tfrecord"));
  bytes[3] ^= 1;  // in the length of the first
  write_file(folder / "y.tfrecord", bytes);
  EXPECT_THROW(open_container("tfrecord", folder / "y.tfrecord"), Error);
}

TEST(ForeignFiles, Hdf5) {
  if (!part_status("hdf5").available) GTEST_SKIP() << part_status("hdf5").reason;
  const auto set = open_container("hdf5", test_file("arrays.h5"), {{"arrays", "x,packed,big,label"}});
  ASSERT_EQ(set->size(), 5);
  EXPECT_EQ(set->at(4)[0].values<int16_t>()[11], 29);
  EXPECT_DOUBLE_EQ(set->at(4)[1].values<double>()[3], 1.0);
  EXPECT_DOUBLE_EQ(set->at(0)[1].values<double>()[1], 1.0 / 19);
  EXPECT_EQ(set->at(3)[2].values<float>()[0], 3.f);
  EXPECT_EQ(set->at(2)[3].values<int64_t>()[0], 4);
  EXPECT_EQ(open_container("hdf5", test_file("arrays.h5"))->fields().size(), 4u);
  EXPECT_THROW(open_container("hdf5", test_file("arrays.h5"), {{"arrays", "text"}}), Error);
  EXPECT_THROW(open_container("hdf5", test_file("rows.npy")), Error);
  const auto windows = open_container("hdf5", test_file("arrays.h5"),
                                      {{"arrays", "big"}, {"window", int64_t{3}}, {"stride", int64_t{1}}});
  ASSERT_EQ(windows->size(), 3);
  EXPECT_EQ(windows->at(2)[0].values<float>()[2], 4.f);
}

TEST(ForeignFiles, Lmdb) {
  if (!part_status("lmdb").available) GTEST_SKIP() << part_status("lmdb").reason;
  const auto set = open_container("lmdb", test_file("datum.lmdb"));
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->fields()[0].shape, (Shape{3, 2, 2}));
  EXPECT_EQ(set->at(2)[0].values<uint8_t>()[11], 13);
  EXPECT_EQ(set->at(2)[1].values<int64_t>()[0], 5);
}

}  // namespace
}  // namespace d5
