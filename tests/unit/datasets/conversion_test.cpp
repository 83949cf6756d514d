// SPDX-License-Identifier: Apache-2.0
// From one container into another: values and labels stay, or it is refused; nothing is left of what failed.
#include <gmock/gmock.h>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/crc32c.hpp"
#include "d5/datasets/npy.hpp"
#include "d5/datasets/parts.hpp"
#include "d5/datasets/unpack.hpp"
#include "d5/datasets/views.hpp"
#include "d5/datasets/wire_format.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

bool is_off(const std::string& container) {
  for (const PartStatus& part : all_of_kind("container"))
    if (part.name == container) return !part.available;
  return true;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<int64_t> labels_of(const Dataset& set, size_t field) {
  std::vector<int64_t> labels;
  for (Index i = 0; i < set.size(); ++i) labels.push_back(set.at(i)[field].values<int64_t>()[0]);
  return labels;
}

// The first test labels of MNIST: classes 3 and 8 are not among them.
InMemory digits() {
  InMemory all = pictures(10, {3, 32, 32}, 10);
  std::vector<Sample> samples;
  for (Index i = 0; const int64_t label : {7, 2, 1, 0, 4, 1, 4, 9, 5, 9})
    samples.push_back({all.at(i++)[0], Tensor::from<int64_t>({}, {label})});
  return {all.fields(), std::move(samples)};
}

class SecondIsBroken : public InMemory {
 public:
  explicit SecondIsBroken(InMemory set) : InMemory(std::move(set)) {}
  void read(Index i, Sample& into) const override {
    if (i == 1) throw SampleError("broken");
    InMemory::read(i, into);
  }
};

TEST(Conversion, EveryContainerOfPicturesIntoEveryOther) {
  const std::vector<std::pair<std::string, std::string>> all{{"idx", "x-images-idx4-ubyte.gz"},
                                                             {"cifar", "x.bin"},
                                                             {"tar", "x.tar"},
                                                             {"tfrecord", "x.tfrecord"},
                                                             {"npz", "x.npz"},
                                                             {"raw", "x.d5raw"},
                                                             {"hdf5", "x.h5"},
                                                             {"lmdb", "x.lmdb"}};
  const InMemory set = digits();
  for (const auto& [from, first] : all) {
    if (is_off(from)) continue;
    const TemporaryFolder folder;
    write_container(from, set, folder / first);
    const auto read = open_container(guess_container(folder / first), folder / first);
    for (const auto& [to, second] : all) {
      if (is_off(to)) continue;
      write_container(to, *read, folder / ("again/" + second));
      const auto again = open_container(guess_container(folder / ("again/" + second)), folder / ("again/" + second));
      ASSERT_NO_FATAL_FAILURE(expect_same_samples(*again, set)) << from << " into " << to;
    }
  }
}

TEST(Conversion, AFolderKeepsTheNumbersOfClassesThatHaveNoPictures) {
  const TemporaryFolder folder;
  write_container("folder", digits(), folder / "pictures", {{"format", "raw"}});
  const auto read = open_container("folder", folder / "pictures");
  EXPECT_EQ(read->fields()[1].classes, 10);
  EXPECT_EQ(labels_of(*read, 1), (std::vector<int64_t>{0, 1, 1, 2, 4, 4, 5, 7, 9, 9}));
  // what begins with a dot is no class
  std::filesystem::create_directories(folder / "pictures/.git");
  std::filesystem::copy_file(read->where(0), folder / "pictures/.git/a.ppm");
  std::filesystem::create_directories(folder / "pictures/00000/.hidden");
  std::filesystem::copy_file(read->where(0), folder / "pictures/00000/.hidden/a.ppm");
  EXPECT_EQ(open_container("folder", folder / "pictures")->fields()[1].classes, 10);
  EXPECT_EQ(open_container("folder", folder / "pictures")->size(), 10);
}

TEST(Conversion, AFolderIsThereWholeOrNotAtAll) {
  const TemporaryFolder folder;
  write_container("folder", digits(), folder / "pictures", {{"format", "raw"}});
  EXPECT_THAT(error_of([&] { write_container("folder", digits(), folder / "pictures"); }), HasSubstr("mixed"));
  std::vector<Sample> samples{digits().at(0), digits().at(1)};
  samples[1][1] = Tensor::from<int64_t>({}, {-1});
  const InMemory bad(digits().fields(), samples);
  EXPECT_THROW(write_container("folder", bad, folder / "new/bad", {{"format", "raw"}}), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  for (const auto& [name, file] :
       std::vector<std::pair<std::string, std::string>>{{"hdf5", "x.h5"}, {"lmdb", "x.lmdb"}}) {
    if (is_off(name)) continue;
    const SecondIsBroken half(digits());
    EXPECT_ANY_THROW(write_container(name, half, folder / ("new/" + file))) << name;
    EXPECT_FALSE(std::filesystem::exists(folder / ("new/" + file))) << name;
    for (const auto& left : std::filesystem::recursive_directory_iterator(folder.path()))
      EXPECT_EQ(left.path().string().find(".part"), std::string::npos) << left.path();
  }
}

TEST(Conversion, TextIsLinesOrWindowsThatFollowEachOther) {
  const TemporaryFolder folder;
  write_file(folder / "names.txt", "emma\nolivia\n\nava\n");
  const auto lines = open_container("text", folder / "names.txt", {{"unit", "lines"}});
  write_container("text", *lines, folder / "again.txt");
  EXPECT_EQ(contents_of(folder / "again.txt"), "emma\nolivia\n\nava\n");
  EXPECT_THROW(write_container("text", digits(), folder / "x.txt"), UsageError);
  const auto strided = open_container("text", folder / "names.txt", {{"window", int64_t{4}}, {"stride", int64_t{2}}});
  EXPECT_THAT(error_of([&] { write_container("text", *strided, folder / "x.txt"); }), HasSubstr("follow each other"));
  const InMemory two({{"line", DType::u8, {}, {}}}, {{Tensor::from<uint8_t>({3}, {'a', '\n', 'b'})}});
  EXPECT_THAT(error_of([&] { write_container("text", two, folder / "x.txt"); }), HasSubstr("end of a line"));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.txt"));
}

TEST(Conversion, CsvSaysItsColumnsAndAllDigits) {
  const TemporaryFolder folder;
  const InMemory set({{"a,b", DType::f64, Shape{2}, {}}, {"n", DType::i64, Shape{}, {}}},
                     {{Tensor::from<double>({2}, {0.1, 1.0 / 3}), Tensor::from<int64_t>({}, {(int64_t{1} << 53) + 1})},
                      {Tensor::from<double>({2}, {-1e300, 0}), Tensor::from<int64_t>({}, {1})}});
  write_container("csv", set, folder / "x.csv");
  EXPECT_EQ(contents_of(folder / "x.csv"), "a_b_0,a_b_1,n\n0.1,0.3333333333333333,9007199254740993\n-1e+300,0,1\n");
  const auto exact = open_container("csv", folder / "x.csv", {{"dtype", "f64"}});
  ASSERT_EQ(exact->fields().size(), 1u);  // no column is called label
  EXPECT_EQ(exact->at(0)[0].values<double>()[1], 1.0 / 3);
  write_container("csv", set, folder / "x.tsv");
  EXPECT_THAT(contents_of(folder / "x.tsv"), testing::StartsWith("a,b_0\ta,b_1\tn\n"));
  EXPECT_EQ(open_container("csv", folder / "x.tsv")->fields()[0].shape, Shape{3});
  const InMemory whole({{"n", DType::i64, Shape{}, {}}}, {{Tensor::from<int64_t>({}, {(int64_t{1} << 53) + 1})}});
  write_container("csv", whole, folder / "n.csv");
  EXPECT_EQ(open_container("csv", folder / "n.csv", {{"dtype", "i64"}})->at(0)[0].values<int64_t>()[0],
            (int64_t{1} << 53) + 1);
}

TEST(Conversion, TheLabelOfCsvIsTakenOnlyBeyondDoubt) {
  const TemporaryFolder folder;
  const auto fields = [&](const std::string& text) {
    write_file(folder / "x.csv", text);
    return open_container("csv", folder / "x.csv")->fields().size();
  };
  EXPECT_EQ(fields("a,label,b\n1,0,2\n3,1,4\n"), 2u);
  EXPECT_EQ(fields("a,b\n1,0\n2,1\n"), 1u);
  EXPECT_EQ(fields("5,0\n6,2\n7,1\n"), 2u);    // 0, 1 and 2
  EXPECT_EQ(fields("5,0\n6,2\n7,3\n"), 1u);    // there is no 1
  EXPECT_EQ(fields("5,0\n6,0.5\n7,1\n"), 1u);  // no class
  EXPECT_EQ(fields("5,0\n6,0\n"), 1u);         // one class is none
}

TEST(Conversion, PackedFilesOnlyWhereTheyAreRead) {
  const TemporaryFolder folder;
  const InMemory one({{"value", DType::u8, Shape{2}, {}}}, {{Tensor::from<uint8_t>({2}, {1, 2})}});
  for (const std::string name : {"npy", "npz", "tfrecord", "raw", "tar"}) {
    const std::string path = folder / ("x." + registered<containers>(name).endings.front().substr(1) + ".gz");
    EXPECT_THAT(error_of([&] { guess_container(path); }), HasSubstr("gunzip")) << path;
    EXPECT_THAT(error_of([&] { write_container(name, one, path); }), HasSubstr("packed")) << path;
    EXPECT_THAT(error_of([&] { open_container(name, path); }), HasSubstr("packed")) << path;
  }
  EXPECT_THAT(error_of([&] { guess_container(folder / "x.bin.gz"); }), HasSubstr("gunzip"));
  EXPECT_THAT(error_of([&] { write_container("cifar", digits(), folder / "x.bin.gz"); }), HasSubstr("NAME.bin"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(guess_container("cifar-10-binary.tar.gz"), "cifar");
  EXPECT_EQ(guess_container("x.tsv.gz"), "csv");
}

TEST(Conversion, TheClassesOfOneCifarFileAreSeenByItsSize) {
  const TemporaryFolder folder;
  write_file(folder / "x.bin", std::string(2 * 3074, '\5'));
  EXPECT_EQ(open_container("cifar", folder / "x.bin")->fields()[1].classes, 100);
  write_file(folder / "y.bin", std::string(1000, '\5'));
  EXPECT_THAT(error_of([&] { open_container("cifar", folder / "y.bin"); }), HasSubstr("classes=100"));
}

TEST(Conversion, NamesOfFieldsWithFoldersInTar) {
  const TemporaryFolder folder;
  const InMemory set({{"strain/Strain", DType::f32, Shape{2}, {}}},
                     {{Tensor::from<float>({2}, {1, 2})}, {Tensor::from<float>({2}, {3, 4})}});
  write_container("tar", set, folder / "x.tar");
  const auto read = open_container("tar", folder / "x.tar");
  expect_same_samples(*read, set);
  EXPECT_EQ(read->fields()[0].name, "strain_strain");
  const InMemory same({{"a/b", DType::f32, Shape{}, {}}, {"a_b", DType::f32, Shape{}, {}}}, {});
  EXPECT_THROW(write_container("tar", same, folder / "y.tar"), UsageError);
}

TEST(Conversion, HardLinksOfATarAreTheirMembers) {
  const TemporaryFolder folder;
  const auto member = [](const std::string& name, const std::string& text) {
    return tar_header(name, text.size()) + text + std::string(tar_padding(text.size()), '\0');
  };
  const auto link = [](const std::string& name, const std::string& to) {
    std::string block = tar_header(name, 0);
    block[156] = '1';
    block.replace(157, to.size(), to);
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<uint8_t>(c);
    block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    return block;
  };
  write_file(folder / "x.tar",
             member("0.ppm", "first") + link("1.ppm", "./0.ppm") + link("2.ppm", "none.ppm") + std::string(1024, '\0'));
  const auto set = open_container("tar", folder / "x.tar");
  ASSERT_EQ(set->size(), 3);
  expect_same(set->at(1)[0], set->at(0)[0], "the link");
  EXPECT_THAT(error_of([&] { set->at(2); }), HasSubstr("x.tar, 2"));
}

TEST(Conversion, ClassesOfWholeFieldsAreNoLabel) {
  const TemporaryFolder folder;
  const InMemory set({{"fields", DType::f32, Shape{2}, {}}, {"mask", DType::u8, Shape{2}, 3}},
                     {{Tensor::from<float>({2}, {0.5f, 1}), Tensor::from<uint8_t>({2}, {2, 0})}});
  write_container("csv", set, folder / "x.csv");
  EXPECT_EQ(contents_of(folder / "x.csv"), "fields_0,fields_1,mask_0,mask_1\n0.5,1,2,0\n");
  EXPECT_THROW(write_container("idx", set, folder / "x-images-idx2-ubyte"), UsageError);
}

// A zip of arrays as Keras lays them down: parts of another size beside each other.
TEST(Conversion, ArraysOfNumpyAreChosen) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.npz";
  write_npz(path, {{"x_train", Tensor::from<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                   {"y_train", Tensor::from<uint8_t>({3}, {2, 0, 1})},
                   {"x_test", Tensor::from<float>({1, 2}, {7, 8})},
                   {"y_test", Tensor::from<uint8_t>({1}, {1})},
                   {"scale", Tensor::from<float>({}, {0.5f})}});
  EXPECT_THAT(error_of([&] { open_container("npz", path); }), HasSubstr("x_train f32[3x2], y_train u8[3], x_test"));
  EXPECT_THAT(error_of([&] { open_container("npz", path, {{"arrays", "x_train,z"}}); }), HasSubstr("no array 'z'"));
  const auto train = open_container("npz", path, {{"arrays", "x_train,y_train"}});
  EXPECT_EQ(train->fields()[1].name, "label");
  EXPECT_EQ(labels_of(*train, 1), (std::vector<int64_t>{2, 0, 1}));
  const auto test = open_container("npz", path, {{"arrays", "x_test,y_test"}});
  ASSERT_EQ(test->size(), 1);
  EXPECT_EQ(test->at(0)[0].values<float>()[1], 8);
  write_npz(path, {{"x", Tensor::from<float>({1, 2}, {7, 8})}, {"scale", Tensor::from<float>({}, {0.5f})}});
  EXPECT_EQ(open_container("npz", path)->fields().size(), 1u);
}

TEST(Conversion, ArraysOfHdf5AreChosen) {
  if (is_off("hdf5")) GTEST_SKIP() << part_status("hdf5").reason;
  const TemporaryFolder folder;
  const InMemory set({{"half", DType::f16, Shape{2}, {}}, {"truth", DType::boolean, Shape{2}, {}}},
                     {{Tensor::from<float>({2}, {0.5f, -65504}).cast(DType::f16),
                       Tensor::from<float>({2}, {0, 1}).cast(DType::boolean)}});
  for (const int64_t chunk : {0, 1}) {
    write_container("hdf5", set, folder / "x.h5", {{"chunk", chunk}});
    const auto read = open_container("hdf5", folder / "x.h5");
    expect_same_samples(*read, set);
  }
  D5_NEEDS_REAL("science/H-H1_LOSC_4_V2-1126259446-32.hdf5");
  const std::string ligo = real_data() + "/science/H-H1_LOSC_4_V2-1126259446-32.hdf5";
  EXPECT_THAT(error_of([&] { open_container("hdf5", ligo); }), HasSubstr("strain/Strain f64[131072]"));
  EXPECT_EQ(open_container("hdf5", ligo, {{"arrays", "strain/Strain"}})->size(), 131072);
}

// tf.train.Example { x: `values` floats, y: one integer }, as a record with its sums.
std::string record_of(int values, int64_t y) {
  const auto wrapped = [](uint32_t field, const std::string& text) {
    std::string out;
    put_bytes(out, field, text);
    return out;
  };
  std::string floats, integers;
  for (int k = 0; k < values; ++k) append_little(floats, static_cast<float>(k) + 0.5f);
  put_varint(integers, static_cast<uint64_t>(y));
  const std::string x = wrapped(1, "x") + wrapped(2, wrapped(2, wrapped(1, floats)));
  const std::string label = wrapped(1, "y") + wrapped(2, wrapped(3, wrapped(1, integers)));
  std::string record = wrapped(1, wrapped(1, x) + wrapped(1, label)), head;
  append_little(head, static_cast<uint64_t>(record.size()));
  append_little(head, masked(crc32c(head.data(), 8)));
  append_little(record, masked(crc32c(record.data(), record.size())));
  return head + record;
}

TEST(Conversion, TfRecordsOfOthersHaveTheShapesOfTheirFirstRecords) {
  const TemporaryFolder folder;
  std::string records;
  for (int64_t i = 0; i < 20; ++i) records += record_of(i == 18 ? 3 : 4, i % 3);
  write_file(folder / "x.tfrecord", records);
  const auto set = open_container("tfrecord", folder / "x.tfrecord");
  ASSERT_EQ(set->fields().size(), 2u);
  EXPECT_EQ(set->fields()[0].shape, Shape{4});
  EXPECT_EQ(set->fields()[1].shape, Shape{});
  EXPECT_EQ(batched(set, 6)->at(1)[1].values<int64_t>()[2], 2);
  EXPECT_THAT(error_of([&] { set->at(18); }), HasSubstr("record 18"));
  write_file(folder / "y.tfrecord", record_of(4, 0) + record_of(3, 1));
  EXPECT_FALSE(open_container("tfrecord", folder / "y.tfrecord")->fields()[0].shape);
}

}  // namespace
}  // namespace d5
