// SPDX-License-Identifier: Apache-2.0
// Batches have sequence numbers 0, 1, ... in the order of the run; batch s is made in slot s mod ring. Threads claim
// chunks of rows in that order, so when a batch fails all before it are complete or under way.
#include "d5/datasets/loader.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "d5/core/parallel.hpp"
#include "d5/datasets/batch_rows.hpp"

namespace d5 {
namespace {

constexpr size_t most_named = 100;
constexpr Index most_replacements = 100;  // tried for one row
constexpr Index expected_ahead = 2;       // samples
constexpr Index chunk_bytes = 64 << 10;   // of rows at least, so that taking the next chunk costs nothing beside it
constexpr double quick_batch_s = 2e-4;
constexpr double most_watching_s = 2e-4;  // for a batch, before the caller sleeps
constexpr Index unwatched = 100;          // batches after one that did not come in that time

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

OnError parse_on_error(std::string_view text) {
  if (text == "fail") return OnError::fail;
  if (text == "skip") return OnError::skip;
  const std::vector<std::string> legal{"fail", "skip"};
  fail_unknown("[loader]", "policy for samples that cannot be read", text, legal);
}

class Loader::Work {
 public:
  Work(std::shared_ptr<const Augmented> data, std::shared_ptr<const Sampler> sampler, LoaderOptions options);
  ~Work() { stop(); }

  const Batch* next();
  void settle();
  State state() const;
  Index batches() const { return per_epoch_; }
  const std::vector<Field>& fields() const { return data_->fields(); }
  const LoaderCounts& counts() const { return counts_; }

 private:
  struct Failure {
    Index row = 0, sample = 0;
    std::string reason;
    std::exception_ptr error;  // empty: the sample is skipped
    bool replaced = false;     // its row holds another sample
  };
  struct Slot {
    Sample tensors;            // of a whole batch
    std::vector<Sample> rows;  // views of them
    std::vector<Index> wanted;
    std::vector<Failure> failures;
    Index epoch = 0, number = 0, rows_in_use = 0, rows_left = 0;
    double read_s = 0;
    std::atomic<Index> holds = -1;  // the batch that is complete in it
  };
  struct Chunk {
    Slot* slot;
    Index sequence, first, count;
  };

  Index absolute(Index sequence) const { return options_.first_epoch * per_epoch_ + options_.first_batch + sequence; }
  Slot& slot_of(Index sequence) { return slots_[static_cast<size_t>(sequence) % slots_.size()]; }
  bool can_claim() const { return claimed_ < end_ && claimed_ < released_ + static_cast<Index>(slots_.size()); }
  Chunk claim();
  std::vector<Failure> fill(const Chunk&);
  std::optional<Failure> read_row(Slot&, Index row, Index sample);
  Failure failure(Index row, Index sample, const char* what, bool of_the_sample) const;
  void replace(Slot&, Failure&);
  void finish(const Chunk&, std::vector<Failure>, double seconds);
  Chunk read_chunk(std::unique_lock<std::mutex>&);
  void work();
  void stop();
  bool quick() const;
  void watch(const Slot&);
  const Batch* deliver(Slot&);

  std::shared_ptr<const Augmented> data_;
  std::shared_ptr<const Sampler> sampler_;
  LoaderOptions options_;
  Index per_epoch_ = 0, chunk_rows_ = 1, row_bytes_ = 0;
  std::vector<size_t> field_bytes_;  // of a sample
  std::vector<Slot> slots_;

  mutable std::mutex mutex_;  // the rest up to threads_
  std::condition_variable claimable_, filled_;
  Index claimed_ = 0, claimed_rows_ = 0;  // the batch that chunks are taken from
  Index released_ = 0;                    // batches the caller is done with
  Index end_ = std::numeric_limits<Index>::max();
  int idle_ = 0;
  Index awaited_ = -1;  // the batch that the caller sleeps for
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;

