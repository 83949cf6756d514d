// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/unpack.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

using Block = std::array<uint8_t, 512>;
constexpr uint64_t most_name = 1 << 16, no_size = ~uint64_t{0};

// Octal digits, or (GNU, for what is large) a set top bit and a big-endian number. None: garbage.
std::optional<uint64_t> number(const uint8_t* field, size_t width) {
  uint64_t value = 0;
  if (field[0] & 0x80) {
    value = field[0] & 0x7f;
    for (size_t i = 1; i < width; ++i) {
      if (value >> 55) return {};
      value = value << 8 | field[i];
    }
    return value;
  }
  size_t i = 0;
  while (i < width && field[i] == ' ') ++i;
  for (; i < width && field[i] != 0 && field[i] != ' '; ++i) {
    if (field[i] < '0' || field[i] > '7' || value >> 60) return {};
    value = value * 8 + (field[i] - '0');
  }
  return value;
}

std::string text(const uint8_t* field, size_t width) {
  return {reinterpret_cast<const char*>(field), strnlen(reinterpret_cast<const char*>(field), width)};
}

uint64_t checksum(const Block& block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) sum += i >= 148 && i < 156 ? ' ' : block[i];
  return sum;
}

// pax records: "LENGTH KEY=VALUE\n", one after the other.
void read_pax(const std::string& records, std::string& name, std::string& link, uint64_t& size) {
  for (size_t at = 0; at < records.size();) {
    size_t length = 0;
    const char* const end = records.data() + records.size();
    const auto digits = std::from_chars(records.data() + at, end, length);
    const auto head = static_cast<size_t>(digits.ptr - records.data()) - at;
    if (digits.ec != std::errc() || length <= head + 1 || length > records.size() - at) return;
    const std::string record = records.substr(at + head + 1, length - head - 2);
    if (record.starts_with("path=")) name = record.substr(5);
    if (record.starts_with("linkpath=")) link = record.substr(9);
    if (record.starts_with("size=")) {
      uint64_t value = 0;
      if (std::from_chars(record.data() + 5, record.data() + record.size(), value).ec == std::errc()) size = value;
    }
    at += length;
  }
}

std::string without_here(std::string name) {  // ./a/b -> a/b
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

bool leaves_folder(const std::string& name) {
  if (name.starts_with('/')) return true;
  const std::filesystem::path path(name);
  return std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
}

// Empty: headers of headers, and devices.
std::optional<TarMember::Kind> kind_of(char type) {
  if (type == '0' || type == '\0' || type == '7') return TarMember::file;
  if (type == '1') return TarMember::hard_link;
  if (type == '2') return TarMember::symbolic_link;
  if (type == '5') return TarMember::folder;
  return {};
}

}  // namespace

bool TarWalk::next(TarMember& member) {
  std::string long_name, long_link;
  uint64_t long_size = no_size;
  for (;;) {
    Block block;
    if (!read_(at_, block.data(), block.size())) {
      // Archives should end with two blocks of zeros; some writers leave them out.
      uint8_t byte = 0;
      if (at_ > 0 && !read_(at_, &byte, 1) && long_name.empty()) return false;
      throw Error("[tar] {}: cut short at byte {}", archive_, at_);
    }
    if (std::ranges::all_of(block, [](uint8_t byte) { return byte == 0; })) return false;
    const auto sum = number(&block[148], 8), size = number(&block[124], 12);
    if (!sum || *sum != checksum(block))
      throw Error("[tar] {}: no header at byte {} (its checksum is wrong)", archive_, at_);
    if (!size || *size > (uint64_t{1} << 62))
      throw Error("[tar] {}: the header at byte {} has no legal size", archive_, at_);
    const uint64_t header = at_, contents = at_ + 512;
    const char type = static_cast<char>(block[156]);
    const auto kind = kind_of(type);
    const bool is_link = kind == TarMember::hard_link || kind == TarMember::symbolic_link;
    const bool of_header = type == 'L' || type == 'x' || type == 'g' || type == 'K';
    // Behind a link lies nothing, whatever its header says: some writers give the size of what it leads to.
    const uint64_t bytes = is_link ? 0 : of_header || long_size == no_size ? *size : long_size;
    if (bytes > (uint64_t{1} << 62)) throw Error("[tar] {}: the header at byte {} has no legal size", archive_, at_);
    at_ = contents + bytes + tar_padding(bytes);
    if (type == 'L' || type == 'K' || type == 'x') {
      if (bytes > most_name) throw Error("[tar] {}: a name of {} bytes at {}", archive_, bytes, header);
      std::string words(bytes, '\0');
      if (!read_(contents, words.data(), bytes)) throw Error("[tar] {}: cut short at byte {}", archive_, contents);
      if (type == 'x')
        read_pax(words, long_name, long_link, long_size);
      else
        (type == 'L' ? long_name : long_link) = words.substr(0, words.find('\0'));
      continue;
    }
    if (kind) {
      std::string name = text(block.data(), 100);
      const std::string prefix = std::memcmp(&block[257], "ustar\0", 6) == 0 ? text(&block[345], 155) : "";
      if (!prefix.empty()) name = prefix + "/" + name;
      member.kind = *kind;
      member.name = without_here(long_name.empty() ? name : long_name);
      member.link = !is_link ? "" : long_link.empty() ? text(&block[157], 100) : long_link;
      member.header = header;
      member.offset = contents;
      member.size = bytes;
      member.leaves_folder = leaves_folder(member.name);
      return true;
    }
    long_name.clear();
    long_link.clear();
    long_size = no_size;
  }
}

