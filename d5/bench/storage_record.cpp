// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/storage_record.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "d5/bench/timed_record.hpp"
#include "d5/core/plugins.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/storage.hpp"
#include "d5/measure/summary.hpp"

namespace d5 {
namespace {

constexpr double most_sequential_s = 5, most_random_s = 1;

// A file of our own to read, gone with this object.
class LargeFile {
 public:
  LargeFile(const std::string& folder, int64_t bytes) : path_(folder + "/d5-storage-XXXXXX") {
    const int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) throw Error("[storage] {}: no file can be made in it", folder);
    ::close(descriptor);
    std::ofstream file(path_, std::ios::binary);
    std::string block(1 << 20, '\0');
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
      for (size_t i = 0; i < block.size(); i += 64) block[i] = static_cast<char>(at + static_cast<int64_t>(i));
      file << block;
    }
    if (file.flush()) return;
    remove();
    throw Error("[storage] {}: {} bytes cannot be written", path_, bytes);
  }
  ~LargeFile() { remove(); }
  LargeFile(const LargeFile&) = delete;
  LargeFile& operator=(const LargeFile&) = delete;
  std::vector<std::string> files() const { return {path_}; }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path_;
};

// A load can be had here in no way, which is no fault of the folder.
class Unsupported : public Error {
 public:
  using Error::Error;
};

bool is_read(const std::string& load) { return load == "sequential-read" || load == "random-read"; }
bool is_of_small_files(const std::string& load) { return load.starts_with("file-"); }

// What one folder holds during one pass.
struct Pass {
  std::string folder;
  int launch;
  std::unique_ptr<LargeFile> file;
  std::optional<SmallFileRates> small;
};

double read_rate(const StoragePlan& plan, const Json& fields, Pass& pass) {
  if (!pass.file) pass.file = std::make_unique<LargeFile>(pass.folder, plan.mebibytes << 20);
  const std::vector<std::string> files = pass.file->files();
  if (fields["cache"] == "hot") {
    fill_page_cache(files);
  } else {
    empty_page_cache(files);
    if (cached_share(files) > 0.05) throw Unsupported("the kernel keeps the pages of files here: nothing is cold");
  }
  if (fields["load"] == "sequential-read") return sequential_read_rate(files, plan.threads, most_sequential_s);
  return random_read_rate(files, plan.block, plan.threads, most_random_s, static_cast<uint64_t>(pass.launch) + 1);
}

double small_rate(const StoragePlan& plan, const std::string& load, Pass& pass) {
  if (!pass.small) pass.small = small_file_rates(pass.folder, plan.files, plan.block);
  if (load == "file-create") return pass.small->created;
  if (load == "file-look-up") return pass.small->looked_up;
  if (load == "file-read") return pass.small->read;
  return pass.small->removed;
}

// Bytes or files a second.
double rate(const StoragePlan& plan, const Json& fields, Pass& pass) {
  const std::string load = fields["load"];
  if (is_read(load)) return read_rate(plan, fields, pass);
  if (is_of_small_files(load)) return small_rate(plan, load, pass);
  if (load == "staging") return staging_rate(files_of(plan.stage), pass.folder);
  return checkpoint_write_rate(pass.folder, plan.mebibytes << 20);
}

// A sample is the time of this much: all bytes, a block, a file.
double amount(const StoragePlan& plan, const std::string& load) {
  if (is_of_small_files(load)) return 1;
  if (load == "random-read") return static_cast<double>(plan.block);
  if (load == "staging") return static_cast<double>(bytes_of(files_of(plan.stage)));
  return static_cast<double>(plan.mebibytes << 20);
}

// Only what the load depends on, so that files of records match where the others differ.
Json case_fields(const StoragePlan& plan, const std::string& folder, const std::string& load,
                 const std::string& cache) {
  Json fields = {{"path", folder}, {"load", load}};
  if (is_read(load)) fields.update({{"cache", cache}, {"threads", plan.threads}});
  if (is_read(load) || load == "checkpoint-write") fields["mebibytes"] = plan.mebibytes;
  if (load == "random-read" || is_of_small_files(load)) fields["block"] = plan.block;
  if (is_of_small_files(load)) fields["files"] = plan.files;
  if (load == "staging") fields["stage"] = plan.stage;
  return fields;
}

std::string rerun(const Json& fields) {
  std::string text = "d5 data storage " + shell_word(fields["path"]);
  for (const auto& [name, value] : fields.items())
    if (name != "path") text += fmt::format(" --{} {}", name, shell_word(value));
  return text;
}

