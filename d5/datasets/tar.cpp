// SPDX-License-Identifier: Apache-2.0
// Tar archives, read in place through an index that is made once. Names as in WebDataset: members KEY.EXT that share a
// KEY and follow each other are one sample, EXT says what each is: jpg, jpeg, png, ppm, pgm the field "image"
// (encoded), cls the "label" as decimal text, NAME.npy an array, anything else bytes. Without cls, the folder a member
// lies in is its class. A link is what it leads to inside the archive; one that leads to a folder is passed over.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/npy.hpp"
#include "d5/datasets/record_index.hpp"
#include "d5/datasets/tar_links.hpp"
#include "d5/datasets/unpack.hpp"

namespace d5 {
namespace {

constexpr size_t most_fields = 64;
constexpr std::string_view class_ending = "cls", array_ending = "npy";

struct Name {
  std::string folder, key, ending;  // a/b.c.d: a, a/b, c.d
};
Name split(const std::string& path) {
  const size_t slash = path.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.find('.', begin);
  Name name;
  name.folder = path.substr(0, begin == 0 ? 0 : slash);
  name.key = path.substr(0, dot);
  if (dot != std::string::npos) name.ending = path.substr(dot + 1);
  std::ranges::transform(name.ending, name.ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ending == "jpg" || name.ending == "jpeg" || name.ending == "png" || name.ending == "ppm" ||
      name.ending == "pgm")
    name.ending = "image";
  return name;
}

std::string field_name(const std::string& ending) {
  if (ending == array_ending) return "value";
  for (const std::string_view last : {".npy", ".bin"})
    if (ending.ends_with(last)) return ending.substr(0, ending.size() - last.size());
  return ending.empty() ? "value" : ending;
}
bool is_array(const std::string& ending) { return ending == array_ending || ending.ends_with(".npy"); }

class Tar : public Dataset {
 public:
  // The index that is kept is that of labels=auto; classes by folder where there are others are found anew.
  Tar(const std::string& path, const std::string& labels, int64_t classes, bool keep)
      : file_(FileBytes::map(path)), by_folder_(labels == "folder") {
    index_ = RecordIndex::of(path, keep && !by_folder_, [&] { return pass(); });
    labelled_ = labels != "none" && index_->has_labels();
    for (size_t f = 0; f < index_->fields().size(); ++f) {
      const std::string& ending = index_->fields()[f];
      Field field{field_name(ending), DType::u8, {}, {}};
      const auto first = index_->size() > 0 ? index_->range(0, f) : RecordIndex::Range{0, RecordIndex::missing};
      FirstArray array;
      if (is_array(ending) && RecordIndex::is_there(first)) {
        array.header = npy_header(*file_, first.offset, first.size);
        array.text = file_->range(first.offset, array.header.bytes);
        field.dtype = array.header.dtype;
        field.shape = array.header.shape;
      }
      arrays_.push_back(std::move(array));
      is_array_.push_back(is_array(ending));
      fields_.push_back(std::move(field));
    }
    if (labelled_)
      fields_.push_back({"label", DType::i64, Shape{}, classes ? classes : classes_up_to(index_->largest_label())});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return index_->size(); }
  std::string where(Index i) const override { return fmt::format("{}, {}", file_->name(), index_->name(i)); }
  std::vector<std::string> files() const override { return files_of(*file_, *index_); }

  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const size_t parts = index_->fields().size();
    for (size_t f = 0; f < parts; ++f) {
      const RecordIndex::Range range = index_->range(i, f);
      if (range.size == RecordIndex::missing)
        throw SampleError("[tar] {}: has no part .{}", where(i), index_->fields()[f]);
      if (range.size == RecordIndex::refused)
        throw SampleError("[tar] {}: its path leaves the folder; refused", where(i));
      if (range.size == RecordIndex::lost)
        throw SampleError("[tar] {}: its part .{} is a link {}", where(i), index_->fields()[f],
                          why_lost(static_cast<TarLinks::End>(range.offset)));
      if (!file_->holds(range.offset, range.size)) throw SampleError("[tar] {}: cut short", where(i));
      if (!is_array_[f]) {
        file_->give(into, f, DType::u8, Shape{static_cast<Index>(range.size)}, range.offset);
        continue;
      }
      give_array(i, f, range, into);
    }
    if (labelled_) give_label(into, parts, index_->label(i), *this, i);
  }
  void expect(Index i) const override {
    if (i < 0 || i >= size()) return;
    for (size_t f = 0; f < index_->fields().size(); ++f) {
      const RecordIndex::Range range = index_->range(i, f);
      file_->expect(range.offset, range.size);
    }
  }

