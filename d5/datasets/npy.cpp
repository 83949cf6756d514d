// SPDX-License-Identifier: Apache-2.0
// NumPy: an .npy file is one array whose rows are the samples; an .npz file is a zip of them, one field each (an array
// named label, labels, y or y_train is the label): those that are chosen, else all that have rows of numbers. Arrays
// that are stored (np.savez) are read where they lie, packed ones (np.savez_compressed) are unpacked when the file is
// opened.
#include "d5/datasets/npy.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 12> codes{{{"f8", DType::f64},
                                                                    {"f4", DType::f32},
                                                                    {"f2", DType::f16},
                                                                    {"i1", DType::i8},
                                                                    {"i2", DType::i16},
                                                                    {"i4", DType::i32},
                                                                    {"i8", DType::i64},
                                                                    {"u1", DType::u8},
                                                                    {"u2", DType::u16},
                                                                    {"u4", DType::u32},
                                                                    {"u8", DType::u64},
                                                                    {"b1", DType::boolean}}};

// The value of 'key' in {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, up to where the next one begins.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const size_t at = dictionary.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return {};
  size_t begin = at + key.size() + 2;
  while (begin < dictionary.size() && (dictionary[begin] == ':' || dictionary[begin] == ' ')) ++begin;
  if (begin >= dictionary.size()) return {};
  const char closes = dictionary[begin] == '(' ? ')' : dictionary[begin] == '\'' ? '\'' : ',';
  const size_t end = dictionary.find(closes, begin + 1);
  return end == std::string_view::npos ? std::string_view() : dictionary.substr(begin, end - begin);
}

std::vector<Index> sizes_of(std::string_view tuple, const std::string& place) {
  std::vector<Index> sizes;
  const char *at = tuple.data() + 1, *end = tuple.data() + tuple.size();
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    Index size = 0;
    const auto found = std::from_chars(at, end, size);
    if (found.ec != std::errc() || sizes.size() == 32)
      throw SampleError("[npy] {}: its shape is '{}'", place, std::string(tuple));
    sizes.push_back(size);
    at = found.ptr;
  }
  return sizes;
}

struct Part {
  std::shared_ptr<const FileBytes> bytes;
  uint64_t offset = 0, size = 0;
  NpyHeader header;
  std::optional<uint32_t> sum;  // CRC-32 of all of it, where one is stored
};

void check_sum(const std::string& path, const std::string& name, const Part& part) {
  uLong sum = crc32(0, nullptr, 0);
  std::vector<uint8_t> piece(1 << 20);
  for (uint64_t done = 0; done < part.size; done += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), part.size - done);
    part.bytes->copy(part.offset + done, bytes, piece.data());
    sum = crc32_z(sum, piece.data(), bytes);
  }
  if (sum != *part.sum) throw Error("[npz] {}: the sum of array '{}' is wrong, its bytes are damaged", path, name);
}

