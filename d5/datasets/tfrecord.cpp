// SPDX-License-Identifier: Apache-2.0
// TFRecord (TensorFlow): records of  u64 length, u32 crc of the length, bytes, u32 crc of the bytes; little-endian, the
// sums are masked CRC-32C. A record is a tf.train.Example: features by name, each a list of byte strings, floats or
// integers. One field per feature; image/encoded and image/class/label (as ImageNet has them) are "image" and "label".
// What write() puts down carries NAME/shape (and NAME/dtype where it is bytes), so that arrays come back as they were.
// Numbers of others have as many values as in the first records, one alone is a scalar; where those differ among
// themselves the shape is open.
#include <algorithm>
#include <map>
#include <set>

#include "d5/datasets/container.hpp"
#include "d5/datasets/crc32c.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/record_index.hpp"
#include "d5/datasets/wire_format.hpp"

namespace d5 {
namespace {

using Bytes = std::span<const uint8_t>;
constexpr Index most_damaged = 100;  // at the beginning of a file
constexpr Index first_records = 16;  // that tell how many values a list has

// oneof kind { BytesList 1, FloatList 2, Int64List 3 }, each with `repeated value = 1`
struct Feature {
  std::string_view name;
  uint32_t kind = 0;
  Bytes list;
};

// Calls f(Feature) for each: Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }.
template <class F>
void for_each_feature(Bytes example, F&& f) {
  for (WireReader message(example); message.next();) {
    if (message.field() != 1) {
      message.skip();
      continue;
    }
    for (WireReader features(message.bytes()); features.next();) {
      if (features.field() != 1) {
        features.skip();
        continue;
      }
      Feature feature;
      for (WireReader entry(features.bytes()); entry.next();) {
        if (entry.field() == 1) {
          const Bytes name = entry.bytes();
          feature.name = {reinterpret_cast<const char*>(name.data()), name.size()};
        } else if (entry.field() == 2) {
          for (WireReader value(entry.bytes()); value.next();) {
            if (value.field() < 1 || value.field() > 3) {
              value.skip();
              continue;
            }
            feature.kind = value.field();
            feature.list = value.bytes();
          }
        } else {
          entry.skip();
        }
      }
      f(feature);
    }
  }
}

// Calls f(value) for each number, packed or not.
template <class T, class F>
void for_each_number(Bytes list, F&& f) {
  const auto one = [&](WireReader& from) {
    if constexpr (std::is_same_v<T, float>)
      f(from.fixed<float>());
    else
      f(static_cast<int64_t>(from.varint()));
  };
  for (WireReader reader(list); reader.next();) {
    if (reader.field() != 1) {
      reader.skip();
    } else if (reader.type() == 2) {
      const Bytes packed = reader.bytes();
      if constexpr (std::is_same_v<T, float>) {
        if (packed.size() % 4) throw SampleError("[tfrecord] a list of floats of {} bytes", packed.size());
        for (size_t i = 0; i < packed.size(); i += 4) f(load_little<float>(packed.data() + i));
      } else {
        // varints without keys: read as if each had one is wrong, so a reader of its own
        for (size_t i = 0; i < packed.size();) {
          uint64_t value = 0;
          int shift = 0;
          for (;; shift += 7) {
            if (i == packed.size() || shift > 63) throw SampleError("[tfrecord] a broken list of integers");
            const uint8_t byte = packed[i++];
            value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            if (!(byte & 0x80)) break;
          }
          f(static_cast<int64_t>(value));
        }
      }
    } else {
      one(reader);
    }
  }
}

int64_t as_label(int64_t value) { return value; }
int64_t as_label(float value) { return value >= 0 && value < 1e9f ? static_cast<int64_t>(value) : -1; }

Bytes single_bytes(const Feature& feature) {
  Bytes found;
  size_t count = 0;
  for (WireReader reader(feature.list); reader.next();) {
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    found = reader.bytes();
    ++count;
  }
  if (count != 1)
    throw SampleError("[tfrecord] feature '{}' holds {} byte strings; one is read", std::string(feature.name), count);
  return found;
}

std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

struct Names {
  std::string image, label;
  int64_t first_class = 0, classes = 0;
  std::string shown(std::string_view feature) const {
    return feature == image ? "image" : feature == label ? "label" : std::string(feature);
  }
};

class TfRecord : public Dataset {
 public:
  TfRecord(const std::string& path, Names names, bool example, bool check, bool keep)
      : file_(FileBytes::map(path)), names_(std::move(names)), example_(example), check_(check) {
    index_ = RecordIndex::of(path, keep, [this] { return pass(); });
    if (!example_)
      fields_.push_back({"record", DType::u8, {}, {}});
    else if (index_->size() > 0)
      describe_first();
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return index_->size(); }
  std::string where(Index i) const override { return fmt::format("{}, record {}", file_->name(), i); }
  std::vector<std::string> files() const override { return files_of(*file_, *index_); }

  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    if (!example_) {
      record(i);
      const RecordIndex::Range range = index_->range(i, 0);
      return file_->give(into, 0, DType::u8, Shape{static_cast<Index>(range.size)}, range.offset);
    }
    const Bytes bytes = record(i);
    try {
      read_example(bytes, into, i);
      file_->require_there(static_cast<uint64_t>(bytes.data() - file_->data()), bytes.size());
    } catch (const SampleError& error) {
      throw SampleError(fmt::format("{}: {}", where(i), error.what()));
    }
  }

