// SPDX-License-Identifier: Apache-2.0
// LMDB with Caffe's Datum as values: message Datum { channels 1, height 2, width 3, bytes data 4, label 5, encoded 7 }.
// Keys are in their sorted order, which is the order they were written in (%08d). Fields "image" (u8[CxHxW], or
// encoded) and "label". Read without the library (lmdb_pages.hpp), written by it.
#include <lmdb.h>

#include <algorithm>
#include <filesystem>

#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/lmdb/lmdb_pages.hpp"
#include "d5/datasets/wire_format.hpp"

namespace d5 {
namespace {

void check(int status, const std::string& path, const char* what) {
  if (status != MDB_SUCCESS) throw Error("[lmdb] {}: {}: {}", path, what, mdb_strerror(status));
}

class Environment {
 public:
  Environment(const std::string& path, unsigned flags, size_t bytes) {
    check(mdb_env_create(&env_), path, "begin");
    mdb_env_set_mapsize(env_, bytes);
    if (const int status = mdb_env_open(env_, path.c_str(), flags, 0644); status != MDB_SUCCESS) {
      mdb_env_close(env_);
      check(status, path, "open");
    }
  }
  ~Environment() { mdb_env_close(env_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  operator MDB_env*() const { return env_; }

 private:
  MDB_env* env_ = nullptr;
};

struct Datum {
  uint64_t channels = 0, height = 0, width = 0;
  std::span<const uint8_t> data;
  int64_t label = 0;
  bool encoded = false;
};
Datum parse(std::span<const uint8_t> value) {
  Datum datum;
  for (WireReader message(value); message.next();) {
    switch (message.type() == 0 ? message.field() : message.field() == 4 && message.type() == 2 ? 4u : 0u) {
      case 1: datum.channels = message.varint(); break;
      case 2: datum.height = message.varint(); break;
      case 3: datum.width = message.varint(); break;
      case 4: datum.data = message.bytes(); break;
      case 5: datum.label = static_cast<int32_t>(message.varint()); break;
      case 7: datum.encoded = message.varint() != 0; break;
      default: message.skip();
    }
  }
  return datum;
}

class Lmdb : public Dataset {
 public:
  Lmdb(const std::string& path, int64_t classes)
      : file_(FileBytes::map(std::filesystem::is_directory(path) ? path + "/data.mdb" : path)),
        values_(lmdb_values(*file_)) {
    fields_.push_back({"image", DType::u8, {}, {}});
    fields_.push_back({"label", DType::i64, Shape{}, {}});
    if (classes > 0) fields_[1].classes = classes;
    if (size() == 0) return;
    try {
      if (const Datum first = datum(0); !first.encoded) fields_[0].shape = shape_of(first);
    } catch (const SampleError& error) {
      throw Error("{}: {}", where(0), error.what());
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return static_cast<Index>(values_.size()); }
  std::string where(Index i) const override { return fmt::format("{}, record {}", file_->name(), i); }
  std::vector<std::string> files() const override { return file_->files(); }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    try {
      const Datum one = datum(i);
      const Shape shape = one.encoded ? Shape{static_cast<Index>(one.data.size())} : shape_of(one);
      if (fields_[0].shape && (one.encoded || shape != *fields_[0].shape))
        throw SampleError("[lmdb] a picture of [{}], the first one is [{}]", to_string(shape),
                          to_string(*fields_[0].shape));
      give_copy(into, 0, DType::u8, shape, one.data.data());
      file_->require_there(values_[static_cast<size_t>(i)].offset, values_[static_cast<size_t>(i)].size);
      give_label(into, 1, one.label, *this, i);
    } catch (const SampleError& error) {
      throw SampleError(fmt::format("{}: {}", where(i), error.what()));
    }
  }

 private:
  Datum datum(Index i) const {
    const LmdbValue& value = values_[static_cast<size_t>(i)];
    file_->touch(value.offset, value.size);  // before its numbers are believed
    return parse({file_->data() + value.offset, value.size});
  }
  static Shape shape_of(const Datum& datum) {
    constexpr uint64_t most = 1 << 20;
    if (datum.channels > most || datum.height > most || datum.width > most)
      throw SampleError("[lmdb] a picture of {} x {} x {}", datum.channels, datum.height, datum.width);
    Shape shape{static_cast<Index>(datum.channels), static_cast<Index>(datum.height), static_cast<Index>(datum.width)};
    if (static_cast<uint64_t>(shape.elements()) != datum.data.size())
      throw SampleError("[lmdb] {} bytes for a picture of [{}]", datum.data.size(), to_string(shape));
    return shape;
  }
  std::shared_ptr<const FileBytes> file_;
  std::vector<LmdbValue> values_;
  std::vector<Field> fields_;
};

std::string datum_of(const Tensor& image, bool encoded, int64_t label) {
  std::string text;
  const std::string_view bytes(static_cast<const char*>(image.data()), image.bytes());
  if (!encoded)
    for (uint32_t axis = 0; axis < 3; ++axis) put_number(text, axis + 1, static_cast<uint64_t>(image.shape()[axis]));
  put_bytes(text, 4, bytes);
  put_number(text, 5, static_cast<uint64_t>(label));
  if (encoded) put_number(text, 7, 1);
  return text;
}

struct LmdbFile {
  static constexpr const char* about = "LMDB with Caffe's Datum: a folder with data.mdb, or one file";
  static std::vector<std::string> endings() { return {".lmdb", ".mdb"}; }
  static std::vector<DataOption> options() { return {{"classes", "Labels are below this; 0: not known", 0}}; }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    if (!std::filesystem::exists(path)) throw Error("[lmdb] {} is not there", path);
    return std::make_shared<Lmdb>(path, o.integer("classes", 0));
  }
  // A name that ends in .lmdb is a folder with data.mdb, as Caffe and Python's lmdb expect; any other is the one file.
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    const std::vector<Field>& fields = dataset.fields();
    const bool encoded = holds_encoded(dataset);
    if (fields.size() != 2 || fields[0].dtype != DType::u8 || label_field(dataset) != 1 ||
        (!encoded && (!fields[0].shape || fields[0].shape->rank() != 3)))
      throw UsageError("[lmdb] holds a picture, u8[CxHxW] or encoded, and its label");
    const bool in_folder = path.ends_with(".lmdb");
    if (in_folder && std::filesystem::is_regular_file(path))
      throw UsageError("[lmdb] {} is a file where a folder is written: remove it, or name the file NAME.mdb", path);
    UnfinishedPath file(in_folder ? path + "/data.mdb" : path);
    {
      constexpr size_t room = size_t{1} << 44;  // of addresses; the file grows with what is written
      const Environment env(file.path(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, room_of(dataset, room));
      constexpr Index at_once = 1024;
      for (Index first = 0; first == 0 || first < dataset.size(); first += at_once) {
        MDB_txn* transaction = nullptr;
        MDB_dbi database = 0;
        check(mdb_txn_begin(env, nullptr, 0, &transaction), path, "begin writing");
        try {
          check(mdb_dbi_open(transaction, nullptr, 0, &database), path, "open the database");
          for (Index i = first; i < std::min(first + at_once, dataset.size()); ++i) {
            const Sample sample = dataset.at(i);
            std::string key = fmt::format("{:08}", i), value = datum_of(sample[0], encoded, integer_value(sample[1]));
            MDB_val k{key.size(), key.data()}, v{value.size(), value.data()};
            check(mdb_put(transaction, database, &k, &v, MDB_APPEND), path, "write");
          }
        } catch (...) {
          mdb_txn_abort(transaction);
          throw;
        }
        check(mdb_txn_commit(transaction), path, "write");
      }
      check(mdb_env_sync(env, 1), path, "write");
    }
    file.commit();
  }

 private:
  // Pages hold at least a third of their size; pictures of one shape tell how much is needed.
  static size_t room_of(const Dataset& dataset, size_t most) {
    const Shape shape = dataset.fields()[0].shape.value_or(Shape{1 << 20});
    const auto bytes = static_cast<double>(shape.elements() + 64) * static_cast<double>(dataset.size()) * 4 + (1 << 24);
    return static_cast<size_t>(std::min(bytes, static_cast<double>(most))) / 4096 * 4096;
  }
};

}  // namespace

D5_REGISTER(containers, "lmdb", LmdbFile);

}  // namespace d5
