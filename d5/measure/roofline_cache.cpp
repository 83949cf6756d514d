// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/roofline_cache.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "d5/core/rng.hpp"
#include "d5/measure/environment_parts.hpp"
#include "d5/measure/isa.hpp"
#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

constexpr const char* schema = "d5-roofline/1";
constexpr double budget_seconds = 2;

}  // namespace

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::filesystem::path(cache) / "d5";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "d5";
  return {};
}

std::string roofline_key(int threads) {
  return fmt::format("{}, {} threads, {}", cpu_model(), threads, usable_isa().best());
}

std::filesystem::path roofline_file(const std::string& key) {
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / fmt::format("roofline-{:016x}.json", stream_of(key));
}

std::optional<Roofline> load_roofline(const std::filesystem::path& path, const std::string& key) {
  const auto json = nlohmann::json::parse(read_whole(path), nullptr, false);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != schema ||
      json.value("key", nlohmann::json()) != key || !json.contains("roofline"))
    return {};
  std::error_code unknown;
  const auto age = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(path, unknown);
  if (json.value("cores_shared", nlohmann::json()) == true && age > std::chrono::minutes(10)) return {};
  try {
    return roofline_from_json(json["roofline"]);
  } catch (const Error&) {
    return {};  // a broken file is as good as none
  }
}

bool store_roofline(const std::filesystem::path& path, const std::string& key, const Roofline& roofline,
                    bool cores_shared) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  const std::filesystem::path beside = path.string() + fmt::format(".{}", getpid());
  {
    std::ofstream out(beside);
    out << nlohmann::json{{"schema", schema},
                          {"key", key},
                          {"cores_shared", cores_shared},
                          {"roofline", to_json(roofline)}}
               .dump(1)
        << '\n';
    out.close();
    if (!out) {
      std::filesystem::remove(beside, failed);
      return false;
    }
  }
  std::filesystem::rename(beside, path, failed);
  if (!failed) return true;
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  return false;
}

Roofline cached_roofline(int threads) {
  const std::string key = roofline_key(threads);
  const auto path = roofline_file(key);
  if (!path.empty())
    if (auto known = load_roofline(path, key)) return *known;
  const Roofline measured = measure_roofline(threads, budget_seconds);
  if (!path.empty()) store_roofline(path, key, measured, threads > 1 && probe_core_sharing().cores_shared);
  return measured;
}

}  // namespace d5
