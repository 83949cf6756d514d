// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/byte_source.hpp"

#include <algorithm>
#include <cstring>

#include "d5/datasets/parts.hpp"

namespace d5 {
namespace {

class Plain : public ByteSource {
 public:
  explicit Plain(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}
  size_t read(void* to, size_t bytes) override {
    const uint64_t piece = std::min<uint64_t>(bytes, file_->size() - at_);
    file_->copy(at_, piece, to);
    at_ += piece;
    return piece;
  }

 private:
  std::shared_ptr<const FileBytes> file_;
  uint64_t at_ = 0;
};

bool begins_with(const FileBytes& file, std::string_view magic) {
  if (file.size() < magic.size()) return false;
  const std::vector<uint8_t> first = file.range(0, magic.size());
  return std::equal(magic.begin(), magic.end(), first.begin(), [](char a, uint8_t b) { return uint8_t(a) == b; });
}

}  // namespace

std::string compression_of(const FileBytes& file) {
  for (const std::string& name : registry_names(compressions::kind))
    if (begins_with(file, registered<compressions>(name).magic)) return name;
  if (begins_with(file,
                  "\xfd"
                  "7zXZ"))
    throw Error("[data] {} is packed by xz, which is off here: {}. Unpack it first (unxz, tar xf)", file.name(),
                part_status("xz").reason);
  return {};
}

std::unique_ptr<ByteSource> open_source(std::shared_ptr<const FileBytes> file) {
  const std::string compression = compression_of(*file);
  if (compression.empty()) return std::make_unique<Plain>(std::move(file));
  return registered<compressions>(compression).open(std::move(file));
}

uint64_t most_contents(const FileBytes& file) {
  const std::string compression = compression_of(file);
  if (compression.empty()) return file.size();
  return static_cast<uint64_t>(registered<compressions>(compression).most_growth * static_cast<double>(file.size()));
}

std::shared_ptr<const FileBytes> whole_contents(const std::string& path, uint64_t most) {
  std::shared_ptr<const FileBytes> file = FileBytes::map(path);
  if (compression_of(*file).empty()) return file;
  const auto source = open_source(file);
  std::vector<uint8_t> contents;
  for (size_t piece = 1 << 20;; piece = std::min<size_t>(contents.size(), 1 << 26)) {
    const size_t before = contents.size();
    contents.resize(before + piece);
    const size_t found = source->read(contents.data() + before, piece);
    contents.resize(before + found);
    if (contents.size() > most) throw Error("[data] {}: more than {} bytes unpacked", path, most);
    if (found < piece) return FileBytes::of(path, std::move(contents));
  }
}

}  // namespace d5
