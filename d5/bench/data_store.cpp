// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "d5/datasets/checksum.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/views.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

constexpr int jpeg_quality = 90;

// What the container knows again by its name.
std::string file_name(const std::string& kind) {
  if (kind == "folder") return "samples";
  if (kind == "idx") return "samples-images-idx3-ubyte";
  return "samples" + container(kind).endings.front();
}

void force_to_storage(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool good = file >= 0 && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!good) throw Error("[store] {}: cannot be forced to storage", path);
}

// Removes what was begun and not finished.
struct Begun {
  std::string path;
  ~Begun() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

StoredData store_samples(const Dataset& set, const std::string& kind, const std::string& folder, const Json& identity) {
  const std::string root = folder.empty() ? data_cache_folder() : folder;
  if (root.empty()) throw UsageError("[store] there is no cache here: name a folder (--path)");
  const std::string home = fmt::format("{}/d5-stored-{}-{}", root, kind, sha256(identity.dump()).substr(0, 16));
  const std::string note = home + "/made.json";
  if (!fs::exists(note)) {
    const Begun part{fmt::format("{}.part-{}", home, ::getpid())};
    fs::create_directories(part.path);
    const double began = now_seconds();
    write_container(kind, set, part.path + "/" + file_name(kind));
    const std::vector<std::string> files = files_of(part.path);
    for (const std::string& file : files) force_to_storage(file);
    const double seconds = now_seconds() - began;
    std::ofstream(part.path + "/made.json")
        << Json{{"samples_of", identity}, {"bytes", bytes_of(files)}, {"seconds", seconds}}.dump() << "\n";
    std::error_code error;
    fs::rename(part.path, home, error);  // somebody else may have been faster
    if (error && !fs::exists(note)) throw Error("[store] {}: {}", home, error.message());
  }
  try {
    const Json made = Json::parse(std::ifstream(note));
    return {home + "/" + file_name(kind), made.at("bytes").get<double>(), made.at("seconds").get<double>()};
  } catch (const Json::exception&) {
    throw Error("[store] {} is broken; remove {}", note, home);
  }
}

std::shared_ptr<const Dataset> encoded(std::shared_ptr<const Dataset> set, const std::string& decoder) {
  std::vector<Field> fields = set->fields();
  const auto image = std::ranges::find(fields, "image", &Field::name);
  if (image == fields.end() || image->dtype != DType::u8 || !image->shape || image->shape->rank() != 3)
    throw UsageError("[store] decoder {}: the set has no field 'image' u8[CxHxW]", decoder);
  image->shape.reset();
  const auto f = static_cast<size_t>(image - fields.begin());
  const DecoderEntry& entry = registered<decoders>(decoder);
  return mapped(std::move(set), std::move(fields), [f, &entry](Index, const Sample& in, Sample& out) {
    for (size_t k = 0; k < in.size(); ++k) {
      if (k != f) {
        give_copy(out, k, in[k].dtype(), in[k].shape(), in[k].data());
        continue;
      }
      const std::vector<uint8_t> packed = entry.encode(in[k], jpeg_quality);
      give_copy(out, k, DType::u8, Shape{static_cast<Index>(packed.size())}, packed.data());
    }
  });
}

}  // namespace d5
