// SPDX-License-Identifier: Apache-2.0
// IDX, the format of MNIST (Y. LeCun, "The MNIST database", file formats): two zero bytes, a byte for the element type,
// a byte for the rank, the sizes as big-endian u32, then the elements, row-major and big-endian. Packed (.gz) or not.
// Sample i is row i. A file NAME-images-idx3-ubyte has its labels in NAME-labels-idx1-ubyte beside it.
#include <algorithm>
#include <filesystem>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

constexpr std::array<std::pair<uint8_t, DType>, 6> codes{{{0x08, DType::u8},
                                                          {0x09, DType::i8},
                                                          {0x0b, DType::i16},
                                                          {0x0c, DType::i32},
                                                          {0x0d, DType::f32},
                                                          {0x0e, DType::f64}}};

struct Array {
  std::shared_ptr<const FileBytes> bytes;
  uint64_t offset = 0;
  DType dtype = DType::u8;
  Index rows = 0;
  Shape row;
};

Array read_array(const std::string& path) {
  const auto file = FileBytes::map(path);
  const auto source = open_source(file);
  std::array<uint8_t, 4> head{};
  if (source->read(head.data(), 4) != 4 || head[0] != 0 || head[1] != 0)
    throw Error("[idx] {} is no IDX file: it does not begin with two zero bytes and a type", path);
  Array array;
  const auto code = std::ranges::find(codes, head[2], &std::pair<uint8_t, DType>::first);
  if (code == codes.end()) throw Error("[idx] {}: element type 0x{:02x}; legal: 08, 09, 0b, 0c, 0d, 0e", path, head[2]);
  array.dtype = code->second;
  if (head[3] == 0) throw Error("[idx] {}: rank 0, there are no samples", path);
  std::vector<uint8_t> sizes(4u * head[3]);
  if (source->read(sizes.data(), sizes.size()) != sizes.size()) throw Error("[idx] {}: cut short in its sizes", path);
  std::vector<Index> row;
  for (size_t axis = 0; axis < head[3]; ++axis) row.push_back(load_big<uint32_t>(&sizes[4 * axis]));
  array.rows = row.front();
  const Shape whole(row);  // refuses what overflows
  array.row = Shape(std::vector<Index>(row.begin() + 1, row.end()));
  array.offset = 4 + sizes.size();
  const auto bytes = static_cast<uint64_t>(storage_bytes(array.dtype, whole.elements()));
  if (bytes > most_contents(*file))
    throw Error("[idx] {}: {}[{}] needs {} bytes, more than the file can hold: is it cut short?", path,
                name(array.dtype), to_string(whole), bytes);
  if (compression_of(*file).empty()) {
    array.bytes = file;
    if (!file->holds(array.offset, bytes))
      throw Error("[idx] {}: cut short, {} bytes of {}", path, file->size(), array.offset + bytes);
    if (file->size() > array.offset + bytes)
      throw Error("[idx] {}: {} bytes, {}[{}] needs {}: damaged", path, file->size(), name(array.dtype),
                  to_string(whole), array.offset + bytes);
    return array;
  }
  std::vector<uint8_t> contents(bytes);
  const size_t found = source->read(contents.data(), bytes);
  if (found != bytes) throw Error("[idx] {}: cut short, {} bytes of {} after unpacking", path, found, bytes);
  // The sum of what is packed lies behind it: it is looked at when more is asked for.
  uint8_t more = 0;
  if (source->read(&more, 1) != 0)
    throw Error("[idx] {}: more than the {} bytes of {}[{}] are packed: damaged", path, bytes, name(array.dtype),
                to_string(whole));
  array.bytes = FileBytes::of(path, std::move(contents));
  array.offset = 0;
  return array;
}

void give_row(const Array& array, Index i, Sample& into, size_t field, const Shape& shape) {
  const auto bytes = static_cast<uint64_t>(storage_bytes(array.dtype, array.row.elements()));
  const uint64_t at = array.offset + static_cast<uint64_t>(i) * bytes;
  if (bits(array.dtype) == 8) return array.bytes->give(into, field, array.dtype, shape, at);
  Tensor& tensor = target(into, field, array.dtype, shape);
  array.bytes->copy(at, bytes, tensor.data());
  swap_elements(tensor.data(), static_cast<size_t>(tensor.elements()), static_cast<size_t>(bits(array.dtype) / 8));
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const std::string& path, const std::string& labels, Index classes)
      : path_(path), values_(read_array(path)) {
    // A grey picture has a channel, though the file does not say so.
    const bool grey = values_.row.rank() == 2 && values_.dtype == DType::u8;
    const bool image = grey || (values_.row.rank() == 3 && values_.dtype == DType::u8);
    Shape shape = grey ? Shape{1, values_.row[0], values_.row[1]} : values_.row;
    fields_.push_back({image ? "image" : "value", values_.dtype, std::move(shape), {}});
    if (labels.empty()) return;
    read_labels(read_array(labels), labels);
    fields_.push_back({"label", DType::i64, Shape{}, {}});
    const auto largest = std::ranges::max_element(labels_);
    fields_[1].classes = classes > 0 ? classes : classes_up_to(largest == labels_.end() ? 0 : *largest);
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return values_.rows; }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    give_row(values_, i, into, 0, *fields_[0].shape);
    if (fields_.size() == 2) give_label(into, 1, labels_[static_cast<size_t>(i)], *this, i);
  }
  void expect(Index i) const override {
    const auto bytes = static_cast<uint64_t>(storage_bytes(values_.dtype, values_.row.elements()));
    if (i >= 0 && i < values_.rows) values_.bytes->expect(values_.offset + static_cast<uint64_t>(i) * bytes, bytes);
  }
  std::string where(Index i) const override { return fmt::format("{}, sample {}", path_, i); }
  std::vector<std::string> files() const override { return values_.bytes->files(); }

 private:
  void read_labels(const Array& array, const std::string& path) {
    if (array.rows != values_.rows || array.row.elements() != 1 || !is_integer(array.dtype))
      throw Error("[idx] {} holds {} rows of {}[{}]; labels are one integer for each of {} samples", path, array.rows,
                  name(array.dtype), to_string(array.row), values_.rows);
    for (Index i = 0; i < array.rows; ++i) {
      Sample one(1);
      give_row(array, i, one, 0, {});
      labels_.push_back(static_cast<int32_t>(integer_value(one[0])));
    }
  }
  std::string path_;
  Array values_;
  std::vector<int32_t> labels_;
  std::vector<Field> fields_;
};

