// SPDX-License-Identifier: Apache-2.0
#include "d5/training/checkpoint_parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "d5/core/convert.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string part_name(const std::string& file, const std::string& id, int rank) {
  return fmt::format("{}.{}.r{}", file, id, rank);
}

uint64_t hash_of(const Tensor& tensor) {
  const Tensor host = tensor.to(host_memory());
  return stream_of({static_cast<const char*>(host.data()), host.bytes()});
}

// Rank 0's numbers, on all ranks: halves of them are exact as doubles, and the others add nothing.
std::vector<uint64_t> from_rank_0(std::vector<uint64_t> numbers, const CheckpointRanks& ranks) {
  std::vector<double> halves(2 * numbers.size(), 0.0);
  for (size_t i = 0; i < numbers.size() && ranks.rank == 0; ++i) {
    halves[2 * i] = static_cast<double>(numbers[i] >> 32);
    halves[2 * i + 1] = static_cast<double>(numbers[i] & 0xffffffffu);
  }
  ranks.sum(halves);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = (static_cast<uint64_t>(halves[2 * i]) << 32) | static_cast<uint64_t>(halves[2 * i + 1]);
  return numbers;
}

// Parts of `file` with this id, or with any other one.
void remove_parts(const std::string& file, const std::string& id, bool others) {
  const fs::path path(file);
  const std::string prefix = path.filename().string() + ".";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const size_t end = name.find(".r", prefix.size());
    if (end == std::string::npos) continue;
    std::error_code ignored;
    if ((name.substr(prefix.size(), end - prefix.size()) == id) != others) fs::remove(entry.path(), ignored);
  }
}

Checkpoint read_part(const std::string& file, const std::string& id, int rank) {
  const std::string name = part_name(file, id, rank);
  if (access(name.c_str(), F_OK) != 0)
    throw Error("[checkpoint] {} is not whole: the part {} of rank {} is missing", file, name, rank);
  Checkpoint part = read_checkpoint(name);
  if (Json::parse(part.about).at("parts") != id)
    throw Error("[checkpoint] {} is a part of another checkpoint than {}", name, file);
  return part;
}

Tensor* find(Checkpoint& saved, const std::string& name) {
  for (auto& [known, tensor] : saved.tensors)
    if (known == name) return &tensor;
  return nullptr;
}

// One section of all ranks that wrote it: how many have their own, and the sum of these.
struct Gathered {
  int own = 0;
  std::vector<double> sum;
};

// Sums of an epoch are of each rank while it goes on, and of all when it has ended.
void join(const std::string& file, Checkpoint& saved, const std::string& id, int wrote, int rank, bool within_epoch) {
  std::map<std::string, Gathered> all;
  for (int r = 1; r < wrote; ++r)
    for (const auto& [name, tensor] : read_part(file, id, r).tensors) {
      if (name == "seconds of steps") continue;  // rank 0's
      if (tensor.dtype() != DType::f32 && tensor.dtype() != DType::f64)
        throw Error("[checkpoint] {}: '{}' differs between ranks and has no mean: only {} ranks can go on from it",
                    file, name, wrote);
      Gathered& gathered = all[name];
      const auto length = static_cast<size_t>(tensor.elements());
      if (gathered.sum.size() < length) gathered.sum.resize(length);
      for (size_t i = 0; i < length; ++i)
        gathered.sum[i] += load_as_double(tensor.dtype(), tensor.data(), static_cast<Index>(i));
      ++gathered.own;
    }
  for (auto& [name, gathered] : all) {
    Tensor* const section = find(saved, name);
    if (!section || static_cast<size_t>(section->elements()) != gathered.sum.size())
      throw Error("[checkpoint] {}: '{}' has another size on other ranks: only {} ranks can go on from it", file, name,
                  wrote);
    const bool sums = name == summed_section && within_epoch;
    for (Index i = 0; i < section->elements(); ++i) {
      const double first = load_as_double(section->dtype(), section->data(), i);
      const double sum = gathered.sum[static_cast<size_t>(i)] + first * (wrote - gathered.own);
      store_from_double(section->dtype(), section->data(), i, sums ? sum : sum / wrote);
    }
  }
  Tensor* const sums = find(saved, summed_section);
  if (!sums || !within_epoch) return;
  if (!all.contains(summed_section))
    for (Index i = 0; i < sums->elements(); ++i)
      store_from_double(sums->dtype(), sums->data(), i, wrote * load_as_double(sums->dtype(), sums->data(), i));
  if (rank > 0) sums->fill_bytes(0);
}

}  // namespace

std::string write_parts(const std::string& file, const std::string& about, const NamedTensors& tensors,
                        const CheckpointRanks& ranks) {
  // A name of its own for every attempt, so that none overwrites a part that FILE needs.
  const auto moment = std::chrono::system_clock::now().time_since_epoch().count();
  std::vector<uint64_t> hashes{stream_of(fmt::format("{} {}", moment, getpid()))};
  for (const auto& [name, tensor] : tensors) hashes.push_back(hash_of(tensor));
  const std::vector<uint64_t> theirs = from_rank_0(hashes, ranks);
  const std::string id = fmt::format("{:016x}", theirs[0]);
  Json text = Json::parse(about);
  text["parts"] = id;

  std::vector<double> failed(static_cast<size_t>(ranks.ranks), 0.0);
  std::string why;
  const auto attempt = [&](const std::string& name, const NamedTensors& sections) {
    try {
      write_checkpoint(name, text.dump(), sections);
    } catch (const Error& error) {
      failed[static_cast<size_t>(ranks.rank)] = 1;
      why = error.what();
    }
  };
  if (ranks.rank > 0) {
    NamedTensors own;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (hashes[i + 1] != theirs[i + 1]) own.push_back(tensors[i]);
    attempt(part_name(file, id, ranks.rank), own);
  }
  ranks.sum(failed);
  if (ranks.rank == 0 && std::ranges::count(failed, 0.0) == ranks.ranks) attempt(file, tensors);
  if (ranks.rank > 0) failed[0] = 0;
  ranks.sum({failed.data(), 1});
  const auto first = std::ranges::find_if(failed, [](double f) { return f != 0; });
  if (ranks.rank == 0) remove_parts(file, id, first == failed.end());
  if (first != failed.end() && why.empty())
    why = fmt::format("[checkpoint] rank {} cannot write its part", first - failed.begin());
  return why;
}

void read_parts(const std::string& file, Checkpoint& saved, int rank, int ranks) {
  const Json about = Json::parse(saved.about);
  const int wrote = about.value("ranks", 1);
  const std::string id = about.value("parts", "");
  const bool within_epoch = about.at("batch") != 0 || about.value("first", 0) != 0;
  if (wrote != ranks) return join(file, saved, id, wrote, rank, within_epoch);
  if (rank == 0) return;
  Checkpoint part = read_part(file, id, rank);
  for (auto& [name, tensor] : part.tensors) {
    if (Tensor* const section = find(saved, name))
      *section = std::move(tensor);
    else
      saved.tensors.emplace_back(name, std::move(tensor));
  }
  saved.about = std::move(part.about);
}

}  // namespace d5
