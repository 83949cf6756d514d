// SPDX-License-Identifier: Apache-2.0
// HDF5: arrays by name, whose rows are the samples, one field each (an array named label, labels or y is the label); or
// one long signal of which a sample is a window. Arrays that lie in one piece, as write() makes them, are mapped and
// read without the library. Its calls otherwise take turns, since it is not thread-safe. A file is first opened in a
// process of its own, because the library may crash on it.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <utility>

#include "d5/datasets/container.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/hdf5/trial.hpp"

namespace d5 {
namespace {

constexpr uint64_t most_unpacked = 1100;  // bytes out of one of the file: deflate gives 1032 at most

std::recursive_mutex& library() {
  static std::recursive_mutex mutex;
  return mutex;
}

class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }
  bool good() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

struct Kind {
  DType dtype;
  hid_t (*native)();
};
// Of 16 bits by IEEE 754, and truth values, as h5py writes them; made once, when the library is in use.
hid_t half_type() {
  static const hid_t type = [] {
    const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(made, 15, 10, 5, 0, 10);
    H5Tset_size(made, 2);
    H5Tset_ebias(made, 15);
    return made;
  }();
  return type;
}
hid_t truth_type() {
  static const hid_t type = [] {
    const hid_t made = H5Tenum_create(H5T_NATIVE_INT8);
    for (int8_t value = 0; const char* name : {"FALSE", "TRUE"}) {
      H5Tenum_insert(made, name, &value);
      ++value;
    }
    return made;
  }();
  return type;
}

const std::array<Kind, 12>& kinds() {
  static const std::array<Kind, 12> all{{{DType::f64, [] { return H5T_NATIVE_DOUBLE; }},
                                         {DType::f32, [] { return H5T_NATIVE_FLOAT; }},
                                         {DType::i8, [] { return H5T_NATIVE_INT8; }},
                                         {DType::i16, [] { return H5T_NATIVE_INT16; }},
                                         {DType::i32, [] { return H5T_NATIVE_INT32; }},
                                         {DType::i64, [] { return H5T_NATIVE_INT64; }},
                                         {DType::u8, [] { return H5T_NATIVE_UINT8; }},
                                         {DType::u16, [] { return H5T_NATIVE_UINT16; }},
                                         {DType::u32, [] { return H5T_NATIVE_UINT32; }},
                                         {DType::u64, [] { return H5T_NATIVE_UINT64; }},
                                         {DType::f16, half_type},
                                         {DType::boolean, truth_type}}};
  return all;
}
std::optional<hid_t> native_type(DType dtype) {
  for (const Kind& kind : kinds())
    if (kind.dtype == dtype) return kind.native();
  return {};
}

std::optional<DType> dtype_of_stored(hid_t type) {
  const size_t bytes = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_ENUM) return H5Tequal(type, truth_type()) > 0 ? std::optional(DType::boolean) : std::nullopt;
  const bool integer = kind == H5T_INTEGER, is_signed = integer && H5Tget_sign(type) == H5T_SGN_2;
  if (!integer && kind != H5T_FLOAT) return {};
  for (const Kind& k : kinds()) {
    const bool same_kind = is_float(k.dtype) != integer && (!integer || (name(k.dtype)[0] == 'i') == is_signed);
    if (same_kind && k.dtype != DType::boolean && static_cast<size_t>(bits(k.dtype)) == 8 * bytes) return k.dtype;
  }
  return {};
}

// The type of `info` has another name in later releases.
template <class Info>
herr_t note_array(hid_t, const char* name, const Info* info, void* to) {
  auto& found = *static_cast<std::vector<std::string>*>(to);
  if (info->type == H5O_TYPE_DATASET) found.emplace_back(name);
  return found.size() == 64 ? 1 : 0;
}

struct Array {
  std::string path;
  Handle dataset, space;
  DType dtype = DType::f32;
  std::vector<Index> sizes;
  std::optional<uint64_t> offset;  // in the file, where it lies in one piece as it is in memory
};