class NumpyDataset : public Dataset {
 public:
  NumpyDataset(std::string path, std::vector<std::pair<std::string, Part>> parts, int64_t classes)
      : path_(std::move(path)) {
    if (parts.empty()) throw Error("[npy] {} holds no arrays", path_);
    for (auto& [name, part] : parts) {
      const Shape& shape = part.header.shape;
      if (shape.rank() == 0) throw Error("[npy] {}: array '{}' is a scalar, it has no rows", path_, name);
      size_ = shape[0];
      Field field{name, part.header.dtype, Shape(std::vector<Index>(shape.begin() + 1, shape.end())), {}};
      const bool label = names_label(name) && is_integer(field.dtype) && field.shape->elements() == 1;
      if (label) field = {"label", DType::i64, Shape{}, {}};
      labels_.emplace_back();
      label_.push_back(label);
      names_.push_back(name);
      fields_.push_back(std::move(field));
      parts_.push_back(std::move(part));
    }
    for (size_t f = 0; f < fields_.size(); ++f) {
      if (!label_[f]) continue;
      for (Index i = 0; i < size_; ++i) labels_[f].push_back(read_label(i, f));
      int64_t largest = classes - 1;
      if (classes == 0)
        for (const int64_t label : labels_[f]) largest = std::max(largest, label);
      fields_[f].classes = classes_up_to(largest);
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  std::string where(Index i) const override { return fmt::format("{}, row {}", path_, i); }
  std::vector<std::string> files() const override {
    const bool any = std::ranges::any_of(parts_, [](const Part& part) { return !part.bytes->files().empty(); });
    return any ? std::vector{path_} : std::vector<std::string>();
  }
  void verify() const override {
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].sum) check_sum(path_, names_[p], parts_[p]);
  }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    for (size_t f = 0; f < fields_.size(); ++f) {
      if (label_[f])
        give_label(into, f, labels_[f][static_cast<size_t>(i)], *this, i);
      else
        give_row(i, f, *fields_[f].shape, into, f);
    }
  }

 private:
  void give_row(Index i, size_t part, const Shape& shape, Sample& into, size_t field) const {
    const Part& p = parts_[part];
    give_elements(*p.bytes, p.header, p.offset, static_cast<uint64_t>(i * shape.elements()), shape, into, field);
  }
  int64_t read_label(Index i, size_t f) const {
    Sample one(1);
    give_row(i, f, Shape{}, one, 0);
    return integer_value(one[0]);
  }
  std::string path_;
  std::vector<Part> parts_;
  std::vector<std::string> names_;  // of the arrays
  std::vector<bool> label_;         // is the field one?
  std::vector<std::vector<int64_t>> labels_;
  std::vector<Field> fields_;
  Index size_ = 0;
};

struct Npy {
  static constexpr const char* about = "NumPy, one array whose rows are the samples";
  static std::vector<std::string> endings() { return {".npy"}; }
  static std::vector<DataOption> options() { return {{"name", "What the field is called", "value"}}; }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& options) {
    const auto bytes = FileBytes::map(path);
    Part part{bytes, 0, bytes->size(), npy_header(*bytes, 0, bytes->size()), {}};
    std::vector<std::pair<std::string, Part>> parts{{options.text("name", "value"), std::move(part)}};
    return std::make_shared<NumpyDataset>(path, std::move(parts), 0);
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    if (dataset.fields().size() != 1)
      throw UsageError("[npy] holds one field, here are {}: use npz", dataset.fields().size());
    require_fixed_shapes(dataset, "[npy]");
    const Field& field = dataset.fields()[0];
    std::vector<Index> sizes{dataset.size()};
    sizes.insert(sizes.end(), field.shape->begin(), field.shape->end());
    FileWriter file(path);
    file.write(npy_header_text(field.dtype, Shape(sizes)));
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      file.write(sample[0].data(), sample[0].bytes());
    }
    file.commit();
  }
};

// ---- zip: as much as npz files need (stored and deflated members, sizes beyond 4 GiB)
constexpr uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50, locator_mark = 0x07064b50, entry_mark = 0x02014b50,
                   local_mark = 0x04034b50;

struct ZipEntry {
  std::string name;
  uint64_t header = 0, packed = 0, size = 0;
  uint32_t sum = 0;  // CRC-32 of what is unpacked
  uint16_t method = 0;
};

class ZipDirectory {
 public:
  explicit ZipDirectory(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}

  std::vector<ZipEntry> entries() const {
    uint64_t at = find_end(), count = number<uint16_t>(at + 10), start = number<uint32_t>(at + 16);
    if (at >= 20 && number<uint32_t>(at - 20) == locator_mark) {
      const uint64_t end64 = number<uint64_t>(at - 20 + 8);
      if (number<uint32_t>(end64) != end64_mark) fail("its directory of large files");
      count = number<uint64_t>(end64 + 32);
      start = number<uint64_t>(end64 + 48);
    }
    if (count > 4096) throw Error("[npz] {}: {} members; at most 4096 are read", file_->name(), count);
    std::vector<ZipEntry> found;
    for (at = start; count > 0; --count) {
      if (number<uint32_t>(at) != entry_mark) fail("its directory");
      ZipEntry entry;
      entry.method = number<uint16_t>(at + 10);
      entry.sum = number<uint32_t>(at + 16);
      entry.packed = number<uint32_t>(at + 20);
      entry.size = number<uint32_t>(at + 24);
      entry.header = number<uint32_t>(at + 42);
      const uint64_t name = number<uint16_t>(at + 28), extra = number<uint16_t>(at + 30),
                     comment = number<uint16_t>(at + 32);
      const std::vector<uint8_t> text = file_->range(at + 46, name);
      entry.name.assign(text.begin(), text.end());
      read_large_sizes(entry, at + 46 + name, extra);
      found.push_back(std::move(entry));
      at += 46 + name + extra + comment;
    }
    return found;
  }

