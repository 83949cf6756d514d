// SPDX-License-Identifier: Apache-2.0
// Views of streams.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "d5/core/rng.hpp"
#include "d5/datasets/batch_rows.hpp"
#include "d5/datasets/views.hpp"

namespace d5 {
namespace {

// Moves a sample that was read before to where it is wanted.
void give(Sample& from, Sample& into) {
  for (size_t f = 0; f < into.size(); ++f) {
    if (into[f].present())
      into[f].copy_from(from[f]);
    else
      into[f] = std::move(from[f]);
  }
}

// A sample that stays valid when the stream moves on: a stream may give views of a buffer of its own.
bool next_owned(Stream& stream, Sample& sample) {
  sample.assign(stream.fields().size(), {});
  for (size_t f = 0; f < sample.size(); ++f) {
    const Field& field = stream.fields()[f];
    if (field.shape) sample[f] = Tensor(field.dtype, *field.shape);
  }
  if (!stream.next(sample)) return false;
  for (size_t f = 0; f < sample.size(); ++f)
    if (!stream.fields()[f].shape) sample[f] = sample[f].clone();
  return true;
}

class Streamed final : public Stream {
 public:
  Streamed(DatasetPointer data, std::shared_ptr<const Sampler> sampler, Index epoch, Index first)
      : data_(std::move(data)), sampler_(std::move(sampler)), epoch_(epoch), next_(first) {}
  const std::vector<Field>& fields() const override { return data_->fields(); }
  bool next(Sample& into) override {
    if (next_ >= sampler_->size()) return false;
    sample_ = sampler_->at(epoch_, next_++);
    data_->read(sample_, into);
    return true;
  }
  std::string where() const override { return data_->where(sample_); }

 private:
  DatasetPointer data_;
  std::shared_ptr<const Sampler> sampler_;
  Index epoch_, next_, sample_ = 0;
};

class ShuffledStream final : public Stream {
 public:
  ShuffledStream(StreamPointer from, Index buffer, uint64_t seed)
      : from_(std::move(from)), most_(static_cast<size_t>(buffer)), rng_(seed, stream_of("stream shuffle")) {
    if (buffer < 1) throw UsageError("[shuffled] a buffer of {} samples; legal: at least 1", buffer);
  }
  const std::vector<Field>& fields() const override { return from_->fields(); }
  bool next(Sample& into) override {
    while (!ended_ && buffer_.size() < most_) {
      Held held;
      if ((ended_ = !next_owned(*from_, held.sample))) break;
      held.where = from_->where();
      buffer_.push_back(std::move(held));
    }
    if (buffer_.empty()) return false;
    std::swap(buffer_[rng_.next_below(buffer_.size())], buffer_.back());
    give(buffer_.back().sample, into);
    where_ = std::move(buffer_.back().where);
    buffer_.pop_back();
    return true;
  }
  std::string where() const override { return where_.empty() ? from_->where() : where_; }

 private:
  struct Held {
    Sample sample;
    std::string where;
  };
  StreamPointer from_;
  size_t most_;
  Rng rng_;
  std::vector<Held> buffer_;
  std::string where_;
  bool ended_ = false;
};

class StreamShard final : public Stream {
 public:
  StreamShard(StreamPointer from, int number, int shards) : from_(std::move(from)), skip_(number), shards_(shards) {}
  const std::vector<Field>& fields() const override { return from_->fields(); }
  bool next(Sample& into) override {
    for (; skip_ > 0; --skip_) {
      Sample unused(fields().size());
      if (!from_->next(unused)) return false;
    }
    skip_ = shards_ - 1;
    return from_->next(into);
  }
  std::string where() const override { return from_->where(); }

 private:
  StreamPointer from_;
  int skip_, shards_;
};

class BatchedStream final : public Stream {
 public:
  BatchedStream(StreamPointer from, Index batch, bool drop_last)
      : from_(std::move(from)), batch_(batch), drop_last_(drop_last) {
    if (batch < 1) throw UsageError("[batched] a batch of {} samples; legal: at least 1", batch);
    fields_ = batch_fields(from_->fields(), batch, drop_last);
  }
  const std::vector<Field>& fields() const override { return fields_; }
  bool next(Sample& into) override {
    Sample whole = into;
    for (size_t f = 0; f < whole.size(); ++f)
      if (!whole[f].present()) whole[f] = Tensor(fields_[f].dtype, batch_shape(from_->fields()[f], batch_));
    Index rows = 0;
    for (; rows < batch_; ++rows) {
      Sample row = batch_row(whole, from_->fields(), rows);
      if (!from_->next(row)) break;
    }
    if (rows == 0 || (drop_last_ && rows < batch_)) return false;
    for (size_t f = 0; f < whole.size(); ++f) into[f] = rows < batch_ ? whole[f].slice(0, rows) : whole[f];
    return true;
  }
  std::string where() const override { return from_->where(); }

 private:
  StreamPointer from_;
  std::vector<Field> fields_;
  Index batch_;
  bool drop_last_;
};

class PrefetchedStream final : public Stream {
 public:
  PrefetchedStream(StreamPointer from, Index ahead) : from_(std::move(from)), most_(static_cast<size_t>(ahead)) {
    if (ahead < 1) throw UsageError("[prefetched] {} samples ahead; legal: at least 1", ahead);
    thread_ = std::thread([this] { fill(); });
  }
  ~PrefetchedStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  const std::vector<Field>& fields() const override { return from_->fields(); }
  bool next(Sample& into) override {
    Held held;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
      if (ready_.empty()) return false;
      held = std::move(ready_.front());
      ready_.pop_front();
    }
    changed_.notify_all();
    where_ = std::move(held.where);
    if (held.error) std::rethrow_exception(held.error);
    give(held.sample, into);
    return true;
  }
  std::string where() const override { return where_; }

 private:
  struct Held {
    Sample sample;
    std::string where;
    std::exception_ptr error;
  };

  void fill() {
    for (bool more = true; more;) {
      Held held;
      try {
        more = next_owned(*from_, held.sample);
      } catch (const SampleError&) {
        held.error = std::current_exception();  // the stream may go on behind it
      } catch (...) {
        held.error = std::current_exception();
        more = false;
      }
      const bool given = more || held.error;
      if (given) held.where = from_->where();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ready_.size() < most_ || stop_; });
      if (stop_) return;
      if (given) ready_.push_back(std::move(held));
      ended_ = !more;
      lock.unlock();
      changed_.notify_all();
    }
  }

  StreamPointer from_;
  size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Held> ready_;
  std::string where_;
  bool ended_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace

StreamPointer streamed(DatasetPointer data, std::shared_ptr<const Sampler> sampler, Index epoch, Index first) {
  return std::make_unique<Streamed>(std::move(data), std::move(sampler), epoch, first);
}

StreamPointer shuffled(StreamPointer from, Index buffer, uint64_t seed) {
  return std::make_unique<ShuffledStream>(std::move(from), buffer, seed);
}

StreamPointer shard(StreamPointer from, int number, int shards) {
  if (shards < 1 || number < 0 || number >= shards)
    throw UsageError("[shard] number {} of {}; legal: 0 to shards - 1, of at least 1", number, shards);
  return std::make_unique<StreamShard>(std::move(from), number, shards);
}

StreamPointer batched(StreamPointer from, Index batch, bool drop_last) {
  return std::make_unique<BatchedStream>(std::move(from), batch, drop_last);
}

StreamPointer prefetched(StreamPointer from, Index ahead) {
  return std::make_unique<PrefetchedStream>(std::move(from), ahead);
}

}  // namespace d5