class Hdf5 : public Dataset {
 public:
  Hdf5(const std::string& path, const std::vector<std::string>& wanted, int64_t window, int64_t stride, int64_t classes)
      : bytes_(FileBytes::map(path)), path_(path) {
    const std::scoped_lock lock(library());
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    file_ = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (!file_.good()) throw Error("[hdf5] {} is no HDF5 file, or it is cut short", path);
    std::vector<std::string> names = wanted.empty() ? all_arrays() : wanted;
    for (const std::string& name : names) open_array(name, !wanted.empty());
    if (arrays_.empty()) throw Error("[hdf5] {} holds no arrays of numbers", path);
    if (window > 0)
      describe_windows(window, stride > 0 ? stride : window);
    else
      describe_rows(classes, !wanted.empty());
  }
  ~Hdf5() override {
    const std::scoped_lock lock(library());
    arrays_.clear();
    file_ = Handle();
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  std::string where(Index i) const override { return fmt::format("{}, sample {}", path_, i); }
  std::vector<std::string> files() const override { return {path_}; }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    for (size_t f = 0; f < fields_.size(); ++f) {
      if (!labels_.empty() && !labels_[f].empty())
        give_label(into, f, labels_[f][static_cast<size_t>(i)], *this, i);
      else
        give(arrays_[f], i, *fields_[f].shape, into, f);
    }
  }

 private:
  std::vector<std::string> all_arrays() const {
    std::vector<std::string> names;
    H5Ovisit2(file_, H5_INDEX_NAME, H5_ITER_NATIVE, note_array, &names, H5O_INFO_BASIC);
    return names;
  }

  void open_array(const std::string& name, bool must) {
    Array array;
    array.path = name;
    array.dataset = Handle(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!array.dataset.good()) throw Error("[hdf5] {} has no array '{}'", path_, name);
    array.space = Handle(H5Dget_space(array.dataset), H5Sclose);
    const Handle type(H5Dget_type(array.dataset), H5Tclose);
    const int rank = H5Sget_simple_extent_ndims(array.space);
    const std::optional<DType> dtype = dtype_of_stored(type);
    if (!dtype || rank < 1) {
      if (must) throw Error("[hdf5] {}: '{}' is no array of numbers with rows", path_, name);
      return;
    }
    array.dtype = *dtype;
    std::vector<hsize_t> sizes(static_cast<size_t>(rank));
    H5Sget_simple_extent_dims(array.space, sizes.data(), nullptr);
    for (const hsize_t size : sizes) array.sizes.push_back(static_cast<Index>(size));
    const Shape whole = shape_of(array);
    const Handle layout(H5Dget_create_plist(array.dataset), H5Pclose), creation(H5Fget_create_plist(file_), H5Pclose);
    hsize_t user_block = 0;
    H5Pget_userblock(creation, &user_block);
    if (H5Pget_layout(layout) == H5D_CONTIGUOUS && H5Pget_external_count(layout) == 0 && user_block == 0 &&
        H5Tequal(type, *native_type(array.dtype)) > 0) {
      const haddr_t offset = H5Dget_offset(array.dataset);
      if (offset != HADDR_UNDEF &&
          bytes_->holds(offset, static_cast<uint64_t>(storage_bytes(array.dtype, whole.elements()))))
        array.offset = offset;
    }
    arrays_.push_back(std::move(array));
  }

  // Sizes that no memory could hold are said to be those of this file.
  Shape shape_of(const Array& array) const {
    try {
      const Shape whole(array.sizes);
      storage_bytes(array.dtype, whole.elements());
      return whole;
    } catch (const Error& error) {
      throw Error("[hdf5] {}: '{}': {}", path_, array.path, error.what());
    }
  }

  // Rows without end would be read one by one.
  void require_room(const Array& array) const { require_room(array, shape_of(array)); }

  void describe_windows(int64_t window, int64_t stride) {
    if (arrays_.size() > 1)
      std::erase_if(arrays_, [](const Array& a) { return a.sizes.size() != 1 || a.sizes[0] < 2; });
    if (arrays_.size() != 1 || arrays_[0].sizes.size() != 1)
      throw UsageError("[hdf5] {}: windows are of one signal; name it (arrays=strain/Strain)", path_);
    const Index length = arrays_[0].sizes[0];
    if (window > length) throw UsageError("[hdf5] {}: a window of {} in a signal of {}", path_, window, length);
    require_room(arrays_[0]);
    step_ = stride;
    size_ = (length - window) / stride + 1;
    fields_.push_back({"signal", arrays_[0].dtype, Shape{window}, {}});
  }

