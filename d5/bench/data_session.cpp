// SPDX-License-Identifier: Apache-2.0
// The check: batches of the loader, with its threads, equal bit for bit to the same samples read one by one in this
// thread. The bound: beside each slice, what the samples cost when they are read without a loader (the container's and
// the decoder's own rate, times the threads), and what the storage gives in the same order (sequential, or random in
// blocks of a sample's size). The later of the two bounds the batch. Several processes: this one is measured while the
// others read, each its own share; the storage is shared.
//
// Cold: what is timed is a stretch, which begins with no page cached and a new loader: a whole epoch where that is over
// soon, else so many batches. Its batches are not alike (the kernel reads ahead, so a few wait for all), so the
// stretch as a whole is one sample of the time, shared out evenly among its batches.
#include "d5/bench/data_session.hpp"

#include <algorithm>

#include "d5/bench/data_bias.hpp"
#include "d5/bench/data_case.hpp"
#include "d5/bench/data_peers.hpp"
#include "d5/core/parallel.hpp"
#include "d5/datasets/classes.hpp"
#include "d5/datasets/named.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

constexpr double probe_s = 0.05;
constexpr double cold_stretch_s = 0.5;  // batches are added until then, or until the epoch ends
constexpr double cold_share = 0.05;     // of the pages may stay cached

// What another process reads with. When it is done, it lets go of the pages that it has mapped: they would keep the
// cache from being emptied.
struct PeerReading {
  struct LetGo {
    std::vector<std::string> files;
    ~LetGo() { release_mapped_pages(files); }
  } mapped;
  Loader loader;
};

