// SPDX-License-Identifier: Apache-2.0
// The check: batches of the loader, with its threads, equal bit for bit to the same samples read one by one in this
// thread. The bound: beside each slice, what the samples cost when they are read without a loader (the container's and
// the decoder's own rate, times the threads), and what the storage gives in the same order (sequential, or random in
// blocks of a sample's size). The later of the two bounds the batch. Several processes: this one is measured while the
// others read, each its own share; the storage is shared.
#include "d5/bench/data_session.hpp"

#include <algorithm>

#include "d5/bench/data_bias.hpp"
#include "d5/bench/data_case.hpp"
#include "d5/bench/data_peers.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

constexpr double probe_s = 0.05;

// What another process reads with. When it is done, it lets go of the pages that it has mapped: they would keep the
// cache from being emptied.
struct PeerReading {
  struct LetGo {
    std::vector<std::string> files;
    ~LetGo() { release_mapped_pages(files); }
  } mapped;
  Loader loader;
};

Outcome without_details(std::string status, std::string reason) {
  Outcome outcome;
  outcome.status = std::move(status);
  outcome.reason = std::move(reason);
  return outcome;
}
Outcome unsupported(std::string reason) { return without_details("unsupported", std::move(reason)); }

class DataSession final : public Session {
 public:
  explicit DataSession(const Json& fields)
      : fields_(fields),
        threads_(fields.at("threads").get<int>()),
        processes_(fields.at("processes").get<int>()),
        batch_(fields.at("batch").get<Index>()),
        cold_(fields.at("cache") == "cold"),
        ordered_(fields.at("access") == "ordered") {}

  Outcome prepare(Depth depth) override {
    Outcome outcome;
    try {
      open();
    } catch (const UsageError& error) {
      if (fields_.at("store") == "") throw;
      return unsupported(error.what());
    }
    if (cold_ && files_.empty()) return unsupported("cache cold: the samples come from no file");
    if (source_.data->size() == 0) return without_details("failed", "the data set has no samples");
    describe(outcome.details);
    if (depth < Depth::check) return outcome;
    check(outcome);
    if (outcome.status != "passed" || depth < Depth::measure) return outcome;
    if (cold_) {
      empty_page_cache(files_);
      if (const double left = cached_share(files_); left > 0.05)
        return unsupported(
            fmt::format("cache cold: the file system or another process keeps {:.0f} % of the pages", 100 * left));
    } else {
      fill_page_cache(files_);
    }
    start_peers();
    open_loader();
    std::vector<double> seconds;
    const double begin = now_seconds();
    while ((seconds.size() < 3 || now_seconds() - begin < 0.1) && seconds.size() < 1000) seconds.push_back(next());
    outcome.details["warmup_s"] = seconds;
    outcome.details["seconds_per_iteration"] =
        std::max(1e-9, median({seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end()}));
    return outcome;
  }

  SliceResult run(const Slice& slice) override {
    if (cold_) {
      loader_.reset();
      empty_page_cache(files_);
      open_loader();
    } else {
      // What was read ahead while nobody asked does not count.
      for (Index b = 0; b < std::max<Index>(slice.rewarm, options_.ahead + 1); ++b) next();
    }
    SliceResult result;
    if (peers_) peers_->start();
    const int64_t others = peers_ ? peers_->batches() : 0;
    const LoaderCounts before = loader_->counts();
    const auto read_before = read_counters();
    const double began = now_seconds();
    for (int64_t sample = 0; sample < slice.samples; ++sample) {
      result.start.push_back(now_seconds());
      double seconds = 0;
      for (int64_t b = 0; b < slice.batch; ++b) seconds += next();
      result.seconds.push_back(seconds / static_cast<double>(slice.batch));
    }
    const double elapsed = now_seconds() - began;
    const int64_t others_gave = peers_ ? peers_->batches() - others : 0;
    if (peers_) peers_->pause();
    const LoaderCounts& after = loader_->counts();
    const auto read_after = read_counters();
    result.probe = {
        {"samples_per_s", reading_rate()},
        {"samples", after.samples - before.samples},
        {"stall_share", elapsed > 0 ? (after.waited_s - before.waited_s) / elapsed : 0},
        {"latency_s", (after.read_s - before.read_s) / std::max<double>(1, double(after.samples - before.samples))},
        {"bytes_needed", after.bytes - before.bytes}};
    if (peers_)
      result.probe["all_samples_per_s"] =
          (static_cast<double>(after.samples - before.samples) + static_cast<double>(others_gave * batch_)) /
          std::max(1e-9, elapsed);
    if (read_before && read_after) {
      result.probe["bytes_asked"] = read_after->asked_bytes - read_before->asked_bytes;
      result.probe["bytes_from_storage"] = read_after->storage_bytes - read_before->storage_bytes;
    }
    probe_storage(result.probe);
    return result;
  }