  void describe_rows(int64_t classes, bool must) {
    size_ = arrays_[0].sizes[0];
    if (!must) require_one_set();
    for (const Array& array : arrays_) {
      if (array.sizes[0] != size_)
        throw Error("[hdf5] {}: '{}' has {} rows, '{}' {}", path_, array.path, array.sizes[0], arrays_[0].path, size_);
      const Shape row(std::vector<Index>(array.sizes.begin() + 1, array.sizes.end()));
      require_room(array);
      labels_.emplace_back();
      if (is_label(array)) {
        labels_.back() = all_integers(array);
        int64_t largest = classes - 1;
        if (classes == 0)
          for (const int64_t label : labels_.back()) largest = std::max(largest, label);
        fields_.push_back({"label", DType::i64, Shape{}, classes_up_to(largest)});
      } else {
        fields_.push_back({array.path, array.dtype, row, {}});
      }
    }
  }

  // Rows of one sample lie side by side, and one of them at most is its label.
  void require_one_set() const {
    const bool together = std::ranges::all_of(arrays_, [this](const Array& a) { return a.sizes[0] == size_; });
    if (together && std::ranges::count_if(arrays_, is_label) <= 1) return;
    std::string listed;
    for (const Array& array : arrays_)
      listed += fmt::format("{}{} {}[{}]", listed.empty() ? "" : ", ", array.path, name(array.dtype),
                            to_string(shape_of(array)));
    throw UsageError("[hdf5] {}: its arrays are no rows of one set; name those that are (arrays=x,y): {}", path_,
                     listed);
  }

  // No memory is taken on the word of a header.
  void require_room(const Array& array, const Shape& shape) const {
    const auto bytes = static_cast<uint64_t>(storage_bytes(array.dtype, shape.elements()));
    if (bytes / most_unpacked > bytes_->size())
      throw Error("[hdf5] {}: '{}' wants {}[{}], more than {} bytes can hold: damaged", path_, array.path,
                  name(array.dtype), to_string(shape), bytes_->size());
  }

  static bool is_label(const Array& array) {
    const std::string last = array.path.substr(array.path.rfind('/') + 1);
    return names_label(last) && array.sizes.size() == 1 && is_integer(array.dtype) && array.sizes[0] > 0 &&
           array.sizes[0] < (Index{1} << 32);
  }