  // Where the contents of a member begin: behind its own header, whose extra part may have another length.
  uint64_t contents(const ZipEntry& entry) const {
    if (number<uint32_t>(entry.header) != local_mark) fail(entry.name);
    return entry.header + 30 + number<uint16_t>(entry.header + 26) + number<uint16_t>(entry.header + 28);
  }

 private:
  template <class T>
  T number(uint64_t at) const {
    if (!file_->holds(at, sizeof(T))) fail("its directory");
    std::array<uint8_t, sizeof(T)> found;
    file_->copy(at, found.size(), found.data());
    return load_little<T>(found.data());
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("[npz] {} is no zip file, or cut short: {} is broken", file_->name(), what);
  }
  uint64_t find_end() const {
    const uint64_t size = file_->size();
    for (uint64_t back = 22; back <= std::min<uint64_t>(size, 22 + 65535); ++back)
      if (number<uint32_t>(size - back) == end_mark) return size - back;
    fail("the end of its directory");
  }
  void read_large_sizes(ZipEntry& entry, uint64_t at, uint64_t extra) const {
    for (uint64_t end = at + extra; at + 4 <= end;) {
      const uint16_t id = number<uint16_t>(at), length = number<uint16_t>(at + 2);
      uint64_t value = at + 4;
      if (id == 1)
        for (uint64_t* field : {&entry.size, &entry.packed, &entry.header})
          if (*field == 0xffffffff && value + 8 <= at + 4 + length) {
            *field = number<uint64_t>(value);
            value += 8;
          }
      at += 4 + length;
    }
  }
  std::shared_ptr<const FileBytes> file_;
};

using Arrays = std::vector<std::pair<std::string, Part>>;

// "x f32[5x3], y i64[5]"
std::string listed(const Arrays& arrays) {
  std::string text;
  for (const auto& [name, part] : arrays)
    text += fmt::format("{}{} {}[{}]", text.empty() ? "" : ", ", name, d5::name(part.header.dtype),
                        to_string(part.header.shape));
  return text.empty() ? "none" : text;
}

