// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/record_index.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

// Numbers are little-endian, of eight bytes. Header: magic, size and time of the archive, samples, fields, whether
// there are labels and names, bytes of all names, the largest label; then field names (length, text, padding), ranges,
// labels, where names start, names.
constexpr std::string_view magic = "d5index4";
constexpr uint64_t header_numbers = 10, most_fields = 64;

struct Stamp {
  uint64_t size, seconds, nanoseconds;
};
Stamp stamp_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error("[index] {} is not there", path);
  return {static_cast<uint64_t>(status.st_size), static_cast<uint64_t>(status.st_mtim.tv_sec),
          static_cast<uint64_t>(status.st_mtim.tv_nsec)};
}

std::vector<uint8_t> laid_out(const RecordIndex::Contents& contents, const Stamp& stamp) {
  std::vector<uint8_t> out(magic.begin(), magic.end());
  uint64_t name_bytes = 0;
  for (const std::string& name : contents.names) name_bytes += name.size();
  const int64_t largest = contents.labels.empty() ? -1 : *std::ranges::max_element(contents.labels);
  out.reserve(4096 + contents.ranges.size() * 16 + contents.labels.size() * 8 + contents.names.size() * 8 + name_bytes);
  for (const uint64_t n : {stamp.size, stamp.seconds, stamp.nanoseconds, static_cast<uint64_t>(contents.samples),
                           static_cast<uint64_t>(contents.fields.size()), uint64_t{!contents.labels.empty()},
                           uint64_t{!contents.names.empty()}, name_bytes, static_cast<uint64_t>(largest)})
    append_little(out, n);
  for (const std::string& field : contents.fields) {
    append_little(out, static_cast<uint64_t>(field.size()));
    out.insert(out.end(), field.begin(), field.end());
    out.resize((out.size() + 7) / 8 * 8);
  }
  for (const RecordIndex::Range& range : contents.ranges) {
    append_little(out, range.offset);
    append_little(out, range.size);
  }
  for (const int64_t label : contents.labels) append_little(out, label);
  uint64_t start = 0;
  for (const std::string& name : contents.names) {
    append_little(out, start);
    start += name.size();
  }
  for (const std::string& name : contents.names) out.insert(out.end(), name.begin(), name.end());
  return out;
}

bool is_of(const FileBytes& bytes, const Stamp& stamp) {
  if (bytes.size() < 8 * header_numbers || !std::equal(magic.begin(), magic.end(), bytes.data())) return false;
  return load_little<uint64_t>(bytes.data() + 8) == stamp.size &&
         load_little<uint64_t>(bytes.data() + 16) == stamp.seconds &&
         load_little<uint64_t>(bytes.data() + 24) == stamp.nanoseconds;
}

}  // namespace

std::vector<std::string> files_of(const FileBytes& archive, const RecordIndex& index) {
  std::vector<std::string> files = archive.files();
  for (std::string& file : index.files()) files.push_back(std::move(file));
  return files;
}

std::shared_ptr<const RecordIndex> RecordIndex::of(const std::string& archive, bool keep,
                                                   const std::function<Contents()>& pass) {
  const Stamp stamp = stamp_of(archive);
  std::vector<std::string> places;
  if (keep) {
    places.push_back(archive + ".d5index");
    const std::string name = std::filesystem::path(archive).filename().string();
    if (const std::string cache = data_cache_folder(); !cache.empty())
      places.push_back(fmt::format("{}/{}-{}.d5index", cache, name, file_identity(archive)));
  }
  for (const std::string& place : places) {
    if (!std::filesystem::exists(place)) continue;
    try {
      const auto bytes = FileBytes::map(place);
      if (is_of(*bytes, stamp)) return std::shared_ptr<RecordIndex>(new RecordIndex(bytes));
    } catch (const Error&) {  // a broken index is made again
    }
  }
  const Contents contents = pass();
  std::vector<uint8_t> bytes = laid_out(contents, stamp);
  for (const std::string& place : places) {
    try {
      FileWriter file(place);
      file.write(bytes.data(), bytes.size());
      file.commit();
      return std::shared_ptr<RecordIndex>(new RecordIndex(FileBytes::map(place)));
    } catch (const Error&) {  // a folder that is not ours; the next place, or none
    }
  }
  return std::shared_ptr<RecordIndex>(new RecordIndex(FileBytes::of(archive + " (index)", std::move(bytes))));
}

RecordIndex::RecordIndex(std::shared_ptr<const FileBytes> bytes) : bytes_(std::move(bytes)) {
  samples_ = number(32);
  const uint64_t fields = number(40), labels = number(48), names = number(56);
  names_bytes_ = number(64);
  largest_label_ = static_cast<int64_t>(number(72));
  const uint64_t most = bytes_->size();
  if (fields > most_fields || samples_ > most || names_bytes_ > most) throw Error("[index] {}: broken", bytes_->name());
  uint64_t at = 8 * header_numbers;
  for (uint64_t f = 0; f < fields; ++f) {
    const uint64_t length = number(at);
    if (!bytes_->holds(at + 8, length)) throw Error("[index] {}: broken", bytes_->name());
    fields_.emplace_back(reinterpret_cast<const char*>(bytes_->data() + at + 8), length);
    at += 8 + (length + 7) / 8 * 8;
  }
  ranges_ = at;
  at += samples_ * fields * 16;
  if (labels) {
    labels_ = at;
    at += samples_ * 8;
  }
  if (names) {
    starts_ = at;
    at += samples_ * 8;
    names_ = at;
    at += names_bytes_;
  }
  if (at != bytes_->size()) throw Error("[index] {}: broken", bytes_->name());
}

uint64_t RecordIndex::number(uint64_t at) const {
  if (!bytes_->holds(at, 8)) throw Error("[index] {}: broken", bytes_->name());
  const auto found = load_little<uint64_t>(bytes_->data() + at);
  bytes_->require_there(at, 8);
  return found;
}

RecordIndex::Range RecordIndex::range(Index i, size_t field) const {
  const uint64_t at = ranges_ + (static_cast<uint64_t>(i) * fields_.size() + field) * 16;
  return {number(at), number(at + 8)};
}

int64_t RecordIndex::label(Index i) const {
  return static_cast<int64_t>(number(labels_ + static_cast<uint64_t>(i) * 8));
}

std::string RecordIndex::name(Index i) const {
  if (!starts_) return fmt::format("record {}", i);
  const uint64_t start = number(starts_ + static_cast<uint64_t>(i) * 8);
  const bool last = static_cast<uint64_t>(i) + 1 == samples_;
  const uint64_t end = last ? names_bytes_ : number(starts_ + static_cast<uint64_t>(i) * 8 + 8);
  if (start > end || end > names_bytes_) throw Error("[index] {}: broken", bytes_->name());
  const std::vector<uint8_t> name = bytes_->range(names_ + start, end - start);
  return {name.begin(), name.end()};
}

}  // namespace d5