  std::vector<int64_t> all_integers(const Array& array) const {
    std::vector<int64_t> values(static_cast<size_t>(array.sizes[0]));
    if (H5Dread(array.dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
      throw Error("[hdf5] {}: '{}' cannot be read", path_, array.path);
    return values;
  }

  void give(const Array& array, Index i, const Shape& shape, Sample& into, size_t field) const {
    const Index first = i * step_;
    if (array.offset) {
      const uint64_t before = static_cast<uint64_t>(storage_bytes(array.dtype, shape.elements()));
      const uint64_t at = fields_[0].name == "signal" ? static_cast<uint64_t>(storage_bytes(array.dtype, first))
                                                      : before * static_cast<uint64_t>(i);
      return bytes_->give(into, field, array.dtype, shape, *array.offset + at);
    }
    Tensor& tensor = target(into, field, array.dtype, shape);
    std::vector<hsize_t> start(array.sizes.size(), 0), count(array.sizes.begin(), array.sizes.end());
    start[0] = static_cast<hsize_t>(first);
    count[0] = fields_[0].name == "signal" ? static_cast<hsize_t>(shape.elements()) : 1;
    const std::scoped_lock lock(library());
    const Handle from(H5Scopy(array.space), H5Sclose);
    const Handle room(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(from, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
        H5Dread(array.dataset, *native_type(array.dtype), room, from, H5P_DEFAULT, tensor.data()) < 0)
      throw SampleError("[hdf5] {}: '{}' cannot be read: damaged, or a filter that is not here", where(i), array.path);
  }

  std::shared_ptr<const FileBytes> bytes_;
  std::string path_;
  Handle file_;
  std::vector<Array> arrays_;
  std::vector<std::vector<int64_t>> labels_;  // by field; empty: no label
  std::vector<Field> fields_;
  Index size_ = 0;
  Index step_ = 1;
};

void write_field(hid_t file, const Dataset& dataset, size_t f, int64_t chunk, int64_t gzip) {
  const Field& field = dataset.fields()[f];
  const auto type = native_type(field.dtype);
  if (!type)
    throw UsageError("[hdf5] holds floats of 16, 32 and 64 bits, integers and bool, '{}' is {}", field.name,
                     name(field.dtype));
  std::vector<hsize_t> sizes{static_cast<hsize_t>(dataset.size())};
  for (const Index size : *field.shape) sizes.push_back(static_cast<hsize_t>(size));
  const Handle space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
  if (chunk > 0 && dataset.size() > 0) {
    std::vector<hsize_t> piece = sizes;
    piece[0] = std::min<hsize_t>(static_cast<hsize_t>(chunk), sizes[0]);
    H5Pset_chunk(layout, static_cast<int>(piece.size()), piece.data());
    if (gzip > 0) H5Pset_deflate(layout, static_cast<unsigned>(gzip));
  }
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle array(H5Dcreate2(file, field.name.c_str(), *type, space, links, layout, H5P_DEFAULT), H5Dclose);
  if (!array.good()) throw Error("[hdf5] the array '{}' cannot be made", field.name);
  const auto row = static_cast<Index>(storage_bytes(field.dtype, field.shape->elements()));
  const Index rows = std::max<Index>({1, (Index{1} << 22) / std::max<Index>(row, 1), chunk});
  for (Index first = 0; first < dataset.size(); first += rows) {
    const Index count = std::min(rows, dataset.size() - first);
    std::vector<Index> some{count};
    some.insert(some.end(), field.shape->begin(), field.shape->end());
    const Tensor batch(field.dtype, Shape(some));
    for (Index i = 0; i < count; ++i) batch.slice(i, 1).copy_from(dataset.at(first + i)[f]);
    std::vector<hsize_t> start(sizes.size(), 0), piece = sizes;
    start[0] = static_cast<hsize_t>(first);
    piece[0] = static_cast<hsize_t>(count);
    const Handle room(H5Screate_simple(static_cast<int>(piece.size()), piece.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, piece.data(), nullptr) < 0 ||
        H5Dwrite(array, *type, room, space, H5P_DEFAULT, batch.data()) < 0)
      throw Error("[hdf5] '{}' cannot be written", field.name);
  }
}

struct Hdf5File {
  static constexpr const char* about = "HDF5: arrays whose rows are samples, or windows of a signal";
  static std::vector<std::string> endings() { return {".h5", ".hdf5"}; }
  static std::vector<DataOption> options() {
    return {{"arrays", "Their names, by commas; empty: all, which must have as many rows", ""},
            {"window", "Samples are windows of this length of one signal; 0: rows", 0},
            {"stride", "From one window to the next; 0: the window", 0},
            {"classes", "Labels are below this; 0: below the largest one found", 0},
            {"chunk", "Rows of a chunk, when writing; 0: in one piece", 0},
            {"gzip", "Packing of chunks when writing, 0 to 9", 0}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    if (o.integer("window", 0) < 0 || o.integer("stride", 0) < 0)
      throw UsageError("[hdf5] window and stride are at least 0");
    const auto opened = [&] {
      return std::make_shared<Hdf5>(path, parts_of(o.text("arrays", "")), o.integer("window", 0),
                                    o.integer("stride", 0), o.integer("classes", 0));
    };
    const std::scoped_lock lock(library());  // nobody is within the library while the process is copied
    try_in_a_process(path, [&] {
      new (&library()) std::recursive_mutex;  // held by a thread that is not in this process
      const auto set = opened();
      if (set->size() == 0) return;
      set->at(0);
      set->at(set->size() - 1);
    });
    return opened();
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes& o) {
    require_fixed_shapes(dataset, "[hdf5]");
    const int64_t chunk = o.integer("chunk", 0), gzip = o.integer("gzip", 0);
    if (chunk < 0 || gzip < 0 || gzip > 9 || (gzip > 0 && chunk == 0))
      throw UsageError("[hdf5] chunk {} and gzip {}; legal: chunk at least 0, gzip 0 to 9 and only with chunks", chunk,
                       gzip);
    const std::scoped_lock lock(library());  // again and again, where the source is HDF5 itself
    UnfinishedPath made(path);
    {
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
      const Handle file(H5Fcreate(made.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
      if (!file.good()) throw Error("[hdf5] {} cannot be written", made.path());
      for (size_t f = 0; f < dataset.fields().size(); ++f) write_field(file, dataset, f, chunk, gzip);
    }
    made.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "hdf5", Hdf5File);

}  // namespace d5
