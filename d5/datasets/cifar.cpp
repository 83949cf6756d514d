// SPDX-License-Identifier: Apache-2.0
// The binary version of CIFAR (A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records
// of a label and 3 x 32 x 32 bytes, red first; CIFAR-100 has two labels, coarse and fine. A folder with
// data_batch_1.bin ... test_batch.bin or train.bin and test.bin; the archive of it (.tar, .tar.gz, .tar.xz), unpacked
// once into the user's cache; or one such file.
#include <algorithm>
#include <array>
#include <filesystem>

#include "d5/datasets/container.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/unpack.hpp"

namespace d5 {
namespace {

constexpr uint64_t pixels = 3 * 32 * 32;
const std::vector<std::string> train_10{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                        "data_batch_5.bin"};

class CifarFile : public Dataset {
 public:
  CifarFile(const std::string& path, int64_t classes)
      : file_(FileBytes::map(path)), labels_(classes == 10 ? 1 : 2), record_(labels_ + pixels) {
    if (file_->size() % record_ != 0)
      throw Error(
          "[cifar] {}: {} bytes are no whole number of records of {} bytes, which classes={} have; legal: "
          "classes=10 ({} bytes), classes=100 ({} bytes)",
          path, file_->size(), record_, classes, pixels + 1, pixels + 2);
    size_ = static_cast<Index>(file_->size() / record_);
    fields_ = {{"image", DType::u8, Shape{3, 32, 32}, {}}, {"label", DType::i64, Shape{}, classes}};
    if (labels_ == 2) fields_.push_back({"coarse", DType::i64, Shape{}, 20});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const uint64_t at = static_cast<uint64_t>(i) * record_;
    file_->give(into, 0, DType::u8, *fields_[0].shape, at + labels_);
    std::array<uint8_t, 2> labels;
    file_->copy(at, labels_, labels.data());
    give_label(into, 1, labels[labels_ - 1], *this, i);
    if (labels_ == 2) give_label(into, 2, labels[0], *this, i);
  }
  void expect(Index i) const override {
    if (i >= 0 && i < size_) file_->expect(static_cast<uint64_t>(i) * record_, record_);
  }
  std::string where(Index i) const override { return fmt::format("{}, record {}", file_->name(), i); }
  std::vector<std::string> files() const override { return file_->files(); }

 private:
  std::shared_ptr<const FileBytes> file_;
  uint64_t labels_, record_;
  Index size_ = 0;
  std::vector<Field> fields_;
};

// By its size, where that fits one kind only, else by its name.
bool is_100(const std::string& path) {
  std::error_code ignored;
  const uint64_t size = std::filesystem::file_size(path, ignored);
  const bool fits_10 = size % (pixels + 1) == 0, fits_100 = size % (pixels + 2) == 0;
  if (fits_10 != fits_100) return fits_100;
  const std::string name = std::filesystem::path(path).filename().string();
  return name.find("100") != std::string::npos || name == "train.bin" || name == "test.bin";
}

bool is_archive(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.find(".tar") != std::string::npos || name.ends_with(".tgz");
}

struct Cifar {
  static constexpr const char* about = "CIFAR-10 and CIFAR-100, binary version: the folder, its archive, or one file";
  static std::vector<std::string> endings() {
    return {".bin", "-bin.tar", "-bin.tar.gz", "-bin.tar.xz", "-binary.tar", "-binary.tar.gz"};
  }
  static std::vector<DataOption> options() {
    return {{"part", "train or test, of a folder or an archive", "train"},
            {"classes", "10 or 100; 0: as the size or the names of the files say", 0}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& options) {
    const std::string part = options.text("part", "train");
    if (part != "train" && part != "test") throw UsageError("[cifar] part is '{}'; legal: train, test", part);
    int64_t classes = options.integer("classes", 0);
    if (classes != 0 && classes != 10 && classes != 100)
      throw UsageError("[cifar] classes is {}; legal: 10, 100", classes);

    std::string folder = path;
    if (!std::filesystem::is_directory(path)) {
      if (!is_archive(path) && path.ends_with(".gz"))
        throw UsageError("[cifar] {} is packed, and only whole archives are unpacked: gunzip it", path);
      if (!is_archive(path)) return std::make_shared<CifarFile>(path, classes ? classes : is_100(path) ? 100 : 10);
      std::vector<std::string> wanted = train_10;
      wanted.insert(wanted.end(), {"test_batch.bin", "train.bin", "test.bin"});
      folder = unpacked_folder(path, wanted, uint64_t{1} << 30);
    }
    if (classes == 0) classes = std::filesystem::exists(folder + "/train.bin") ? 100 : 10;
    std::vector<std::string> files = train_10;
    if (classes == 100) files = {"train.bin"};
    if (part == "test") files = {classes == 100 ? "test.bin" : "test_batch.bin"};
    std::vector<std::shared_ptr<const Dataset>> shards;
    for (const std::string& file : files) shards.push_back(std::make_shared<CifarFile>(folder + "/" + file, classes));
    return joined(std::move(shards));
  }
  // One file, in the format that the number of fields asks for.
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    const std::vector<Field>& fields = dataset.fields();
    const auto is_label = [](const Field& f) { return is_integer(f.dtype) && f.shape && f.shape->elements() == 1; };
    if (fields.size() < 2 || fields.size() > 3 || fields[0].dtype != DType::u8 || fields[0].shape != Shape{3, 32, 32} ||
        !std::all_of(fields.begin() + 1, fields.end(), is_label))
      throw UsageError("[cifar] holds images u8[3x32x32] with a label, or with a label and a coarse one");
    if (is_archive(path) || path.ends_with(".gz"))
      throw UsageError("[cifar] {}: one file is written, no archive and not packed; name it NAME.bin", path);
    FileWriter file(path);
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      for (size_t f = fields.size() - 1; f > 0; --f) {
        const int64_t label = integer_value(sample[f]);
        const int64_t classes = fields.size() == 2 ? 10 : f == 1 ? 100 : 20;
        if (label < 0 || label >= classes)
          throw UsageError("[cifar] {}: {} is {}, legal: 0 to {}", dataset.where(i), fields[f].name, label,
                           classes - 1);
        const auto byte = static_cast<uint8_t>(label);
        file.write(&byte, 1);
      }
      file.write(sample[0].data(), pixels);
    }
    file.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "cifar", Cifar);

}  // namespace d5