struct Npz {
  static constexpr const char* about = "NumPy, a zip of arrays: one field each";
  static std::vector<std::string> endings() { return {".npz"}; }
  static std::vector<DataOption> options() {
    return {{"arrays", "Their names, by commas; empty: all that have rows of numbers", ""},
            {"classes", "Labels are below this; 0: below the largest one found", 0}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& options) {
    const auto file = FileBytes::map(path);
    const ZipDirectory directory(file);
    const std::vector<std::string> wanted = parts_of(options.text("arrays", ""));
    Arrays parts;
    for (const ZipEntry& entry : directory.entries()) {
      if (!entry.name.ends_with(".npy")) continue;
      const std::string name = entry.name.substr(0, entry.name.size() - 4);
      const bool chosen = std::ranges::count(wanted, name) > 0;
      const uint64_t begin = directory.contents(entry);
      Part part{file, begin, entry.size, {}, entry.sum};
      if (entry.method == 8) {
        part.bytes = FileBytes::of(path + ":" + entry.name, inflate_range(file, begin, entry.packed, entry.size));
        part.offset = 0;
        check_sum(path, entry.name, part);
        part.sum.reset();
      } else if (entry.method != 0) {
        throw Error("[npz] {}: '{}' is packed by method {}; legal: stored, deflated", path, entry.name, entry.method);
      }
      try {
        part.header = npy_header(*part.bytes, part.offset, part.size);
      } catch (const ForeignElements&) {
        if (chosen) throw;
        continue;
      }
      if (part.header.shape.rank() > 0 || chosen) parts.emplace_back(name, std::move(part));
    }
    if (!wanted.empty()) parts = chosen_of(path, std::move(parts), wanted);
    require_one_set(path, parts);
    return std::make_shared<NumpyDataset>(path, std::move(parts), options.integer("classes", 0));
  }
  // Members are stored, so that they can be mapped; each field is one pass over the set.
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    require_fixed_shapes(dataset, "[npz]");
    std::vector<Member> members;
    for (size_t f = 0; f < dataset.fields().size(); ++f) {
      const Field& field = dataset.fields()[f];
      std::vector<Index> sizes{dataset.size()};
      sizes.insert(sizes.end(), field.shape->begin(), field.shape->end());
      members.push_back({field.name, npy_header_text(field.dtype, Shape(sizes)), [&dataset, f](const Use& use) {
                           for (Index i = 0; i < dataset.size(); ++i) {
                             const Sample sample = dataset.at(i);
                             use(static_cast<const char*>(sample[f].data()), sample[f].bytes());
                           }
                         }});
    }
    write_members(path, members);
  }

  static Arrays chosen_of(const std::string& path, Arrays all, const std::vector<std::string>& wanted) {
    Arrays chosen;
    for (const std::string& name : wanted) {
      const auto found = std::ranges::find(all, name, &Arrays::value_type::first);
      if (found == all.end()) throw UsageError("[npz] {} has no array '{}'; it has: {}", path, name, listed(all));
      chosen.push_back(*found);
    }
    return chosen;
  }

  // Rows of one sample lie side by side, and one of them at most is its label.
  static void require_one_set(const std::string& path, const Arrays& parts) {
    const auto rows = [](const Part& part) { return part.header.shape.rank() > 0 ? part.header.shape[0] : 0; };
    const bool together =
        std::ranges::all_of(parts, [&](const auto& one) { return rows(one.second) == rows(parts.front().second); });
    if (!together || std::ranges::count_if(parts, [](const auto& one) { return names_label(one.first); }) > 1)
      throw UsageError("[npz] {}: its arrays are no rows of one set; name those that are (arrays=x,y): {}", path,
                       listed(parts));
  }

  using Use = std::function<void(const char*, size_t)>;
  struct Member {
    std::string name, header;
    std::function<void(const Use&)> visit;  // the elements, in pieces; called twice
  };
  static void write_members(const std::string& path, const std::vector<Member>& arrays) {
    struct Written {
      std::string name;
      uint64_t offset, size;
      uint32_t crc;
    };
    std::vector<Written> members;
    FileWriter file(path);
    for (const Member& array : arrays) {
      const auto visit = [&](const Use& use) {
        use(array.header.data(), array.header.size());
        array.visit(use);
      };
      Written member{array.name + ".npy", file.written(), 0, 0};
      uLong crc = crc32(0, nullptr, 0);
      visit([&](const char* data, size_t bytes) {
        crc = crc32_z(crc, reinterpret_cast<const Bytef*>(data), bytes);
        member.size += bytes;
      });
      member.crc = static_cast<uint32_t>(crc);
      std::string local = local_header(member.name, member.size, member.crc, file.written());
      file.write(local);
      visit([&](const char* data, size_t bytes) { file.write(data, bytes); });
      members.push_back(std::move(member));
    }
    const uint64_t directory = file.written();
    for (const Written& m : members) file.write(central_header(m.name, m.size, m.crc, m.offset));
    const uint64_t directory_bytes = file.written() - directory, end64 = file.written();
    std::string end;
    append_little(end, end64_mark);
    append_little(end, uint64_t{44});
    append_little(end, uint32_t{45 | 45 << 16});
    append_little(end, uint64_t{0});  // disks
    for (int twice = 0; twice < 2; ++twice) append_little(end, static_cast<uint64_t>(members.size()));
    append_little(end, directory_bytes);
    append_little(end, directory);
    append_little(end, locator_mark);
    append_little(end, uint32_t{0});
    append_little(end, end64);
    append_little(end, uint32_t{1});
    append_little(end, end_mark);
    append_little(end, uint32_t{0});
    for (int twice = 0; twice < 2; ++twice) append_little(end, static_cast<uint16_t>(members.size()));
    append_little(end, static_cast<uint32_t>(std::min<uint64_t>(directory_bytes, 0xffffffff)));
    append_little(end, static_cast<uint32_t>(std::min<uint64_t>(directory, 0xffffffff)));
    append_little(end, uint16_t{0});
    file.write(end);
    file.commit();
  }

