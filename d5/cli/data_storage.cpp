// SPDX-License-Identifier: Apache-2.0
// d5 data storage: what the storage behind a folder gives, hot and cold, reading and writing: the bounds of everything
// that reads samples or writes checkpoints there. One pass each; several folders are shown side by side.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/cli/command.hpp"
#include "d5/core/error.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

using Json = nlohmann::ordered_json;

struct StorageFlags {
  std::vector<std::string> folders;
  int64_t mebibytes = 256, block = 4096;
  int files = 1000, threads = 1;
  std::string stage;
  bool json = false;
};

// A file of our own to read; written by the checkpoint's way, so that it is on the storage when it is read.
class TestFile {
 public:
  TestFile(const std::string& folder, int64_t bytes) : path_(folder + "/d5-storage-read.tmp") {
    std::ofstream file(path_, std::ios::binary);
    std::string block(1 << 20, '\0');
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
      for (size_t i = 0; i < block.size(); i += 64) block[i] = static_cast<char>(at + static_cast<int64_t>(i));
      file << block;
    }
    if (!file.flush()) throw Error("[storage] {}: {} bytes cannot be written", path_, bytes);
  }
  ~TestFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  std::vector<std::string> files() const { return {path_}; }

 private:
  std::string path_;
};

Json measured(const std::string& folder, const StorageFlags& flags) {
  constexpr double limit_s = 5;
  const int64_t bytes = flags.mebibytes << 20;
  Json row{{"path", folder}};
  row["checkpoint_write_bytes_per_s"] = checkpoint_write_rate(folder, bytes);
  {
    const TestFile file(folder, bytes);
    empty_page_cache(file.files());
    const bool cold = cached_share(file.files()) < 0.05;
    row["cold"] = cold ? Json(true) : Json("the kernel keeps the pages: no cold figures");
    if (cold) {
      row["cold_sequential_bytes_per_s"] = sequential_read_rate(file.files(), flags.threads, limit_s);
      empty_page_cache(file.files());
      row["cold_random_bytes_per_s"] = random_read_rate(file.files(), flags.block, flags.threads, 1, 1);
    }
    fill_page_cache(file.files());
    row["hot_sequential_bytes_per_s"] = sequential_read_rate(file.files(), flags.threads, limit_s);
    row["hot_random_bytes_per_s"] = random_read_rate(file.files(), flags.block, flags.threads, 1, 2);
  }
  const SmallFileRates small = small_file_rates(folder, flags.files, flags.block);
  row["files_created_per_s"] = small.created;
  row["files_looked_up_per_s"] = small.looked_up;
  row["files_read_per_s"] = small.read;
  row["files_removed_per_s"] = small.removed;
  if (!flags.stage.empty()) row["staging_bytes_per_s"] = staging_rate(files_of(flags.stage), folder);
  return row;
}

void print(const Json& row) {
  fmt::print("{}\n", row["path"].get<std::string>());
  for (const auto& [name, value] : row.items()) {
    if (!value.is_number()) continue;
    std::string label = name;
    std::ranges::replace(label, '_', ' ');
    const size_t unit = label.find(" bytes per s");
    if (unit != std::string::npos)
      fmt::print("  {:<24} {:>12.1f} MB/s\n", label.substr(0, unit), value.get<double>() * 1e-6);
    else
      fmt::print("  {:<24} {:>12.0f} /s\n", label.substr(0, label.find(" per s")), value.get<double>());
  }
  if (row["cold"].is_string()) fmt::print("  {}\n", row["cold"].get<std::string>());
}

}  // namespace

RunCommand add_data_storage(CLI::App& data) {
  auto flags = std::make_shared<StorageFlags>();
  CLI::App* command = data.add_subcommand("storage", "Read, write, small-file and checkpoint rates of a folder");
  command->add_option("folders", flags->folders, "Folders to measure: a local disk, a shared file system, ...")
      ->required();
  command->add_option("--mebibytes", flags->mebibytes, "Of the file that is written and read")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--block", flags->block, "Bytes of a random read and of a small file")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--files", flags->files, "Small files")->check(CLI::Range(1, 10000000))->capture_default_str();
  command->add_option("--threads", flags->threads, "That read")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--stage", flags->stage, "A file or folder that is copied to each folder");
  command->add_flag("--json", flags->json, "One object a line");
  return [flags] {
    for (const std::string& folder : flags->folders) {
      if (!std::filesystem::is_directory(folder)) throw UsageError("[storage] '{}' is no folder", folder);
      const Json row = measured(folder, *flags);
      flags->json ? void(std::cout << row.dump() << "\n") : print(row);
    }
    return exit_passed;
  };
}

}  // namespace d5