  // of the thread that calls next()
  Index next_ = 0;
  bool lent_ = false;
  double began_ = 0;
  std::exception_ptr failed_;
  const int cores_ = usable_cores();
  const bool own_core_ = cores_ > options_.threads;
  Index watch_from_ = 0;  // the next batch that is worth it
  Batch batch_;
  LoaderCounts counts_;
};

Loader::Work::Work(std::shared_ptr<const Augmented> data, std::shared_ptr<const Sampler> sampler, LoaderOptions options)
    : data_(std::move(data)), sampler_(std::move(sampler)), options_(options) {
  const auto at_least = [](const char* what, Index value, Index least) {
    if (value < least) throw UsageError("[loader] {} = {}; legal: at least {}", what, value, least);
  };
  at_least("batch", options_.batch, 1);
  at_least("threads", options_.threads, 0);
  at_least("ahead", options_.ahead, 1);
  at_least("epochs", options_.epochs, 0);
  at_least("first_epoch", options_.first_epoch, 0);
  if (!options_.memory->is_host())
    throw UsageError("[loader] samples are read into memory of the host, not of {}", options_.memory->device());
  const Index samples = sampler_->size();
  per_epoch_ = samples / options_.batch + (!options_.drop_last && samples % options_.batch != 0);
  if (per_epoch_ == 0) throw UsageError("[loader] an epoch of {} samples has no batch of {}", samples, options_.batch);
  if (options_.first_batch < 0 || options_.first_batch > per_epoch_)
    throw UsageError("[loader] first_batch = {}; legal: 0 to {}", options_.first_batch, per_epoch_);
  if (options_.epochs > 0) end_ = std::max<Index>(0, options_.epochs * per_epoch_ - absolute(0));
  for (const Field& field : fields()) {
    field_bytes_.push_back(static_cast<size_t>(storage_bytes(field.dtype, batch_shape(field, 1).elements())));
    row_bytes_ += static_cast<Index>(field_bytes_.back());
  }
  const Index parts = 4 * std::max(1, options_.threads);
  chunk_rows_ = std::max((options_.batch + parts - 1) / parts, chunk_bytes / std::max<Index>(1, row_bytes_) + 1);

  const Index used = std::min(options_.batch, samples);
  slots_ = std::vector<Slot>(static_cast<size_t>(options_.threads == 0 ? 1 : options_.ahead + 1));
  for (Slot& slot : slots_) {
    for (const Field& field : fields())
      slot.tensors.emplace_back(field.dtype, batch_shape(field, used), *options_.memory);
    for (Index r = 0; r < used; ++r) slot.rows.push_back(batch_row(slot.tensors, fields(), r));
    slot.wanted.resize(static_cast<size_t>(used));
  }
  try {
    for (int t = 0; t < options_.threads; ++t) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

void Loader::Work::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  claimable_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// The mutex is held.
Loader::Work::Chunk Loader::Work::claim() {
  Slot& slot = slot_of(claimed_);
  if (claimed_rows_ == 0) {
    const Index batch = absolute(claimed_);
    slot.epoch = batch / per_epoch_;
    slot.number = batch % per_epoch_;
    slot.rows_in_use = std::min(options_.batch, sampler_->size() - slot.number * options_.batch);
    slot.rows_left = slot.rows_in_use;
    slot.failures.clear();
    slot.read_s = 0;
  }
  const Chunk chunk{&slot, claimed_, claimed_rows_, std::min(chunk_rows_, slot.rows_in_use - claimed_rows_)};
  claimed_rows_ += chunk.count;
  if (claimed_rows_ == slot.rows_in_use) {
    ++claimed_;
    claimed_rows_ = 0;
  }
  return chunk;
}

Loader::Work::Failure Loader::Work::failure(Index row, Index sample, const char* what, bool of_the_sample) const {
  std::string place;
  try {
    place = data_->data().where(sample);
  } catch (const std::exception&) {
    place = "unknown place";
  }
  const bool said = std::string_view(what).find(place) != std::string_view::npos;
  const std::string reason =
      said ? fmt::format("sample {}: {}", sample, what) : fmt::format("sample {} ({}): {}", sample, place, what);
  if (of_the_sample && options_.on_error != OnError::fail) return {row, sample, reason, {}};
  return {row, sample, reason,
          of_the_sample ? std::make_exception_ptr(SampleError("[loader] " + reason))
                        : std::make_exception_ptr(Error("[loader] " + reason))};
}

std::optional<Loader::Work::Failure> Loader::Work::read_row(Slot& slot, Index row, Index sample) try {
  Sample& into = slot.rows[static_cast<size_t>(row)];
  data_->read(slot.epoch, sample, into);
  for (size_t f = 0; f < into.size(); ++f)
    if (into[f].data() != static_cast<char*>(slot.tensors[f].data()) + static_cast<size_t>(row) * field_bytes_[f])
      throw Error("the data set put a tensor of its own in place of the row that it was to write");
  return {};
} catch (const SampleError& error) {
  return failure(row, sample, error.what(), true);
} catch (const std::exception& error) {
  return failure(row, sample, error.what(), false);
} catch (...) {
  return failure(row, sample, "an exception that says nothing", false);
}

// By position, so the same for any number of threads; half an epoch later, so that no batch holds a sample twice unless
// it is a large part of the epoch.
void Loader::Work::replace(Slot& slot, Failure& lost) try {
  const Index samples = sampler_->size(), position = slot.number * options_.batch + lost.row;
  const Index others = std::min(samples - 1, most_replacements);
  for (Index tried = 0; tried < others; ++tried) {
    const Index other = sampler_->at(slot.epoch, (position + samples / 2 + tried) % samples);
    if (const auto failed = read_row(slot, lost.row, other)) {
      if (!failed->error) continue;
      lost = *failed;
      return;
    }
    slot.wanted[static_cast<size_t>(lost.row)] = other;
    lost.reason += fmt::format("; sample {} took its place", other);
    lost.replaced = true;
    return;
  }
  throw SampleError("[loader] {}; and none of {} others that might take its place can be read", lost.reason, others);
} catch (...) {
  lost.error = std::current_exception();
}

std::vector<Loader::Work::Failure> Loader::Work::fill(const Chunk& chunk) {
  Slot& slot = *chunk.slot;
  std::vector<Failure> failures;
  const std::span<Index> wanted(slot.wanted.data() + chunk.first, static_cast<size_t>(chunk.count));
  try {
    sampler_->take(slot.epoch, slot.number * options_.batch + chunk.first, 1, wanted);
  } catch (const std::exception&) {
    return {{chunk.first, 0, "", std::current_exception()}};
  }
  for (Index r = 0; r < chunk.count && !stop_.load(std::memory_order_relaxed); ++r) {
    const Index row = chunk.first + r, sample = wanted[static_cast<size_t>(r)];
    if (r + expected_ahead < chunk.count) data_->expect(wanted[static_cast<size_t>(r + expected_ahead)]);
    auto failed = read_row(slot, row, sample);
    if (!failed) continue;
    if (!failed->error && options_.on_error == OnError::replace) replace(slot, *failed);
    failures.push_back(std::move(*failed));
    if (failures.back().error) break;
  }
  return failures;
}

// The mutex is held.
void Loader::Work::finish(const Chunk& chunk, std::vector<Failure> failures, double seconds) {
  Slot& slot = *chunk.slot;
  for (Failure& failure : failures) {
    if (failure.error) end_ = std::min(end_, chunk.sequence + 1);
    slot.failures.push_back(std::move(failure));
  }
  slot.read_s += seconds;
  slot.rows_left -= chunk.count;
  if (slot.rows_left == 0) slot.holds.store(chunk.sequence, std::memory_order_release);
}

// The mutex is held before and afterwards.
Loader::Work::Chunk Loader::Work::read_chunk(std::unique_lock<std::mutex>& lock) {
  const Chunk chunk = claim();
  lock.unlock();
  const double began = seconds_now();
  std::vector<Failure> failures = fill(chunk);
  const double seconds = seconds_now() - began;
  lock.lock();
  finish(chunk, std::move(failures), seconds);
  return chunk;
}

void Loader::Work::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!stop_ && !can_claim()) {
      if (++idle_ == options_.threads) filled_.notify_one();  // who waits for settle()
      claimable_.wait(lock, [&] { return stop_ || can_claim(); });
      --idle_;
    }
    if (stop_) return;
    const Chunk chunk = read_chunk(lock);
    if (chunk.sequence == awaited_ && chunk.slot->holds == awaited_) {
      lock.unlock();  // or the caller would wake only to wait for the mutex
      filled_.notify_one();
      lock.lock();
    }
  }
}

// Whether batches are read about as fast as a thread falls asleep and is woken.
bool Loader::Work::quick() const { return counts_.batches > 0 && batch_.read_s < quick_batch_s * options_.threads; }

// The caller looks on instead of sleeping; where that was in vain, not soon again: others have its core.
void Loader::Work::watch(const Slot& slot) {
  if (next_ < watch_from_) return;
  const double end = seconds_now() + most_watching_s;
  do {
    for (int i = 0; i < 100; ++i) {
      if (slot.holds.load(std::memory_order_acquire) == next_) return;
      pause();
    }
  } while (seconds_now() < end);
  watch_from_ = next_ + unwatched;
}

const Batch* Loader::Work::next() {
  const double began = seconds_now();
  if (failed_) std::rethrow_exception(failed_);
  if (began_ == 0) began_ = began;
  const Batch* given = nullptr;
  while (!given) {
    std::unique_lock lock(mutex_);
    released_ += lent_;
    // On the only core nothing is won by another thread that reads small batches meanwhile.
    if (lent_ && idle_ > 0 && !(cores_ == 1 && quick())) {
      lock.unlock();
      claimable_.notify_all();
      lock.lock();
    }
    lent_ = false;
    if (next_ >= end_) break;
    Slot& slot = slot_of(next_);
    if (slot.holds != next_ && own_core_ && quick()) {
      lock.unlock();
      watch(slot);
      lock.lock();
    }
    // On a core that it shares with those that read, the caller reads rather than change from thread to thread.
    const bool reads = options_.threads == 0 || (!own_core_ && quick());
    while (reads && claimed_ <= next_) read_chunk(lock);
    if (slot.holds != next_) {
      awaited_ = next_;
      filled_.wait(lock, [&] { return slot.holds == next_; });
      awaited_ = -1;
    }
    lock.unlock();
    ++next_;
    lent_ = true;
    given = deliver(slot);
  }
  const double ended = seconds_now();
  batch_.waited_s = ended - began;
  counts_.waited_s += ended - began;
  counts_.elapsed_s = ended - began_;
  return given;
}

void Loader::Work::settle() {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return idle_ == options_.threads; });
}