  Outcome finish() override {
    Outcome outcome;
    check(outcome);
    if (!loader_) return outcome;
    outcome.details["skipped"] = loader_->counts().skipped;
    for (const Skipped& one : loader_->counts().first_skipped) {
      outcome.details["first_skipped"].push_back(one.reason);
      if (outcome.details["first_skipped"].size() == 10) break;
    }
    return outcome;
  }

 private:
  double next() {
    const double began = now_seconds();
    if (!loader_->next()) throw Error("[data] the loader ended");
    return now_seconds() - began;
  }

  void open() {
    source_ = open_data_source(fields_);
    files_ = source_.files;
    const auto seed = fields_.at("seed").get<uint64_t>();
    data_ = std::make_shared<const Augmented>(source_.data, parse_augmentations(fields_.at("augment")), seed);
    all_ = make_sampler(fields_.at("access"), source_.data->size(), seed);
    if (all_->size() < processes_) throw UsageError("[data] {} processes share {} samples", processes_, all_->size());
    sampler_ = share(0);
    batch_ = std::min(batch_, all_->size() / processes_);
    options_ = {.batch = batch_,
                .drop_last = true,
                .threads = threads_,
                .ahead = fields_.at("ahead").get<Index>(),
                .on_error = parse_on_error(fields_.at("on_error").get<std::string>())};
  }

  std::shared_ptr<const Sampler> share(int rank) const {
    return processes_ == 1 ? all_ : std::shared_ptr<const Sampler>(partitioned(all_, rank, processes_));
  }

  void start_peers() {
    if (processes_ == 1) return;
    peers_ = std::make_unique<DataPeers>(processes_ - 1, [this](int rank) {
      auto reading = std::shared_ptr<PeerReading>(
          new PeerReading{{cold_ ? files_ : std::vector<std::string>()}, Loader(data_, share(rank), options_)});
      return [reading] {
        if (!reading->loader.next()) throw Error("[data] the loader ended");
      };
    });
  }

  // A new one begins where the last one was, so that a cold cache is not asked for the same samples again.
  void open_loader() {
    options_.first_epoch = epoch_++;
    loader_ = std::make_unique<Loader>(data_, sampler_, options_);
  }

  Sample empty_row() const {
    Sample row;
    for (const Field& field : data_->fields()) {
      if (!field.shape) throw UsageError("[data] field '{}' differs in shape from sample to sample", field.name);
      row.emplace_back(field.dtype, *field.shape);
    }
    return row;
  }

  void describe(Json& details) const {
    double bytes = 0;
    Json fields = Json::object();
    for (const Field& field : data_->fields()) {
      if (!field.shape)
        throw UsageError("[data] field '{}' differs in shape from sample to sample: give --pixels", field.name);
      bytes += static_cast<double>(storage_bytes(field.dtype, field.shape->elements()));
      fields[field.name] = fmt::format("{}[{}]", name(field.dtype), to_string(*field.shape));
    }
    details["data"] = {{"samples", source_.data->size()}, {"batch", batch_},
                       {"sample_bytes", bytes},           {"fields", fields},
                       {"files", files_.size()},          {"file_bytes", bytes_of(files_)}};
    if (!source_.stored.is_null()) details["stored"] = source_.stored;
  }