// train-images-idx3-ubyte.gz -> train-labels-idx1-ubyte.gz; empty where the name has not that form
std::string labels_beside(const std::string& path) {
  const size_t images = path.rfind("-images"), name_begins = path.rfind('/') + 1;
  if (images == std::string::npos || images < name_begins) return {};
  std::string labels = path;
  labels.replace(images, 7, "-labels");
  if (const size_t rank = labels.find("idx3", images); rank != std::string::npos) labels.replace(rank, 4, "idx1");
  return labels;
}

void write_array(const Dataset& dataset, size_t field, bool drop_channel, FileWriter& file) {
  const Field& described = dataset.fields()[field];
  const bool label = described.dtype == DType::i64;
  DType type = described.dtype;
  if (label) type = described.classes && *described.classes <= 256 ? DType::u8 : DType::i32;
  const auto code = std::ranges::find(codes, type, &std::pair<uint8_t, DType>::second);
  if (code == codes.end())
    throw UsageError("[idx] holds u8, i8, i16, i32, f32, f64, and classes as u8 or i32; '{}' is {}", described.name,
                     name(type));
  std::vector<Index> sizes{dataset.size()};
  sizes.insert(sizes.end(), described.shape->begin(), described.shape->end());
  if (drop_channel) sizes.erase(sizes.begin() + 1);
  if (sizes.size() > 255 || std::ranges::any_of(sizes, [](Index n) { return n > 0xffffffff; }))
    throw UsageError("[idx] cannot hold {} samples of [{}]", dataset.size(), to_string(*described.shape));
  const std::array<uint8_t, 4> head{0, 0, code->first, static_cast<uint8_t>(sizes.size())};
  file.write(head.data(), 4);
  for (const Index size : sizes) file.write(stored(static_cast<uint32_t>(size), std::endian::big).data(), 4);
  for (Index i = 0; i < dataset.size(); ++i) {
    Tensor row = dataset.at(i)[field];
    row = label ? row.cast(type) : row.clone();
    if (bits(type) > 8)
      swap_elements(row.data(), static_cast<size_t>(row.elements()), static_cast<size_t>(bits(type) / 8));
    file.write(row.data(), row.bytes());
  }
}

struct Idx {
  static constexpr const char* about = "IDX, the format of MNIST (.gz too)";
  static std::vector<std::string> endings() { return {"-ubyte", ".idx", "-ubyte.gz", ".idx.gz"}; }
  static std::vector<DataOption> options() {
    return {{"labels", "File of labels; auto: the one beside NAME-images..., if it is there; none", "auto"},
            {"classes", "Labels are below this; 0: below the largest one found", 0}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& options) {
    std::string labels = options.text("labels", "auto");
    if (labels == "auto") {
      labels = labels_beside(path);
      if (!std::filesystem::exists(labels)) labels.clear();
    } else if (labels == "none") {
      labels.clear();
    }
    return std::make_shared<IdxDataset>(path, labels, options.integer("classes", 0));
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes& options) {
    require_fixed_shapes(dataset, "[idx]");
    const std::vector<Field>& fields = dataset.fields();
    const bool labelled = fields.size() == 2 && label_field(dataset) == 1;
    if (fields.size() != 1 && !labelled)
      throw UsageError("[idx] holds one field, or one and its label; here are {} fields", fields.size());
    const Shape& shape = *fields[0].shape;
    const bool grey = shape.rank() == 3 && shape[0] == 1 && fields[0].dtype == DType::u8;
    std::string labels = labelled ? options.text("labels", "auto") : "none";
    if (labels == "auto") labels = labels_beside(path);
    if (labels.empty())
      throw UsageError("[idx] where do the labels go? Name the file NAME-images-idx3-ubyte, or say labels=FILE");
    // Both files or none.
    FileWriter values_file(path);
    write_array(dataset, 0, grey, values_file);
    if (labels == "none") return values_file.commit();
    {
      FileWriter labels_file(labels);
      write_array(dataset, 1, false, labels_file);
      labels_file.commit();
    }
    try {
      values_file.commit();
    } catch (...) {
      std::filesystem::remove(labels);
      throw;
    }
  }
};

}  // namespace

D5_REGISTER(containers, "idx", Idx);

}  // namespace d5