Outcome unsupported(std::string reason) {
  Outcome outcome;
  outcome.status = "unsupported";
  outcome.reason = std::move(reason);
  return outcome;
}

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
    require_set_or_file(fields_.at("dataset"));
    try {
      open();
    } catch (const UsageError& error) {
      if (fields_.at("store") == "") throw;
      return unsupported(error.what());
    }
    if (cold_ && files_.empty())
      return unsupported(source_.named.empty()
                             ? "cache cold: the samples come from no file"
                             : "cache cold: the samples are unpacked into memory when the set is opened");
    describe(outcome.details);
    if (depth < Depth::check) return outcome;
    check(outcome);
    if (outcome.status != "passed" || depth < Depth::measure) return outcome;
    if (cold_) {
      empty_page_cache(files_);
      if (const double left = cached_share(files_); left > cold_share)
        return unsupported(
            fmt::format("cache cold: the file system or another process keeps {:.0f} % of the pages", 100 * left));
    } else {
      fill_page_cache(files_);
    }
    start_peers();
    open_loader();
    cold_ ? warm_up_cold(outcome.details) : warm_up_hot(outcome.details);
    return outcome;
  }

  SliceResult run(const Slice& slice) override {
    SliceResult result;
    Counted counted;
    const auto read_before = read_counters();
    if (cold_) {
      for (int64_t sample = 0; sample < slice.samples; ++sample) {
        result.start.push_back(now_seconds());
        double seconds = 0;
        for (int64_t s = 0; s < slice.batch; ++s) seconds += cold_stretch(counted);
        result.seconds.push_back(seconds / static_cast<double>(slice.batch * stretch_));
      }
    } else {
      // What was read ahead while nobody asked does not count.
      for (Index b = 0; b < std::max<Index>(slice.rewarm, options_.ahead + 1); ++b) next();
      if (peers_) peers_->start();
      count(counted, [&] {
        for (int64_t sample = 0; sample < slice.samples; ++sample) {
          result.start.push_back(now_seconds());
          double seconds = 0;
          for (int64_t b = 0; b < slice.batch; ++b) seconds += next();
          result.seconds.push_back(seconds / static_cast<double>(slice.batch));
        }
      });
    }
    const auto read_after = read_counters();
    loader_->settle();  // or it would read ahead on the same cores while the bounds are probed
    result.probe = {{"samples_per_s", reading_rate()},
                    {"batches", counted.batches},
                    {"samples", counted.samples},
                    {"stall_share", counted.elapsed_s > 0 ? counted.waited_s / counted.elapsed_s : 0},
                    {"latency_s", counted.read_s / std::max<double>(1, static_cast<double>(counted.samples))},
                    {"bytes_needed", counted.bytes}};
    if (peers_)
      result.probe["all_samples_per_s"] =
          static_cast<double>(counted.samples + counted.of_peers) / std::max(1e-9, counted.elapsed_s);
    if (read_before && read_after) {
      result.probe["bytes_asked"] = read_after->asked_bytes - read_before->asked_bytes;
      result.probe["bytes_from_storage"] = read_after->storage_bytes - read_before->storage_bytes;
    }
    if (!probe_storage(result.probe))
      for (const char* name : {"bytes_asked", "bytes_from_storage"}) result.probe.erase(name);
    return result;
  }

  Outcome finish() override {
    Outcome outcome;
    check(outcome);
    if (!loader_) return outcome;
    note_skipped();
    outcome.details["skipped"] = skipped_;
    if (!first_skipped_.empty()) outcome.details["first_skipped"] = first_skipped_;
    return outcome;
  }

 private:
  double next() {
    const double began = now_seconds();
    if (!loader_->next()) throw Error("[data] the loader ended");
    return now_seconds() - began;
  }

  // What the loader gave, and how long that took.
  struct Counted {
    Index batches = 0, samples = 0, of_peers = 0;
    double bytes = 0, waited_s = 0, read_s = 0, elapsed_s = 0;
  };
  template <class Take>
  double count(Counted& counted, Take take) {
    const int64_t others = peers_ ? peers_->samples() : 0;
    const LoaderCounts before = loader_ ? loader_->counts() : LoaderCounts{};
    const double began = now_seconds();
    take();
    const double elapsed = now_seconds() - began;
    if (peers_) {
      counted.of_peers += peers_->samples() - others;
      peers_->pause();
    }
    const LoaderCounts& after = loader_->counts();
    counted.batches += after.batches - before.batches;
    counted.samples += after.samples - before.samples;
    counted.bytes += after.bytes - before.bytes;
    counted.waited_s += after.waited_s - before.waited_s;
    counted.read_s += after.read_s - before.read_s;
    counted.elapsed_s += elapsed;
    return elapsed;
  }

  void warm_up_hot(Json& details) {
    std::vector<double> seconds;
    const double begin = now_seconds();
    while ((seconds.size() < 3 || now_seconds() - begin < 0.1) && seconds.size() < 1000) seconds.push_back(next());
    details["warmup_s"] = seconds;
    details["seconds_per_iteration"] =
        std::max(1e-9, median({seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end()}));
  }

  // How long a stretch is, then how long it takes.
  void warm_up_cold(Json& details) {
    empty_page_cache(files_);
    const Index epoch = loader_->batches();
    double seconds = 0;
    for (stretch_ = 0; stretch_ < epoch && seconds < cold_stretch_s; ++stretch_) seconds += next();
    Counted ignored;
    details["seconds_per_iteration"] = std::max(1e-9, cold_stretch(ignored));
    details["cold"] = {{"batches", stretch_}, {"of_an_epoch", epoch}};
    release_mapped_pages(files_);  // others may have the same files to empty
  }

  // By the loader, which ends.
  void note_skipped() {
    skipped_ += loader_->counts().skipped;
    for (const Skipped& one : loader_->counts().first_skipped)
      if (first_skipped_.size() < 10) first_skipped_.push_back(one.reason);
  }

  // From the beginning of a loader to its last batch.
  double cold_stretch(Counted& counted) {
    const Loader::State from = loader_->state();
    note_skipped();
    loader_.reset();
    empty_page_cache(files_);
    stretch_from_ = from;
    return count(counted, [&] {
      open_loader(from);
      if (peers_) peers_->start();
      for (Index b = 0; b < stretch_; ++b) next();
    });
  }

  void open() {
    source_ = open_data_source(fields_);
    files_ = source_.files;
    if (source_.data->size() == 0) throw Error("[data] {} holds no samples", fields_.at("dataset").get<std::string>());
    const auto seed = fields_.at("seed").get<uint64_t>();
    data_ = std::make_shared<const Augmented>(source_.data, parse_augmentations(fields_.at("augment")), seed);
    all_ = sampler_of(fields_.at("access"), *source_.data, seed);
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
        const Batch* batch = reading->loader.next();
        if (!batch) throw Error("[data] the loader ended");
        return batch->size();
      };
    });
  }

  void open_loader(Loader::State from = {}) {
    options_.first_epoch = from.epoch;
    options_.first_batch = from.batch;
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

  // Samples a second that this thread reads into one row, without a loader, their pages cached: in cold cases those of
  // the last stretch. The median over a few samples each, because the batches are summarised by their median too, and
  // neither should count what other processes take.
  double reading_rate() {
    Sample row = empty_row();
    const Index epoch = stretch_from_.epoch, from = stretch_from_.batch * batch_;
    const Index places = cold_ ? std::min(stretch_ * batch_, sampler_->size() - from) : sampler_->size();
    std::vector<double> seconds;  // a sample
    const double began = now_seconds();
    while (seconds.empty() || now_seconds() - began < probe_s) {
      const Index first = probed_ % places;
      std::vector<Index> wanted(static_cast<size_t>(std::min<Index>(16, places - first)));
      const double start = now_seconds();
      sampler_->take(epoch, from + first, 1, wanted);
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

  // Hot: copies out of mapped pages, of what a sample holds. Cold: reads of what it takes in its file; who wants all
  // samples in any order may read the files from end to end, if that is faster. False where the kernel does not count
  // what comes out of this storage.
  bool probe_storage(Json& probe) {
    if (files_.empty()) return true;
    const Index in_file = std::max<Index>(1, bytes_of(files_) / source_.in_files);
    const int readers = threads_ * processes_;
    if (!cold_) {
      const Index block = std::min(in_file, sample_bytes());
      probe["sample_file_bytes"] = block;
      probe["storage_bytes_per_s"] = mapped_read_rate(files_, block, ordered_, readers, probe_s, probed_seed_++);
      return true;
    }
    empty_page_cache(files_);
    probe["cached_share"] = cached_share(files_);
    probe["sample_file_bytes"] = in_file;
    const bool whole_epoch = stretch_ == loader_->batches();
    const auto before = read_counters();
    double rate = 0;
    if (ordered_ || whole_epoch) rate = sequential_read_rate(files_, readers, cold_stretch_s);
    if (!ordered_) {
      empty_page_cache(files_);
      rate = std::max(rate, random_read_rate(files_, in_file, readers, cold_stretch_s, probed_seed_++));
    }
    probe["storage_bytes_per_s"] = rate;
    const auto after = read_counters();
    return before && after && after->storage_bytes > before->storage_bytes;
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
  Index stretch_ = 0;  // batches
  Loader::State stretch_from_;
  Index skipped_ = 0;
  std::vector<std::string> first_skipped_;
  Index probed_ = 0;
  uint64_t probed_seed_ = 1;
};

}  // namespace

std::unique_ptr<Session> open_data_session(const Json& fields) { return std::make_unique<DataSession>(fields); }

}  // namespace d5