 private:
  // Sizes in the extra part (id 1), which also pads so that the elements begin at a multiple of 64 bytes.
  static std::string local_header(const std::string& name, uint64_t size, uint32_t crc, uint64_t at) {
    const uint64_t plain = at + 30 + name.size() + 20;
    const auto padding = static_cast<uint16_t>((64 - (plain + 4) % 64) % 64);
    std::string out;
    append_little(out, local_mark);
    for (const uint16_t n : {45, 0, 0, 0, 0x21}) append_little(out, n);  // version, flags, stored, time, date 1980-1-1
    append_little(out, crc);
    append_little(out, uint32_t{0xffffffff});
    append_little(out, uint32_t{0xffffffff});
    append_little(out, static_cast<uint16_t>(name.size()));
    append_little(out, static_cast<uint16_t>(20 + 4 + padding));
    out += name;
    append_little(out, uint16_t{1});
    append_little(out, uint16_t{16});
    append_little(out, size);
    append_little(out, size);
    append_little(out, uint16_t{0xd500});  // an id that nobody reads: padding
    append_little(out, padding);
    return out + std::string(padding, '\0');
  }
  static std::string central_header(const std::string& name, uint64_t size, uint32_t crc, uint64_t offset) {
    std::string out;
    append_little(out, entry_mark);
    for (const uint16_t n : {45, 45, 0, 0, 0, 0x21}) append_little(out, n);
    append_little(out, crc);
    append_little(out, uint32_t{0xffffffff});
    append_little(out, uint32_t{0xffffffff});
    append_little(out, static_cast<uint16_t>(name.size()));
    append_little(out, uint16_t{28});
    for (int i = 0; i < 3; ++i) append_little(out, uint16_t{0});  // comment, disk, kind
    append_little(out, uint32_t{0});
    append_little(out, uint32_t{0xffffffff});
    out += name;
    append_little(out, uint16_t{1});
    append_little(out, uint16_t{24});
    for (const uint64_t n : {size, size, offset}) append_little(out, n);
    return out;
  }
};

}  // namespace

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  std::vector<Npz::Member> members;
  for (const auto& [name, tensor] : arrays) {
    const Tensor host = tensor.to(host_memory());
    members.push_back({name, npy_header_text(host.dtype(), host.shape()),
                       [host](const Npz::Use& use) { use(static_cast<const char*>(host.data()), host.bytes()); }});
  }
  Npz::write_members(path, members);
}