 private:
  RecordIndex::Contents pass() const {
    RecordIndex::Contents found;
    found.fields = {"record"};
    for (uint64_t at = 0; at < file_->size();) {
      std::array<uint8_t, 12> head;
      if (!file_->holds(at, 12)) fail_at(at, "cut short in the head of a record");
      file_->copy(at, 12, head.data());
      const auto length = load_little<uint64_t>(head.data());
      if (masked(crc32c(head.data(), 8)) != load_little<uint32_t>(head.data() + 8))
        fail_at(at, "the sum of a record's length is wrong");
      if (length > file_->size() || !file_->holds(at + 12, length + 4)) fail_at(at, "cut short in a record");
      found.ranges.push_back({at + 12, length});
      ++found.samples;
      at += 16 + length;
    }
    return found;
  }
  [[noreturn]] void fail_at(uint64_t at, const char* what) const {
    throw Error("[tfrecord] {}: {} at byte {}", file_->name(), what, at);
  }

  Bytes record(Index i) const {
    const RecordIndex::Range range = index_->range(i, 0);
    if (range.size > file_->size()) throw SampleError("[tfrecord] {}: the index is of another file", where(i));
    file_->touch(range.offset, range.size + 4);
    const Bytes bytes(file_->data() + range.offset, range.size);
    if (check_ && masked(crc32c(bytes.data(), bytes.size())) != load_little<uint32_t>(bytes.data() + bytes.size())) {
      file_->require_there(range.offset, range.size + 4);
      throw SampleError("[tfrecord] {}: its sum is wrong, the bytes are damaged", where(i));
    }
    return bytes;
  }

  // By the first record that is whole: one that is damaged is an error when it is read, not of the file.
  void describe_first() {
    for (Index i = 0;; ++i) {
      try {
        const Bytes bytes = record(i);
        describe(bytes);
        file_->require_there(static_cast<uint64_t>(bytes.data() - file_->data()), bytes.size());
        return count_values(i);
      } catch (const SampleError&) {
        if (i + 1 >= std::min<Index>(index_->size(), most_damaged)) throw;
        fields_.clear();
        features_.clear();
        kinds_.clear();
      }
    }
  }

  static Index values_in(const Feature& feature) {
    Index count = 0;
    feature.kind == 2 ? for_each_number<float>(feature.list, [&](float) { ++count; })
                      : for_each_number<int64_t>(feature.list, [&](int64_t) { ++count; });
    return count;
  }

  // The shapes of lists of numbers that say none, from record `first` on.
  void count_values(Index first) {
    std::map<size_t, Index> counts;  // by field
    std::set<size_t> open;
    for (Index i = first; i < std::min(index_->size(), first + first_records); ++i) try {
        for_each_feature(record(i), [&](const Feature& feature) {
          const auto f = static_cast<size_t>(std::ranges::find(features_, feature.name) - features_.begin());
          if (f == features_.size() || fields_[f].shape || feature.kind == 1 || feature.kind != kinds_[f]) return;
          const Index count = values_in(feature);
          if (counts.try_emplace(f, count).first->second != count) open.insert(f);
        });
      } catch (const SampleError&) {  // said when it is read
      }
    for (const auto& [f, count] : counts)
      if (count > 0 && !open.contains(f)) fields_[f].shape = count == 1 ? Shape{} : Shape{count};
    const auto label = std::ranges::find(fields_, "label", &Field::name);
    if (label != fields_.end() && label->dtype == DType::i64 && label->shape == Shape{} && names_.classes > 0)
      label->classes = names_.classes;
  }