 private:
  struct FirstArray {
    NpyHeader header;
    std::vector<uint8_t> text;  // the header as it is in the file
  };

  // Arrays of a set mostly have the header of the first one, letter by letter; then it is not read again.
  void give_array(Index i, size_t f, const RecordIndex::Range& range, Sample& into) const {
    const FirstArray& first = arrays_[f];
    std::array<uint8_t, 256> text;
    const size_t bytes = first.text.size();
    if (bytes > 0 && bytes <= text.size() && range.size == bytes + first.header.contents()) {
      file_->copy(range.offset, bytes, text.data());
      if (std::memcmp(text.data(), first.text.data(), bytes) == 0)
        return give_elements(*file_, first.header, range.offset, 0, first.header.shape, into, f);
    }
    const NpyHeader header = npy_header(*file_, range.offset, range.size);
    if (header.dtype != fields_[f].dtype || header.shape != fields_[f].shape)
      throw SampleError("[tar] {}: {} is {}[{}], another type or shape than the first one", where(i), fields_[f].name,
                        name(header.dtype), to_string(header.shape));
    give_elements(*file_, header, range.offset, 0, header.shape, into, f);
  }

  TarWalk walk() const {
    return {file_->name(), [this](uint64_t offset, void* to, size_t bytes) {
              if (!file_->holds(offset, bytes)) return false;
              file_->copy(offset, bytes, to);
              return true;
            }};
  }

  static const char* why_lost(TarLinks::End end) {
    if (end == TarLinks::End::leaves) return "that leaves the archive; refused";
    if (end == TarLinks::End::circle) return "that leads in a circle, or over too many others";
    return "to what is not in the archive";
  }

  RecordIndex::Contents pass() const {
    struct Member {
      size_t sample, field;
      RecordIndex::Range range;
    };
    RecordIndex::Contents found;
    std::vector<Member> members;
    std::vector<int64_t> written_labels;
    std::vector<std::string> folders;
    std::map<std::string, size_t> field_of;
    bool any_class = false;
    std::string key;
    std::optional<TarLinks> links;  // made when the first one is met
    TarWalk all = walk();
    for (TarMember member; all.next(member);) {
      if (member.kind == TarMember::folder) continue;
      RecordIndex::Range range{member.offset, member.size};
      if (member.leaves_folder) {
        range = {0, RecordIndex::refused};
      } else if (member.kind != TarMember::file) {
        if (!links) links.emplace(walk());
        const TarLinks::Target target = links->follow(member);
        if (target.end == TarLinks::End::folder) continue;
        range = target.end == TarLinks::End::file
                    ? RecordIndex::Range{target.offset, target.size}
                    : RecordIndex::Range{static_cast<uint64_t>(target.end), RecordIndex::lost};
      }
      const Name name = split(member.name);
      if (RecordIndex::is_there(range) && !file_->holds(range.offset, range.size))
        throw Error("[tar] {}: cut short in member '{}'", file_->name(), member.name);
      if (found.samples == 0 || name.key != key) {
        key = name.key;
        ++found.samples;
        found.names.push_back(key);
        folders.push_back(name.folder);
        written_labels.push_back(-1);
      }
      if (name.ending == class_ending) {
        any_class = true;
        if (RecordIndex::is_there(range)) written_labels.back() = class_number(range);
        continue;
      }
      const auto place = field_of.try_emplace(name.ending, field_of.size());
      if (place.second) {
        found.fields.push_back(name.ending);
        if (found.fields.size() > most_fields)
          throw Error("[tar] {}: more than {} kinds of members, the last is .{}", file_->name(), most_fields,
                      name.ending);
      }
      members.push_back({static_cast<size_t>(found.samples) - 1, place.first->second, range});
    }
    found.ranges.assign(static_cast<size_t>(found.samples) * found.fields.size(), {0, RecordIndex::missing});
    for (const Member& member : members)
      found.ranges[member.sample * found.fields.size() + member.field] = member.range;
    if (any_class && !by_folder_) {
      found.labels = std::move(written_labels);
    } else {
      std::map<std::string_view, int64_t> classes;
      for (const std::string& folder : folders) classes.try_emplace(folder);
      int64_t next = 0;
      for (auto& [folder, number] : classes) number = next++;
      if (by_folder_ || (classes.size() > 1 && !classes.contains("")))
        for (const std::string& folder : folders) found.labels.push_back(classes.at(folder));
    }
    return found;
  }

