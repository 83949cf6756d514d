// SPDX-License-Identifier: Apache-2.0
// Plain text (.gz too). Bytes: sample i is `window` bytes from i * stride on, and its target the same one byte later,
// as a language model wants it. Lines: sample i is line i without its end, of any length.
#include <algorithm>

#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

constexpr uint64_t most_text = uint64_t{1} << 34;  // of a packed file, which is unpacked into memory

class TextBytes : public Dataset {
 public:
  TextBytes(const std::string& path, int64_t window, int64_t stride)
      : text_(whole_contents(path, most_text)), stride_(stride > 0 ? stride : window) {
    if (window < 1 || stride < 0) throw UsageError("[text] window {} and stride {}; legal: at least 1", window, stride);
    const auto bytes = static_cast<int64_t>(text_->size());
    if (bytes <= window) throw Error("[text] {}: {} bytes, a window and its target need {}", path, bytes, window + 1);
    size_ = (bytes - window - 1) / stride_ + 1;
    fields_ = {{"input", DType::u8, Shape{window}, {}}, {"target", DType::u8, Shape{window}, {}}};
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  std::string where(Index i) const override { return fmt::format("{}, byte {}", text_->name(), i * stride_); }
  std::vector<std::string> files() const override { return text_->files(); }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const auto at = static_cast<uint64_t>(i * stride_);
    text_->give(into, 0, DType::u8, *fields_[0].shape, at);
    text_->give(into, 1, DType::u8, *fields_[1].shape, at + 1);
  }

 private:
  std::shared_ptr<const FileBytes> text_;
  int64_t stride_;
  Index size_ = 0;
  std::vector<Field> fields_;
};

class TextLines : public Dataset {
 public:
  explicit TextLines(const std::string& path)
      : text_(whole_contents(path, most_text)), fields_{{"line", DType::u8, {}, {}}} {
    const uint8_t *begin = text_->data(), *end = begin + text_->size();
    for (const uint8_t* at = begin; at < end;) {
      starts_.push_back(static_cast<uint64_t>(at - begin));
      at = std::find(at, end, uint8_t{'\n'});
      if (at < end) ++at;
    }
    text_->require_there(0, text_->size());
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return static_cast<Index>(starts_.size()); }
  std::string where(Index i) const override { return fmt::format("{}:{}", text_->name(), i + 1); }
  std::vector<std::string> files() const override { return text_->files(); }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const auto n = static_cast<size_t>(i);
    const uint64_t begin = starts_[n];
    uint64_t end = n + 1 < starts_.size() ? starts_[n + 1] : text_->size();
    while (end > begin && (text_->data()[end - 1] == '\n' || text_->data()[end - 1] == '\r')) --end;
    text_->give(into, 0, DType::u8, Shape{static_cast<Index>(end - begin)}, begin);
  }

 private:
  std::shared_ptr<const FileBytes> text_;
  std::vector<Field> fields_;
  std::vector<uint64_t> starts_;
};

struct Text {
  static constexpr const char* about = "plain text: windows of bytes with the next byte as target, or lines (.gz too)";
  static std::vector<std::string> endings() { return {".txt", ".txt.gz"}; }
  static std::vector<DataOption> options() {
    return {{"unit", "bytes or lines", "bytes"},
            {"window", "Bytes of a sample", 128},
            {"stride", "Bytes from one sample to the next; 0: the window", 0}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    const std::string unit = o.text("unit", "bytes");
    if (unit == "lines") return std::make_shared<TextLines>(path);
    if (unit != "bytes") throw UsageError("[text] unit is '{}'; legal: bytes, lines", unit);
    return std::make_shared<TextBytes>(path, o.integer("window", 128), o.integer("stride", 0));
  }
  // One field of bytes is lines. Of two, windows and their targets, the text is written that they are windows of.
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    const std::vector<Field>& fields = dataset.fields();
    const auto is_text = [](const Field& field) {
      return field.dtype == DType::u8 && (!field.shape || field.shape->rank() == 1);
    };
    const bool lines = fields.size() == 1;
    if (fields.empty() || fields.size() > 2 || !std::ranges::all_of(fields, is_text))
      throw UsageError("[text] holds bytes: one field u8 of any length (lines), or windows and their targets");
    FileWriter file(path);
    std::string last;  // what the next window begins with
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      const std::string bytes = text_of(sample[0]);
      file.write(bytes);
      if (lines) {
        if (bytes.find('\n') != std::string::npos || bytes.ends_with('\r'))
          throw UsageError("[text] {}: a line cannot hold the end of a line", dataset.where(i));
        file.write("\n");
        continue;
      }
      const std::string target = text_of(sample[1]);
      if (target.empty() || bytes.size() != target.size() || !bytes.starts_with(last) ||
          bytes.substr(1) != target.substr(0, target.size() - 1))
        throw UsageError("[text] {}: windows of one text follow each other, and the target is one byte later",
                         dataset.where(i));
      last = target.back();
    }
    file.write(last);
    file.commit();
  }

 private:
  static std::string text_of(const Tensor& bytes) { return {static_cast<const char*>(bytes.data()), bytes.bytes()}; }
};

}  // namespace

D5_REGISTER(containers, "text", Text);

}  // namespace d5
