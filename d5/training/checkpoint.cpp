// SPDX-License-Identifier: Apache-2.0
#include "d5/training/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"
#include "d5/datasets/crc32c.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view magic = "d5check1";
constexpr size_t most_header = size_t{1} << 28;

size_t rounded_up(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

// Bytes that reach the disk before commit() gives them their name.
class DurableFile {
 public:
  explicit DurableFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".part") {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail();
  }
  ~DurableFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(temporary_.c_str());
  }
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    written_ += bytes;
    while (bytes > 0) {
      const ssize_t n = ::write(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail();
      at += n;
      bytes -= static_cast<size_t>(n);
    }
  }
  void pad_to(size_t offset) {
    static constexpr char zeros[alignment_bytes] = {};
    write(zeros, offset - written_);
  }
  void commit() {
    if (fsync(descriptor_) != 0) fail();
    const int descriptor = std::exchange(descriptor_, -1);
    if (close(descriptor) != 0) fail();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
    // The new name itself must reach the disk, too.
    const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
    const int folder = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
      fsync(folder);
      close(folder);
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw Error("[checkpoint] {} cannot be written: {}", temporary_, std::strerror(errno));
  }
  std::string path_, temporary_;
  int descriptor_ = -1;
  size_t written_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), in_(file, std::ios::binary) {
    if (!in_) throw Error("[checkpoint] {} cannot be read: {}", file, std::strerror(errno));
    in_.seekg(0, std::ios::end);
    size_ = static_cast<uint64_t>(in_.tellg());
  }
  void read(void* to, uint64_t offset, uint64_t bytes, const std::string& what) {
    if (offset > size_ || bytes > size_ - offset)
      throw Error("[checkpoint] {} is cut short: {} ends at byte {}, the file at {}", file_, what, offset + bytes,
                  size_);
    in_.seekg(static_cast<std::streamoff>(offset));
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (!in_) throw Error("[checkpoint] {} cannot be read", file_);
  }

 private:
  const std::string& file_;
  std::ifstream in_;
  uint64_t size_ = 0;
};

void check_sum(const std::string& file, const std::string& what, uint32_t is, uint32_t should) {
  if (is != should)
    throw Error("[checkpoint] {} is damaged: {} has CRC-32C {:08x} instead of {:08x}", file, what, is, should);
}

// The plain index of what lies at each place of a native layout; -1: padding. A layout converts its own type alone, and
// a master is f32 whatever that is; so the digits of the indices are sent through it, from 1 to 255, which are exact in
// every float type of 16 bits, while padding stays 0.
std::vector<Index> plain_indices(const ParameterSet::Parameter& parameter, Index places) {
  constexpr Index base = 255;
  const Tensor digits(parameter.spec.dtype, parameter.spec.shape), native(parameter.spec.dtype, {places});
  std::vector<Index> indices(static_cast<size_t>(places), 0);
  for (Index unit = 1; unit == 1 || unit <= digits.elements() - 1; unit *= base) {
    for (Index i = 0; i < digits.elements(); ++i)
      store_from_double(digits.dtype(), digits.data(), i, static_cast<double>(i / unit % base + 1));
    native.fill_bytes(0);
    parameter.native->from_plain(digits, native.data());
    for (Index place = 0; place < places; ++place) {
      const auto digit = static_cast<Index>(load_as_double(native.dtype(), native.data(), place));
      Index& index = indices[static_cast<size_t>(place)];
      index = digit == 0 ? -1 : index + (digit - 1) * unit;
    }
  }
  return indices;
}

}  // namespace

void write_checkpoint(const std::string& file, const std::string& about, const NamedTensors& tensors) {
  std::vector<Tensor> hosts;
  Json header = {{"format", "d5-checkpoint/1"}, {"about", Json::parse(about)}, {"sections", Json::array()}};
  for (const auto& [name, tensor] : tensors) {
    hosts.push_back(tensor.to(host_memory()));
    header["sections"].push_back({{"name", name},
                                  {"dtype", d5::name(tensor.dtype())},
                                  {"shape", tensor.shape().sizes()},
                                  {"offset", 0},
                                  {"bytes", tensor.bytes()},
                                  {"crc32c", crc32c(hosts.back().data(), tensor.bytes())}});
  }
  // Offsets are part of the header whose length they depend on: room for the longest number is left in front.
  size_t offset = rounded_up(magic.size() + 8 + header.dump().size() + 20 * tensors.size() + 4);
  for (size_t i = 0; i < tensors.size(); ++i) {
    header["sections"][i]["offset"] = offset;
    offset = rounded_up(offset + hosts[i].bytes());
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  const uint32_t sum = crc32c(text.data(), text.size());
  DurableFile out(file);
  out.write(magic.data(), magic.size());
  out.write(&length, sizeof length);
  out.write(text.data(), text.size());
  out.write(&sum, sizeof sum);
  size_t at = magic.size() + sizeof length + text.size() + sizeof sum;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto begin = header["sections"][i]["offset"].get<size_t>();
    for (; at < begin; at = std::min(begin, at + alignment_bytes)) out.pad_to(std::min(begin, at + alignment_bytes));
    out.write(hosts[i].data(), hosts[i].bytes());
    at = begin + hosts[i].bytes();
  }
  out.commit();
}