  // -1, which no reader accepts, where the text is no number.
  int64_t class_number(const RecordIndex::Range& written) const {
    if (written.size == 0 || written.size > 32) return -1;
    const std::vector<uint8_t> text = file_->range(written.offset, written.size);
    const auto* begin = reinterpret_cast<const char*>(text.data());
    int64_t number = -1;
    const auto end = std::from_chars(begin, begin + text.size(), number);
    return end.ec == std::errc() && number >= 0 ? number : -1;
  }

  std::shared_ptr<const FileBytes> file_;
  bool by_folder_, labelled_ = false;
  std::shared_ptr<const RecordIndex> index_;
  std::vector<Field> fields_;
  std::vector<FirstArray> arrays_;  // by field
  std::vector<bool> is_array_;
};

std::string ending_of(const Field& field, const Tensor& tensor) {
  std::string name = field.name;
  std::ranges::replace(name, '/', '_');  // a member's name ends behind its last folder
  if (field.name == "image" && !field.shape && tensor.elements() > 2) {
    const Encoded bytes = tensor.values<uint8_t>();
    if (bytes[0] == 0xff) return "jpg";
    if (bytes[0] == 0x89) return "png";
    return "ppm";
  }
  if (field.dtype == DType::u8 && !field.shape) return name + ".bin";
  return name + ".npy";
}

// Members of a sample are told apart by what stands behind its key, in lower case.
void require_own_names(const std::vector<Field>& fields) {
  std::set<std::string> names;
  for (const Field& field : fields) {
    std::string name = field.name;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '/' ? '_' : std::tolower(c); });
    if (!names.insert(name).second)
      throw UsageError("[tar] two fields would be called '{}', the second is '{}'", name, field.name);
  }
}

struct Tars {
  static constexpr const char* about = "tar, indexed once; WebDataset names; PATTERN* for shards";
  static std::vector<std::string> endings() { return {".tar"}; }
  static std::vector<DataOption> options() {
    return {{"labels", "auto: .cls members, else folders where all members lie in some; folder; none", "auto"},
            {"classes", "Labels are below this; 0: below the largest one found", 0},
            {"index", "Keep the index in a file", true}};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    const std::string labels = o.text("labels", "auto");
    if (labels != "auto" && labels != "folder" && labels != "none")
      throw UsageError("[tar] labels is '{}'; legal: auto, folder, none", labels);
    std::vector<std::shared_ptr<const Dataset>> shards;
    for (const std::string& file : matching_files(path)) {
      if (file.ends_with(".d5index")) continue;
      if (file.ends_with(".gz") || file.ends_with(".tgz") || file.ends_with(".xz"))
        throw UsageError("[tar] {} is packed, which allows no reading in any order; unpack it: gunzip or unxz", file);
      shards.push_back(open_named("tar", file, [&] {
        return std::make_shared<Tar>(file, labels, o.integer("classes", 0), o.flag("index", true));
      }));
    }
    return joined(std::move(shards));
  }
  static void write(const Dataset& dataset, const std::string& path, const Attributes&) {
    require_own_names(dataset.fields());
    FileWriter file(path);
    const auto put = [&](const std::string& name, std::string_view head, const void* data, size_t bytes) {
      file.write(tar_header(name, head.size() + bytes));
      file.write(head);
      file.write(data, bytes);
      file.write(std::string(tar_padding(head.size() + bytes), '\0'));
    };
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      for (size_t f = 0; f < sample.size(); ++f) {
        const Field& field = dataset.fields()[f];
        const Tensor& tensor = sample[f];
        const std::string key = fmt::format("{:09}.", i);
        if (field.name == "label" && field.dtype == DType::i64 && tensor.elements() == 1) {
          put(key + "cls", fmt::format("{}", integer_value(tensor)), nullptr, 0);
          continue;
        }
        const std::string ending = ending_of(field, tensor);
        put(key + ending, is_array(ending) ? npy_header_text(field.dtype, tensor.shape()) : "", tensor.data(),
            tensor.bytes());
      }
    }
    file.write(std::string(1024, '\0'));
    file.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "tar", Tars);

}  // namespace d5