NpyHeader npy_header(const FileBytes& file, uint64_t offset, uint64_t size) {
  const std::string& place = file.name();
  if (size < 10 || !file.holds(offset, size)) throw SampleError("[npy] {}: cut short, an array has a header", place);
  const std::vector<uint8_t> head = file.range(offset, std::min<uint64_t>(size, 12));
  if (std::memcmp(head.data(), "\x93NUMPY", 6) != 0)
    throw SampleError("[npy] {}: no array begins at byte {}", place, offset);
  const bool large = head[6] > 1;
  if (head[6] < 1 || head[6] > 3 || (large && size < 12))
    throw SampleError("[npy] {}: version {}; legal: 1 to 3", place, head[6]);
  const uint64_t length = large ? load_little<uint32_t>(head.data() + 8) : load_little<uint16_t>(head.data() + 8);
  NpyHeader header;
  header.bytes = (large ? 12 : 10) + length;
  if (length > (1 << 20) || header.bytes > size) throw SampleError("[npy] {}: cut short in the header", place);
  const std::vector<uint8_t> text = file.range(offset + header.bytes - length, length);
  const std::string_view dictionary(reinterpret_cast<const char*>(text.data()), text.size());
  const std::string_view type = value_of(dictionary, "descr"), order = value_of(dictionary, "fortran_order"),
                         shape = value_of(dictionary, "shape");
  if (!shape.starts_with('(') || type.size() < 3 || (type[0] != '\'' && type[0] != '['))
    throw SampleError("[npy] {}: the header is '{}'", place, std::string(dictionary.substr(0, 200)));
  const auto code = std::ranges::find(codes, type.substr(2), &std::pair<std::string_view, DType>::first);
  if (type[0] == '[' || code == codes.end())
    throw ForeignElements("[npy] {}: elements of type {}'", place, std::string(type));
  header.dtype = code->second;
  header.swapped = type[1] == '>' && bits(header.dtype) > 8;
  try {
    header.shape = Shape(sizes_of(shape, place));
    header.contents();
  } catch (const SampleError&) {
    throw;
  } catch (const Error& error) {  // sizes below zero, or larger than any memory
    throw SampleError("[npy] {}: {}", place, error.what());
  }
  header.columns = order.starts_with("True") && header.shape.rank() > 1;
  if (header.contents() > size - header.bytes)
    throw SampleError("[npy] {}: cut short, {}[{}] needs {} bytes, there are {}", place, name(header.dtype),
                      to_string(header.shape), header.contents(), size - header.bytes);
  return header;
}

std::string npy_header_text(DType type, const Shape& shape) {
  const auto code = std::ranges::find(codes, type, &std::pair<std::string_view, DType>::second);
  if (code == codes.end()) throw UsageError("[npy] has no elements of type {}", name(type));
  std::string sizes;
  for (const Index size : shape) sizes += fmt::format("{}{}", size, shape.rank() == 1 ? "," : ", ");
  if (shape.rank() > 1) sizes.resize(sizes.size() - 2);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 bits(type) == 8 ? '|' : '<', code->first, sizes);
  text += std::string(63 - (10 + text.size()) % 64, ' ') + "\n";
  std::string header("\x93NUMPY\1\0", 8);
  append_little(header, static_cast<uint16_t>(text.size()));
  return header + text;
}

namespace {

// Element `index`, counted row by row, of an array in Fortran's order lies at this place.
uint64_t place_by_columns(const Shape& shape, uint64_t index) {
  uint64_t place = 0, stride = static_cast<uint64_t>(shape.elements());
  for (size_t axis = shape.rank(); axis-- > 0;) {
    const auto size = static_cast<uint64_t>(shape[axis]);
    stride /= size;
    place += index % size * stride;
    index /= size;
  }
  return place;
}

}  // namespace

void give_elements(const FileBytes& file, const NpyHeader& header, uint64_t array, uint64_t first, const Shape& shape,
                   Sample& into, size_t field) {
  const auto width = static_cast<uint64_t>(bits(header.dtype) / 8);
  const uint64_t at = array + header.bytes + first * width;
  if (!header.swapped && !header.columns) return file.give(into, field, header.dtype, shape, at);
  Tensor& tensor = target(into, field, header.dtype, shape);
  if (header.columns) {
    auto* to = static_cast<uint8_t*>(tensor.data());
    for (uint64_t k = 0; k < static_cast<uint64_t>(tensor.elements()); ++k)
      file.copy(array + header.bytes + place_by_columns(header.shape, first + k) * width, width, to + k * width);
  } else {
    file.copy(at, tensor.bytes(), tensor.data());
  }
  if (header.swapped) swap_elements(tensor.data(), static_cast<size_t>(tensor.elements()), width);
}

D5_REGISTER(containers, "npy", Npy);
D5_REGISTER(containers, "npz", Npz);

}  // namespace d5
