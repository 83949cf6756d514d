// SPDX-License-Identifier: Apache-2.0
// A folder of pictures: CLASS/.../FILE.jpg (or png, ppm, pgm). Classes are the names of the first folders, sorted;
// without folders there are no labels. Names are sorted, so that sample i is the same everywhere; what begins with a
// dot is left out. What is written has a folder for every class, so that they keep their numbers.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 5> known{".jpg", ".jpeg", ".png", ".ppm", ".pgm"};
  return std::ranges::find(known, ending) != known.end();
}

constexpr int64_t most_classes = 100000;  // whose names, of five digits, sort as their numbers do

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

class Folder : public Dataset {
 public:
  explicit Folder(const std::string& root) : root_(root) {
    if (!fs::is_directory(root)) throw Error("[folder] {} is no folder", root);
    std::vector<std::string> classes;
    bool loose = false;
    for (const auto& entry : fs::directory_iterator(root)) {
      if (is_hidden(entry.path())) continue;
      if (entry.is_directory())
        classes.push_back(entry.path().filename().string());
      else
        loose = loose || is_picture(entry.path());
    }
    std::ranges::sort(classes);
    if (loose) {
      collect(root_, -1);
    } else {
      for (const std::string& name : classes)
        collect(root_ + "/" + name, static_cast<int32_t>(names_.size())), names_.push_back(name);
    }
    if (files_.empty())
      throw Error("[folder] {} holds no pictures (.jpg, .jpeg, .png, .ppm, .pgm), nor do its folders", root);
    fields_.push_back({"image", DType::u8, {}, {}});
    if (!loose) fields_.push_back({"label", DType::i64, Shape{}, static_cast<Index>(names_.size())});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return static_cast<Index>(files_.size()); }
  std::string where(Index i) const override { return files_.at(static_cast<size_t>(i)).path; }
  std::vector<std::string> files() const override {
    std::vector<std::string> all;
    for (const File& file : files_) all.push_back(file.path);
    return all;
  }

  // Read, not mapped: files are small, and one that becomes shorter meanwhile is an error and no signal.
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const File& file = files_[static_cast<size_t>(i)];
    const int number = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (number < 0) throw SampleError("[folder] {}: {}", file.path, std::strerror(errno));
    struct stat status {};
    size_t done = 0;
    bool good = fstat(number, &status) == 0 && S_ISREG(status.st_mode);
    try {
      if (good) {
        Tensor& tensor = target(into, 0, DType::u8, Shape{static_cast<Index>(status.st_size)});
        for (auto* to = static_cast<uint8_t*>(tensor.data()); done < tensor.bytes();) {
          const ssize_t piece = ::read(number, to + done, tensor.bytes() - done);
          if (piece < 0 && errno == EINTR) continue;
          if (piece <= 0) break;
          done += static_cast<size_t>(piece);
        }
        good = done == tensor.bytes();
      }
    } catch (...) {
      close(number);
      throw;
    }
    close(number);
    if (!good)
      throw SampleError("[folder] {}: {} bytes could be read, then it ended: changed meanwhile?", file.path, done);
    if (file.label >= 0) give_label(into, 1, file.label, *this, i);
  }

 private:
  struct File {
    std::string path;
    int32_t label;
  };
  void collect(const std::string& folder, int32_t label) {
    const size_t before = files_.size();
    for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
      if (is_hidden(entry->path()))
        entry.disable_recursion_pending();
      else if (is_picture(entry->path()) && entry->is_regular_file())
        files_.push_back({entry->path().string(), label});
    }
    std::sort(files_.begin() + static_cast<long>(before), files_.end(),
              [](const File& a, const File& b) { return a.path < b.path; });
  }
  std::string root_;
  std::vector<std::string> names_;
  std::vector<File> files_;
  std::vector<Field> fields_;
};

struct Folders {
  static constexpr const char* about = "folder of pictures, one folder per class";
  static std::vector<std::string> endings() { return {"/"}; }
  static std::vector<DataOption> options() {
    return {{"format", "What write() makes of pixels: png, jpeg or raw", "png"}, {"quality", "Of jpeg, 1 to 100", 90}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes&) {
    return std::make_shared<Folder>(path);
  }
  static void write(const Dataset& dataset, const std::string& target, const Attributes& o) {
    const std::vector<Field>& fields = dataset.fields();
    const auto image = std::ranges::find(fields, "image", &Field::name);
    if (image == fields.end() || image->dtype != DType::u8)
      throw UsageError("[folder] holds pictures: a field 'image' of u8");
    const auto f = static_cast<size_t>(image - fields.begin());
    const auto label = label_field(dataset);
    const std::string format = o.text("format", "png");
    const int64_t quality = o.integer("quality", 90);
    if (quality < 1 || quality > 100) throw UsageError("[folder] quality is {}; legal: 1 to 100", quality);
    const bool encoded = holds_encoded(dataset);
    const DecoderEntry* encoder = encoded ? nullptr : &registered<decoders>(format);
    if (fs::exists(target) && !(fs::is_directory(target) && fs::is_empty(target)))
      throw UsageError("[folder] {} is there already, and its pictures would be mixed with the new ones", target);
    UnfinishedPath folder(target);
    const auto class_folder = [&](int64_t number) { return fmt::format("{}/{:05}", folder.path(), number); };
    int64_t classes = label ? fields[*label].classes.value_or(0) : 0;
    fs::create_directories(folder.path());
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      std::vector<uint8_t> packed;
      std::string ending = format == "jpeg" ? "jpg" : format == "raw" ? "ppm" : format;
      if (encoded) {
        const Encoded bytes = sample[f].values<uint8_t>();
        packed.assign(bytes.begin(), bytes.end());
        ending = packed.size() > 2 && packed[0] == 0xff   ? "jpg"
                 : packed.size() > 2 && packed[0] == 0x89 ? "png"
                                                          : "ppm";
      } else {
        packed = encoder->encode(sample[f], static_cast<int>(quality));
      }
      std::string place = folder.path();
      if (label) {
        const int64_t number = integer_value(sample[*label]);
        if (number < 0 || number >= most_classes)
          throw UsageError("[folder] {}: the label is {}; legal: 0 to {}", dataset.where(i), number, most_classes - 1);
        classes = std::max(classes, number + 1);
        place = class_folder(number);
      }
      FileWriter file(fmt::format("{}/{:09}.{}", place, i, ending));
      file.write(packed.data(), packed.size());
      file.commit();
    }
    for (int64_t number = 0; number < std::min(classes, most_classes); ++number)
      fs::create_directories(class_folder(number));
    folder.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "folder", Folders);

}  // namespace d5