  // Fields are those of this record.
  void describe(Bytes first) {
    std::map<std::string, Shape> shapes;
    std::map<std::string, DType> types;
    const auto ends = [](const std::string& text, std::string_view end) {
      return text.size() > end.size() && text.ends_with(end) ? text.substr(0, text.size() - end.size()) : std::string();
    };
    for_each_feature(first, [&](const Feature& feature) {
      const std::string name(feature.name);
      if (const std::string of = ends(name, "/shape"); !of.empty() && feature.kind == 3) {
        std::vector<Index> sizes;
        for_each_number<int64_t>(feature.list, [&](int64_t n) { sizes.push_back(n); });
        shapes[of] = Shape(std::move(sizes));
      } else if (const std::string what = ends(name, "/dtype"); !what.empty() && feature.kind == 1) {
        types[what] = stored_dtype(text_of(single_bytes(feature)));
      }
    });
    bool known = false;
    for_each_feature(first,
                     [&](const Feature& f) { known = known || f.name == names_.image || f.name == names_.label; });
    for_each_feature(first, [&](const Feature& feature) {
      const std::string name(feature.name);
      if (feature.kind == 0 || (known && name != names_.image && name != names_.label && !shapes.contains(name)))
        return;
      if ((name.ends_with("/shape") && shapes.contains(ends(name, "/shape"))) ||
          (name.ends_with("/dtype") && types.contains(ends(name, "/dtype"))))
        return;
      Field field{names_.shown(name),
                  feature.kind == 1   ? DType::u8
                  : feature.kind == 2 ? DType::f32
                                      : DType::i64,
                  {},
                  {}};
      if (types.contains(name)) field.dtype = types[name];
      if (shapes.contains(name)) field.shape = shapes[name];
      if (name == names_.label && feature.kind != 1) {
        field.dtype = DType::i64;
        field.shape = Shape{};
      }
      if (std::ranges::count(features_, name) || fields_.size() == 64 || field.dtype == DType::string) return;
      features_.push_back(name);
      kinds_.push_back(feature.kind);
      fields_.push_back(std::move(field));
    });
    // "image" first, then "label", as everywhere else.
    for (size_t place = 0; const char* wanted : {"label", "image"}) {
      place = static_cast<size_t>(std::ranges::find(fields_, wanted, &Field::name) - fields_.begin());
      if (place == fields_.size()) continue;
      std::rotate(fields_.begin(), fields_.begin() + static_cast<long>(place),
                  fields_.begin() + static_cast<long>(place) + 1);
      std::rotate(features_.begin(), features_.begin() + static_cast<long>(place),
                  features_.begin() + static_cast<long>(place) + 1);
      std::rotate(kinds_.begin(), kinds_.begin() + static_cast<long>(place),
                  kinds_.begin() + static_cast<long>(place) + 1);
    }
  }

  void read_example(Bytes example, Sample& into, Index i) const {
    uint64_t found = 0;
    for_each_feature(example, [&](const Feature& feature) {
      const auto place = std::ranges::find(features_, feature.name);
      if (place == features_.end()) return;
      const auto f = static_cast<size_t>(place - features_.begin());
      if (feature.kind != kinds_[f])
        throw SampleError("[tfrecord] feature '{}' is of another kind than before", features_[f]);
      found |= uint64_t{1} << f;
      give(feature, f, into, i);
    });
    for (size_t f = 0; f < features_.size(); ++f)
      if (!(found >> f & 1)) throw SampleError("[tfrecord] feature '{}' is missing", features_[f]);
  }

  void give(const Feature& feature, size_t f, Sample& into, Index i) const {
    const Field& field = fields_[f];
    if (feature.kind == 1) {
      const Bytes bytes = single_bytes(feature);
      const Shape shape = field.shape.value_or(Shape{static_cast<Index>(bytes.size())});
      if (static_cast<uint64_t>(storage_bytes(field.dtype, shape.elements())) != bytes.size())
        throw SampleError("[tfrecord] feature '{}' has {} bytes, {}[{}] is expected", features_[f], bytes.size(),
                          name(field.dtype), to_string(shape));
      return file_->give(into, f, field.dtype, shape, static_cast<uint64_t>(bytes.data() - file_->data()));
    }
    // Numbers are counted first: no room is made on the word of a length.
    const Index count = values_in(feature);
    const auto number = [&](auto each) {
      using T = decltype(each);
      if (field.name == "label" && field.dtype == DType::i64 && count == 1) {
        int64_t label = 0;
        for_each_number<T>(feature.list, [&](T value) { label = as_label(value); });
        return give_label(
            into, f, static_cast<int64_t>(static_cast<uint64_t>(label) - static_cast<uint64_t>(names_.first_class)),
            *this, i);
      }
      const Shape shape = field.shape.value_or(Shape{count});
      if (shape.elements() != count)
        throw SampleError("[tfrecord] feature '{}' has {} values, [{}] is expected", features_[f], count,
                          to_string(shape));
      T* to = target(into, f, dtype_of<T>::value, shape).template values<T>().data();
      for_each_number<T>(feature.list, [&](T value) { *to++ = value; });
    };
    feature.kind == 2 ? number(float{}) : number(int64_t{});
  }