namespace {

Json read_header(const std::string& file, Reader& in) {
  char opening[8];
  uint64_t length = 0;
  in.read(opening, 0, sizeof opening, "the beginning");
  if (std::string_view(opening, sizeof opening) != magic) throw Error("[checkpoint] {} is no checkpoint of d5", file);
  in.read(&length, 8, sizeof length, "the header's length");
  if (length > most_header) throw Error("[checkpoint] {} is damaged: a header of {} bytes", file, length);
  std::string text(length, '\0');
  uint32_t sum = 0;
  in.read(text.data(), 16, length, "the header");
  in.read(&sum, 16 + length, sizeof sum, "the header's sum");
  check_sum(file, "the header", crc32c(text.data(), text.size()), sum);
  const Json header = Json::parse(text);
  if (header.at("format") != "d5-checkpoint/1")
    throw Error("[checkpoint] {} has format {}; this program reads d5-checkpoint/1", file, header["format"].dump());
  return header;
}

}  // namespace

std::string read_checkpoint_about(const std::string& file) try {
  Reader in(file);
  return read_header(file, in).at("about").dump();
} catch (const Json::exception& error) {
  throw Error("[checkpoint] {} is damaged: {}", file, error.what());
}

Checkpoint read_checkpoint(const std::string& file) {
  Reader in(file);
  Checkpoint result;
  try {
    const Json header = read_header(file, in);
    result.about = header.at("about").dump();
    for (const Json& section : header.at("sections")) {
      const std::string name = section.at("name");
      const Tensor tensor(parse_dtype(section.at("dtype").get<std::string>()),
                          Shape(section.at("shape").get<std::vector<Index>>()));
      if (tensor.bytes() != section.at("bytes").get<size_t>())
        throw Error("[checkpoint] {} is damaged: {} has {} bytes for {}", file, name, section["bytes"].dump(),
                    to_string(TensorSpec{tensor.dtype(), tensor.shape()}));
      in.read(tensor.data(), section.at("offset").get<uint64_t>(), tensor.bytes(), name);
      check_sum(file, name, crc32c(tensor.data(), tensor.bytes()), section.at("crc32c").get<uint32_t>());
      result.tensors.emplace_back(name, tensor);
    }
  } catch (const Json::exception& error) {
    throw Error("[checkpoint] {} is damaged: {}", file, error.what());
  }
  return result;
}

const Tensor& Checkpoint::at(const std::string& name) const {
  for (const auto& [known, tensor] : tensors)
    if (known == name) return tensor;
  throw Error("[checkpoint] there is no '{}' in it: it is of another network or optimizer", name);
}

namespace {

void check_convertible(const ParameterSet::Parameter& parameter) {
  if (parameter.layout.empty() || parameter.native) return;
  throw Error("[parameters] '{}' lies in layout '{}' of {}, which only its owner can convert; use --layout plain",
              parameter.name, parameter.layout, name(parameter.spec.dtype));
}

}  // namespace

Tensor canonical_part(const ParameterSet& set, const Tensor& arena, const ParameterSet::Parameter& parameter) {
  const ParameterSet::Range range = set.range(parameter.name);
  const Tensor native = arena.slice(range.first, range.count).to(host_memory());
  const Tensor canonical(DType::f32, parameter.spec.shape);
  check_convertible(parameter);
  if (parameter.native && parameter.spec.dtype == DType::f32) {
    parameter.native->to_plain(native.data(), canonical);
  } else if (parameter.native) {
    const std::vector<Index> indices = plain_indices(parameter, range.count);
    const auto from = native.values<float>(), to = canonical.values<float>();
    for (size_t place = 0; place < indices.size(); ++place)
      if (indices[place] >= 0) to[static_cast<size_t>(indices[place])] = from[place];
  } else {
    std::memcpy(canonical.data(), native.data(), canonical.bytes());
  }
  return canonical;
}

void set_canonical_part(ParameterSet& set, const Tensor& arena, const ParameterSet::Parameter& parameter,
                        const Tensor& canonical) {
  if (canonical.dtype() != DType::f32 || !(canonical.shape() == parameter.spec.shape))
    throw Error("[checkpoint] '{}' is {} there and {} here: it is of another network", parameter.name,
                to_string(TensorSpec{canonical.dtype(), canonical.shape()}), to_string(parameter.spec));
  const ParameterSet::Range range = set.range(parameter.name);
  Tensor native(DType::f32, {range.count});
  native.fill_bytes(0);
  check_convertible(parameter);
  if (parameter.native && parameter.spec.dtype == DType::f32) {
    parameter.native->from_plain(canonical, native.data());
  } else if (parameter.native) {
    const std::vector<Index> indices = plain_indices(parameter, range.count);
    const auto from = canonical.values<float>(), to = native.values<float>();
    for (size_t place = 0; place < indices.size(); ++place)
      if (indices[place] >= 0) to[place] = from[static_cast<size_t>(indices[place])];
  } else {
    std::memcpy(native.data(), canonical.data(), canonical.bytes());
  }
  arena.slice(range.first, range.count).copy_from(native);
}

NamedTensors canonical_parameters(const ParameterSet& set) {
  NamedTensors values;
  const Tensor masters = set.masters(set.all());
  for (const ParameterSet::Parameter& parameter : set.parameters())
    values.emplace_back(parameter.name, canonical_part(set, masters, parameter));
  return values;
}

void set_parameter(ParameterSet& set, const std::string& name, const Tensor& canonical) {
  set_canonical_part(set, set.masters(set.all()), set.at(name), canonical);
  const Tensor master = set.master(name), compute = set.compute(name);
  if (compute.data() != master.data()) compute.copy_from(master.to(host_memory()).cast(compute.dtype()));
  set.touch();
}

uint64_t weights_hash(const ParameterSet& set) {
  NamedTensors values = canonical_parameters(set);
  std::ranges::sort(values, {}, [](const auto& value) { return value.first; });
  std::string digests;
  for (const auto& [name, value] : values)
    digests += fmt::format("{} {:016x}\n", name, stream_of({static_cast<const char*>(value.data()), value.bytes()}));
  return stream_of(digests);
}

}  // namespace d5
