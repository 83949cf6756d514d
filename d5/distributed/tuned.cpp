// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/tuned.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/roofline_cache.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Fastest = std::map<int64_t, std::string>;  // by bytes

constexpr const char* schema = "d5-algorithms/1";

std::string key_of(Communicator& c, Collective collective, DType dtype, const std::string& library) {
  std::array<char, 64> own{};
  gethostname(own.data(), own.size() - 1);
  std::vector<char> hosts(own.size() * static_cast<size_t>(c.size()));
  c.run({.collective = Collective::allgather,
         .input = own.data(),
         .output = hosts.data(),
         .count = static_cast<int64_t>(own.size()),
         .dtype = DType::u8});
  std::vector<std::string> names;
  for (size_t at = 0; at < hosts.size(); at += own.size()) names.emplace_back(&hosts[at]);
  const char* const rate = std::getenv("D5_CLUSTER_RATE");  // links of the same names may have another
  return fmt::format("{}, {} {}, {} cores, machines {} ({}){}, {}", library, name(collective), name(dtype),
                     usable_cores(), fmt::join(c.nodes(), ","), fmt::join(names, ","),
                     rate ? fmt::format(" at {}", rate) : "", fmt::join(registry_names(algorithms::kind), ","));
}

// A broken file is as good as none.
Fastest load(const fs::path& file, const std::string& key) {
  Fastest fastest;
  std::ifstream in(file);
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("schema", Json()) != schema || json.value("key", Json()) != key) return fastest;
  for (const Json& row : json.value("fastest", Json::array()))
    if (row.is_object() && row.value("bytes", Json()).is_number_integer() && row.value("algorithm", Json()).is_string())
      fastest[row["bytes"]] = row["algorithm"];
  return fastest;
}

bool store(const fs::path& file, const std::string& key, const Fastest& fastest) {
  Json json{{"schema", schema}, {"key", key}, {"fastest", Json::array()}};
  for (const auto& [bytes, algorithm] : fastest)
    json["fastest"].push_back({{"bytes", bytes}, {"algorithm", algorithm}});
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const fs::path beside = file.string() + fmt::format(".{}", getpid());
  std::ofstream out(beside);
  out << json.dump(1) << '\n';
  out.close();
  if (out) fs::rename(beside, file, failed);
  if (out && !failed) return true;
  std::error_code ignored;
  fs::remove(beside, ignored);
  return false;
}

// What rank 0 knows of these sizes, on all ranks: names in the order of sizes, empty where it knows none.
std::vector<std::string> known_to_all(Communicator& c, const std::vector<int64_t>& sizes, const Fastest& known) {
  std::string text;
  for (const int64_t bytes : sizes) text += (known.contains(bytes) ? known.at(bytes) : "") + "\n";
  auto length = static_cast<int64_t>(text.size());
  c.run({.collective = Collective::broadcast, .input = &length, .output = &length, .count = 1, .dtype = DType::i64});
  text.resize(static_cast<size_t>(length));
  c.run({.collective = Collective::broadcast,
         .input = text.data(),
         .output = text.data(),
         .count = length,
         .dtype = DType::u8});
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    names.push_back(text.substr(begin, text.find('\n', begin) - begin));
  return names;
}

}  // namespace

std::vector<int64_t> sizes_to_tune(int64_t most_bytes) {
  std::vector<int64_t> sizes{1 << 10};
  while (sizes.back() < most_bytes && sizes.back() < 16 << 20) sizes.push_back(4 * sizes.back());
  return sizes;
}

Tuned choose_tuned(Communicator& c, Collective collective, DType dtype, const std::vector<int64_t>& sizes,
                   const std::string& library, Timing timing) {
  const std::string key = key_of(c, collective, dtype, library);
  const fs::path folder = cache_folder();
  const fs::path file = folder.empty() ? folder : folder / fmt::format("algorithms-{:016x}.json", stream_of(key));
  const bool keeps = c.rank() == 0 && !file.empty();
  Fastest fastest = keeps ? load(file, key) : Fastest();
  std::vector<std::string> known(sizes.size());
  if (timing == Timing::missing) known = known_to_all(c, sizes, fastest);
  Tuned tuned;
  const double begin = now_seconds();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (known[i].empty() || !find_registered<algorithms>(known[i])) {
      known[i] = c.fastest(collective, dtype, sizes[i]);
      ++tuned.timed;
    }
    fastest[sizes[i]] = known[i];
    if (tuned.choice.empty() || tuned.choice.back().algorithm != known[i])
      tuned.choice.push_back({i == 0 ? 0 : sizes[i], known[i]});
  }
  c.choose(collective, tuned.choice);
  tuned.seconds = now_seconds() - begin;
  if (keeps && (tuned.timed == 0 || store(file, key, fastest))) tuned.file = file.string();
  return tuned;
}

}  // namespace d5