  std::shared_ptr<const FileBytes> file_;
  Names names_;
  bool example_, check_;
  std::shared_ptr<const RecordIndex> index_;
  std::vector<Field> fields_;
  std::vector<std::string> features_;  // their names in the file
  std::vector<uint32_t> kinds_;
};

void put_feature(std::string& features, const std::string& name, uint32_t kind, const std::string& list) {
  std::string value, entry;
  put_bytes(value, kind, list);
  put_bytes(entry, 1, name);
  put_bytes(entry, 2, value);
  put_bytes(features, 1, entry);
}

std::string packed_integers(std::span<const int64_t> values) {
  std::string packed, list;
  for (const int64_t value : values) put_varint(packed, static_cast<uint64_t>(value));
  put_bytes(list, 1, packed);
  return list;
}

std::string byte_list(std::string_view bytes) {
  std::string list;
  put_bytes(list, 1, bytes);
  return list;
}

std::string example_of(const Dataset& dataset, const Sample& sample, const Names& names) {
  std::string features, example;
  for (size_t f = 0; f < sample.size(); ++f) {
    const Field& field = dataset.fields()[f];
    const Tensor& tensor = sample[f];
    const bool label = field.name == "label" && tensor.dtype() == DType::i64 && tensor.elements() == 1;
    const std::string name = field.name == "image" ? names.image : label ? names.label : field.name;
    const std::string_view bytes(static_cast<const char*>(tensor.data()), tensor.bytes());
    if (label) {
      const int64_t label = integer_value(tensor) + names.first_class;
      put_feature(features, name, 3, packed_integers({&label, 1}));
      continue;
    }
    if (tensor.dtype() == DType::i64) {
      put_feature(features, name, 3, packed_integers(tensor.values<int64_t>()));
    } else if (tensor.dtype() == DType::f32) {
      put_feature(features, name, 2, byte_list(bytes));  // packed floats are bytes with a length, too
    } else {
      put_feature(features, name, 1, byte_list(bytes));
      if (field.shape) put_feature(features, name + "/dtype", 1, byte_list(d5::name(tensor.dtype())));
    }
    if (field.shape) put_feature(features, name + "/shape", 3, packed_integers(field.shape->sizes()));
  }
  put_bytes(example, 1, features);
  return example;
}

struct TfRecords {
  static constexpr const char* about = "TFRecord with tf.train.Example, sums checked; PATTERN* for shards";
  static std::vector<std::string> endings() { return {".tfrecord", ".tfrecords"}; }
  static std::vector<DataOption> options() {
    return {{"format", "example, or raw: a record is one field of bytes", "example"},
            {"image", "The feature that is the field image", "image/encoded"},
            {"label", "The feature that is the field label", "image/class/label"},
            {"first-class", "What the first class is called in the file (ImageNet: 1)", 0},
            {"classes", "Labels are below this; 0: not known", 0},
            {"check", "Check the sum of every record that is read", true},
            {"index", "Keep the index in a file", true}};
  }
  static Names names(const Attributes& o) {
    return {o.text("image", ""), o.text("label", ""), o.integer("first-class", 0), o.integer("classes", 0)};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    const std::string format = o.text("format", "example");
    if (format != "example" && format != "raw")
      throw UsageError("[tfrecord] format is '{}'; legal: example, raw", format);
    std::vector<std::shared_ptr<const Dataset>> shards;
    for (const std::string& file : matching_files(path))
      if (!file.ends_with(".d5index"))
        shards.push_back(open_named("tfrecord", file, [&] {
          return std::make_shared<TfRecord>(file, names(o), format == "example", o.flag("check", true),
                                            o.flag("index", true));
        }));
    return joined(std::move(shards));
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes& o) {
    const bool raw = o.text("format", "example") == "raw";
    if (raw && dataset.fields().size() != 1) throw UsageError("[tfrecord] format raw holds one field");
    FileWriter file(path);
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      std::string record = raw ? std::string(static_cast<const char*>(sample[0].data()), sample[0].bytes())
                               : example_of(dataset, sample, names(o));
      std::string head;
      append_little(head, static_cast<uint64_t>(record.size()));
      append_little(head, masked(crc32c(head.data(), 8)));
      append_little(record, masked(crc32c(record.data(), record.size())));
      file.write(head);
      file.write(record);
    }
    file.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "tfrecord", TfRecords);

}  // namespace d5