std::string tar_header(const std::string& name, uint64_t size) {
  std::string all;
  const auto put = [&](const std::string& shown, uint64_t bytes, char type) {
    std::string block(512, '\0');
    block.replace(0, std::min<size_t>(shown.size(), 100), shown, 0, 100);
    block.replace(100, 8, std::string("0000644\0", 8));
    block.replace(108, 8, std::string("0000000\0", 8));
    block.replace(116, 8, std::string("0000000\0", 8));
    block.replace(124, 11, fmt::format("{:011o}", std::min<uint64_t>(bytes, 077777777777)));
    block.replace(136, 11, "00000000000");
    block.replace(148, 8, "        ");
    block[156] = type;
    block.replace(257, 8,
                  std::string("ustar\0"
                              "00",
                              8));
    uint64_t sum = 0;
    for (const char c : block) sum += static_cast<uint8_t>(c);
    block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    all += block;
  };
  if (name.size() > 100 || size > 077777777777) {
    std::string records;
    const auto record = [&](const std::string& text) {
      size_t length = text.size() + 3;
      while (fmt::format("{} {}\n", length, text).size() != length) ++length;
      records += fmt::format("{} {}\n", length, text);
    };
    record("path=" + name);
    record(fmt::format("size={}", size));
    put("pax", records.size(), 'x');
    all += records + std::string(tar_padding(records.size()), '\0');
  }
  put(name, size, '0');
  return all;
}

std::string unpacked_folder(const std::string& archive, const std::vector<std::string>& wanted, uint64_t most) {
  const std::string cache = data_cache_folder();
  const std::string stem = std::filesystem::path(archive).filename().string();
  if (cache.empty())
    throw Error(
        "[tar] {} must be unpacked once, and there is no cache folder: unpack it yourself (tar xf), or set HOME",
        archive);
  const std::string folder = fmt::format("{}/{}-{}", cache, stem, file_identity(archive));
  if (std::filesystem::exists(folder + "/complete")) return folder;

  const auto source = open_source(FileBytes::map(archive));
  uint64_t position = 0;
  const ReadArchive read = [&](uint64_t offset, void* to, size_t bytes) {
    std::array<uint8_t, 65536> skipped;
    while (position < offset) {
      const size_t piece = std::min<uint64_t>(skipped.size(), offset - position);
      const size_t found = source->read(skipped.data(), piece);
      position += found;
      if (found < piece) return false;
    }
    const size_t found = offset == position ? source->read(to, bytes) : 0;
    position += found;
    return found == bytes;
  };
  TarWalk walk(archive, read);
  for (TarMember member; walk.next(member);) {
    const std::string name = std::filesystem::path(member.name).filename().string();
    if (!std::ranges::count(wanted, name) || member.kind != TarMember::file) continue;
    if (member.leaves_folder || member.size > most)
      throw Error("[tar] {}: member '{}' of {} bytes is refused", archive, member.name, member.size);
    FileWriter file(folder + "/" + name);
    std::vector<uint8_t> piece(1 << 20);
    for (uint64_t done = 0; done < member.size; done += piece.size()) {
      const size_t bytes = std::min<uint64_t>(piece.size(), member.size - done);
      if (!read(member.offset + done, piece.data(), bytes))
        throw Error("[tar] {}: cut short in member '{}'", archive, member.name);
      file.write(piece.data(), bytes);
    }
    file.commit();
  }
  FileWriter(folder + "/complete").commit();
  return folder;
}

}  // namespace d5