std::vector<Record> cases(const StoragePlan& plan) {
  std::vector<Record> records;
  for (const std::string& load : storage_loads())
    for (const std::string& cache : is_read(load) ? plan.caches : std::vector<std::string>{""})
      for (const std::string& folder : plan.folders) {
        if (std::ranges::find(plan.loads, load) == plan.loads.end()) continue;
        Record record{.kind = "storage", .fields = case_fields(plan, folder, load, cache), .status = "passed"};
        record.rerun = rerun(record.fields);
        Json shared = record.fields;
        shared.erase("path");
        record.group = content_hash(shared.dump()).substr(0, 16);
        records.push_back(std::move(record));
      }
  return records;
}

void measure(const StoragePlan& plan, Pass& pass, double begin, Record& record) try {
  const double start = now_seconds(), found = rate(plan, record.fields, pass);
  if (!(found > 0)) throw Error("[storage] {}: no time could be measured", record.fields["path"].get<std::string>());
  record.samples.time_s.push_back(amount(plan, record.fields["load"]) / found);
  record.samples.start_s.push_back(start - begin);
  record.samples.launch.push_back(pass.launch);
  record.samples.round.push_back(0);
} catch (const std::exception& error) {
  record.status = dynamic_cast<const Unsupported*>(&error) ? "unsupported" : "error";
  record.reason = error.what();
  record.samples = {};
}

void add_metric(const StoragePlan& plan, Record& record) {
  if (record.samples.time_s.empty()) return;
  const Summary time = summarize(record.samples.time_s);
  record.warnings = time.warnings;
  const std::string load = record.fields["load"];
  const double scale = amount(plan, load) * (is_of_small_files(load) ? 1 : 1e-6);
  Metric metric{.unit = is_of_small_files(load) ? "files/s" : "MB/s",
                .median = scale / time.median,
                .n = time.n,
                .n_eff = time.n_eff};
  if (time.ci95) metric.ci95 = std::pair{scale / time.ci95->high, scale / time.ci95->low};
  record.metrics.emplace_back(is_of_small_files(load) ? "rate" : "bandwidth", metric);
  record.stopped = "fixed";
}

}  // namespace

const std::vector<std::string>& storage_loads() {
  static const std::vector<std::string> loads{"sequential-read", "random-read", "checkpoint-write", "file-create",
                                              "file-look-up",    "file-read",   "file-remove",      "staging"};
  return loads;
}

void check(const StoragePlan& plan) {
  for (auto folder = plan.folders.begin(); folder != plan.folders.end(); ++folder) {
    if (!std::filesystem::is_directory(*folder)) throw UsageError("[storage] '{}' is no folder", *folder);
    if (std::find(plan.folders.begin(), folder, *folder) != folder)
      throw UsageError("[storage] '{}' is named twice", *folder);
  }
  for (const std::string& load : plan.loads)
    if (std::ranges::find(storage_loads(), load) == storage_loads().end())
      fail_unknown("[storage]", "load", load, storage_loads());
  static const std::vector<std::string> legal{"hot", "cold"};
  for (const std::string& cache : plan.caches)
    if (std::ranges::find(legal, cache) == legal.end()) fail_unknown("[storage]", "cache", cache, legal);
  const bool stages = std::ranges::find(plan.loads, "staging") != plan.loads.end();
  if (stages && bytes_of(files_of(plan.stage)) == 0)
    throw UsageError("[storage] staging copies a file or folder, and '{}' holds no bytes: name one with --stage",
                     plan.stage);
}

std::vector<Record> storage_records(const StoragePlan& plan, const GoOn& go_on) {
  std::vector<Record> records = cases(plan);
  const double begin = now_seconds();
  for (int launch = 0; launch < plan.launches; ++launch)
    for (size_t f = 0; f < plan.folders.size(); ++f) {
      // Another folder comes first each time, so that a drift of the machine does not count against one of them.
      Pass one{plan.folders[(f + static_cast<size_t>(launch)) % plan.folders.size()], launch, nullptr, {}};
      for (Record& record : records)
        if (record.fields["path"] == one.folder && record.status == "passed" && go_on(record, launch))
          measure(plan, one, begin, record);
    }
  std::erase_if(records, [](const Record& one) { return one.status == "passed" && one.samples.time_s.empty(); });
  for (Record& record : records) add_metric(plan, record);
  return records;
}

}  // namespace d5