// Null where no sample of the batch could be read.
const Batch* Loader::Work::deliver(Slot& slot) {
  std::ranges::sort(slot.failures, {}, &Failure::row);
  for (const Failure& failure : slot.failures)
    if (failure.error) {
      failed_ = failure.error;
      std::rethrow_exception(failed_);
    }
  batch_.epoch = slot.epoch;
  batch_.number = slot.number;
  batch_.read_s = slot.read_s;
  batch_.samples.assign(slot.wanted.begin(), slot.wanted.begin() + slot.rows_in_use);
  batch_.fields = slot.tensors;
  Index rows = slot.rows_in_use;
  for (auto failure = slot.failures.rbegin(); failure != slot.failures.rend(); ++failure) {
    if (failure->replaced) continue;
    // The rows behind the lost one move up.
    for (size_t f = 0; f < field_bytes_.size(); ++f) {
      const size_t bytes = field_bytes_[f];
      char* row = static_cast<char*>(slot.tensors[f].data()) + static_cast<size_t>(failure->row) * bytes;
      std::memmove(row, row + bytes, static_cast<size_t>(rows - failure->row - 1) * bytes);
    }
    batch_.samples.erase(batch_.samples.begin() + failure->row);
    --rows;
  }
  for (const Failure& failure : slot.failures) {
    ++counts_.skipped;
    if (counts_.first_skipped.size() < most_named)
      counts_.first_skipped.push_back({slot.epoch, failure.sample, failure.reason});
  }
  counts_.read_s += slot.read_s;
  if (rows == 0) return nullptr;
  if (rows < static_cast<Index>(slot.rows.size()))
    for (Tensor& tensor : batch_.fields) tensor = tensor.slice(0, rows);
  ++counts_.batches;
  counts_.samples += rows;
  counts_.bytes += static_cast<double>(rows * row_bytes_);
  return &batch_;
}

Loader::State Loader::Work::state() const { return {absolute(next_) / per_epoch_, absolute(next_) % per_epoch_}; }

Loader::Loader(std::shared_ptr<const Augmented> data, std::shared_ptr<const Sampler> sampler, LoaderOptions options)
    : work_(std::make_unique<Work>(std::move(data), std::move(sampler), options)) {}

Loader::Loader(std::shared_ptr<const Dataset> data, std::shared_ptr<const Sampler> sampler, LoaderOptions options)
    : Loader(std::make_shared<const Augmented>(std::move(data), std::vector<AugmentationStep>{}, 0), std::move(sampler),
             options) {}

Loader::~Loader() = default;

const std::vector<Field>& Loader::fields() const { return work_->fields(); }
Index Loader::batches() const { return work_->batches(); }
const Batch* Loader::next() { return work_->next(); }
void Loader::settle() { work_->settle(); }
Loader::State Loader::state() const { return work_->state(); }
const LoaderCounts& Loader::counts() const { return work_->counts(); }

}  // namespace d5