  void check(Outcome& outcome) const {
    LoaderOptions options = options_;
    options.epochs = options.first_epoch + 1;
    options.first_batch = 0;
    Loader loader(data_, sampler_, options);
    const auto labels = class_field(data_->fields());
    std::vector<Index> counts(labels ? static_cast<size_t>(*data_->fields()[*labels].classes) : 0);
    Sample row = empty_row();
    Index compared = 0;
    for (Index b = 0; b < std::min<Index>(8, loader.batches()); ++b) {
      const Batch* batch = loader.next();
      if (!batch) break;  // nothing that can be read is left
      Index place = batch->number * batch_;
      for (Index r = 0; r < batch->size(); ++r, ++place) {
        const Index given = batch->samples[static_cast<size_t>(r)];
        Index wanted = sampler_->at(batch->epoch, place);
        while (wanted != given && options_.on_error == OnError::skip && place + 1 < (batch->number + 1) * batch_)
          wanted = sampler_->at(batch->epoch, ++place);
        if (wanted != given) {
          outcome.status = "failed";
          outcome.reason =
              fmt::format("batch {} row {} holds sample {} instead of {}", batch->number, r, given, wanted);
          return;
        }
        data_->read(batch->epoch, given, row);
        for (size_t f = 0; f < row.size(); ++f) {
          const auto* loaded =
              static_cast<const char*>(batch->fields[f].data()) + static_cast<size_t>(r) * row[f].bytes();
          if (std::memcmp(loaded, row[f].data(), row[f].bytes()) == 0) continue;
          outcome.status = "failed";
          outcome.reason = fmt::format("{}: '{}' differs when it is read again", source_.data->where(given),
                                       data_->fields()[f].name);
          return;
        }
        ++compared;
      }
      if (labels) count_classes(batch->fields[*labels], counts);
    }
    if (compared == 0) {
      outcome.status = "failed";
      outcome.reason = "no sample can be read";
      for (const Skipped& one : loader.counts().first_skipped) {
        outcome.reason += "; the first: " + one.reason;
        break;
      }
      return;
    }
    outcome.details["check"] = {{"compared", compared}};
    if (labels) {
      const ClassBias bias = class_bias(counts);
      outcome.details["bias"] = {
          {"samples", compared}, {"chi_square", bias.chi_square}, {"p", bias.p}, {"largest_share", bias.largest_share}};
      if (bias.counts.size() <= 100) outcome.details["bias"]["counts"] = bias.counts;
    }
  }

  // Samples a second that this thread reads into one row, without a loader: the median over short stretches, because
  // the batches are summarised by their median too, and neither should count what other processes take.
  double reading_rate() {
    Sample row = empty_row();
    std::vector<double> seconds;  // a sample
    const double began = now_seconds();
    while (seconds.empty() || now_seconds() - began < probe_s) {
      const Index first = probed_ % sampler_->size();
      std::vector<Index> wanted(static_cast<size_t>(std::min<Index>(16, sampler_->size() - first)));
      const double start = now_seconds();
      sampler_->take(0, first, 1, wanted);
      for (const Index i : wanted) read_or_skip(i, row);
      seconds.push_back((now_seconds() - start) / static_cast<double>(wanted.size()));
      probed_ += static_cast<Index>(wanted.size());
    }
    return 1 / std::max(1e-12, median(seconds));
  }

  void read_or_skip(Index sample, Sample& row) const {
    try {
      data_->read(0, sample, row);
    } catch (const SampleError&) {
      if (options_.on_error == OnError::fail) throw;
    }
  }

  // Hot: copies out of mapped pages, of what a sample holds. Cold: reads of what it takes in its file.
  void probe_storage(Json& probe) {
    if (files_.empty()) return;
    const Index in_file = std::max<Index>(1, bytes_of(files_) / source_.data->size());
    const int readers = threads_ * processes_;
    if (!cold_) {
      const Index block = std::min(in_file, sample_bytes());
      probe["sample_file_bytes"] = block;
      probe["storage_bytes_per_s"] = mapped_read_rate(files_, block, ordered_, readers, probe_s, probed_seed_++);
      return;
    }
    empty_page_cache(files_);
    probe["sample_file_bytes"] = in_file;
    probe["storage_bytes_per_s"] = ordered_ ? sequential_read_rate(files_, readers, probe_s)
                                            : random_read_rate(files_, in_file, readers, probe_s, probed_seed_++);
  }

  Index sample_bytes() const {
    Index bytes = 0;
    for (const Field& field : data_->fields()) bytes += storage_bytes(field.dtype, field.shape->elements());
    return bytes;
  }

  const Json fields_;
  DataSource source_;
  int threads_, processes_;
  Index batch_;
  bool cold_, ordered_;
  std::vector<std::string> files_;
  std::shared_ptr<const Augmented> data_;
  std::shared_ptr<const Sampler> all_, sampler_;  // of all processes, and of this one
  LoaderOptions options_;
  std::unique_ptr<DataPeers> peers_;
  std::unique_ptr<Loader> loader_;
  Index epoch_ = 0, probed_ = 0;
  uint64_t probed_seed_ = 1;
};

}  // namespace

std::unique_ptr<Session> open_data_session(const Json& fields) { return std::make_unique<DataSession>(fields); }

}  // namespace d5
