// SPDX-License-Identifier: Apache-2.0
// Our own plain format, for reading at the speed of memory: a line "d5raw 1", a line of JSON that tells the fields and
// the number of samples, padding to 4096 bytes, then the samples, each with its fields one after the other,
// little-endian. Labels that are classes below 256 take one byte.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t page = 4096, most_header = 1 << 20;
constexpr std::string_view magic = "d5raw 1\n";
static_assert(std::endian::native == std::endian::little, "big-endian machines would have to swap");

class Raw : public Dataset {
 public:
  explicit Raw(const std::string& path) : file_(FileBytes::map(path)) {
    const std::vector<uint8_t> head = file_->range(0, std::min(file_->size(), most_header));
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    const size_t end = text.find('\n', magic.size());
    if (!text.starts_with(magic) || end == std::string_view::npos)
      throw Error("[raw] {} does not begin with 'd5raw 1' and a line of JSON", path);
    data_ = (end + 1 + page - 1) / page * page;
    try {
      read_header(Json::parse(text.substr(magic.size(), end - magic.size())));
    } catch (const nlohmann::json::exception& error) {
      throw Error("[raw] {}: its header is broken: {}", path, error.what());
    }
    const auto samples = static_cast<uint64_t>(samples_);
    if (samples_ < 0 || record_ > file_->size() || (record_ > 0 && samples > file_->size() / record_) ||
        (record_ == 0 && samples_ > 0) || !file_->holds(data_, samples * record_))
      throw Error("[raw] {}: cut short: {} samples of {} bytes do not fit into {} bytes", path, samples_, record_,
                  file_->size());
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return samples_; }
  std::string where(Index i) const override { return fmt::format("{}, sample {}", file_->name(), i); }
  std::vector<std::string> files() const override { return file_->files(); }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const uint64_t at = data_ + static_cast<uint64_t>(i) * record_;
    for (size_t f = 0; f < fields_.size(); ++f) {
      if (!bytes_[f]) {
        file_->give(into, f, fields_[f].dtype, *fields_[f].shape, at + offsets_[f]);
        continue;
      }
      uint8_t label = 0;
      file_->copy(at + offsets_[f], 1, &label);
      give_label(into, f, label, *this, i);
    }
  }
  void expect(Index i) const override {
    if (i >= 0 && i < samples_) file_->expect(data_ + static_cast<uint64_t>(i) * record_, record_);
  }

 private:
  void read_header(const Json& header) {
    samples_ = header.at("samples").get<Index>();
    for (const Json& one : header.at("fields")) {
      Field field{one.at("name").get<std::string>(),
                  stored_dtype(one.at("dtype").get<std::string>()),
                  Shape(one.at("shape").get<std::vector<Index>>()),
                  {}};
      if (one.contains("classes")) field.classes = one.at("classes").get<Index>();
      const bool byte = one.value("byte", false);
      if (bits(field.dtype) == 0 || fields_.size() == 64 ||
          (byte && (field.dtype != DType::i64 || field.shape->elements() != 1 || !field.classes)))
        throw Error("[raw] {}: field '{}' is of no legal kind", file_->name(), field.name);
      offsets_.push_back(record_);
      bytes_.push_back(byte);
      const auto bytes = byte ? 1 : static_cast<uint64_t>(storage_bytes(field.dtype, field.shape->elements()));
      if (bytes > file_->size()) throw Error("[raw] {}: field '{}' is larger than the file", file_->name(), field.name);
      record_ += bytes;
      fields_.push_back(std::move(field));
    }
  }
  std::shared_ptr<const FileBytes> file_;
  std::vector<Field> fields_;
  std::vector<uint64_t> offsets_;
  std::vector<bool> bytes_;
  uint64_t data_ = 0, record_ = 0;
  Index samples_ = 0;
};

struct RawFile {
  static constexpr const char* about = "samples as they are in memory, behind a header of one page";
  static std::vector<std::string> endings() { return {".d5raw"}; }
  static std::vector<DataOption> options() { return {}; }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes&) {
    return std::make_shared<Raw>(path);
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    require_fixed_shapes(dataset, "[raw]");
    Json fields = Json::array();
    std::vector<bool> bytes;
    for (const Field& field : dataset.fields()) {
      bytes.push_back(field.dtype == DType::i64 && field.shape->elements() == 1 && field.classes &&
                      *field.classes <= 256);
      fields.push_back({{"name", field.name}, {"dtype", name(field.dtype)}, {"shape", field.shape->sizes()}});
      if (field.classes) fields.back()["classes"] = *field.classes;
      if (bytes.back()) fields.back()["byte"] = true;
    }
    FileWriter file(path);
    file.write(std::string(magic) + Json{{"samples", dataset.size()}, {"fields", fields}}.dump() + "\n");
    file.write(std::string((page - file.written() % page) % page, '\0'));
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      for (size_t f = 0; f < sample.size(); ++f) {
        if (bytes[f]) {
          const auto byte = static_cast<uint8_t>(integer_value(sample[f]));
          file.write(&byte, 1);
        } else {
          file.write(sample[f].data(), sample[f].bytes());
        }
      }
    }
    file.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "raw", RawFile);

}  // namespace d5
