// SPDX-License-Identifier: Apache-2.0
// Views of data sets; those of streams are in stream_views.cpp.
#include "d5/datasets/views.hpp"

#include <algorithm>
#include <mutex>

#include "d5/datasets/batch_rows.hpp"

namespace d5 {
namespace {

// A view that gives samples of the one below under other numbers.
class Renumbered : public Dataset {
 public:
  explicit Renumbered(DatasetPointer data) : data_(std::move(data)) {}
  const std::vector<Field>& fields() const override { return data_->fields(); }
  void read(Index i, Sample& into) const override { data_->read(checked(i), into); }
  void expect(Index i) const override {
    if (i >= 0 && i < size()) data_->expect(below(i));
  }
  std::string where(Index i) const override { return data_->where(checked(i)); }
  std::vector<std::string> files() const override { return data_->files(); }
  void verify() const override { data_->verify(); }

 protected:
  virtual Index below(Index i) const = 0;
  Index checked(Index i) const {
    if (i < 0 || i >= size()) throw Error("[view] sample {} of {}", i, size());
    return below(i);
  }
  DatasetPointer data_;
};

class Subset final : public Renumbered {
 public:
  Subset(DatasetPointer data, std::vector<Index> samples) : Renumbered(std::move(data)), samples_(std::move(samples)) {
    for (const Index i : samples_)
      if (i < 0 || i >= data_->size())
        throw UsageError("[subset] sample {}; the data set has samples 0 to {}", i, data_->size() - 1);
  }
  Index size() const override { return static_cast<Index>(samples_.size()); }
  Index below(Index i) const override { return samples_[static_cast<size_t>(i)]; }

 private:
  std::vector<Index> samples_;
};

class Strided final : public Renumbered {
 public:
  Strided(DatasetPointer data, Index first, Index step, Index count)
      : Renumbered(std::move(data)), first_(first), step_(step), count_(count) {}
  Index size() const override { return count_; }
  Index below(Index i) const override { return first_ + i * step_; }

 private:
  Index first_, step_, count_;
};

class Sampled final : public Renumbered {
 public:
  Sampled(DatasetPointer data, std::shared_ptr<const Sampler> sampler, Index epoch)
      : Renumbered(std::move(data)), sampler_(std::move(sampler)), epoch_(epoch) {}
  Index size() const override { return sampler_->size(); }
  Index below(Index i) const override { return sampler_->at(epoch_, i); }

 private:
  std::shared_ptr<const Sampler> sampler_;
  Index epoch_;
};

class Mapped final : public Dataset {
 public:
  Mapped(DatasetPointer data, std::vector<Field> fields, Change change)
      : data_(std::move(data)), fields_(std::move(fields)), change_(std::move(change)) {}
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return data_->size(); }
  void read(Index i, Sample& into) const override { change_(i, data_->at(i), into); }
  std::string where(Index i) const override { return data_->where(i); }
  std::vector<std::string> files() const override { return data_->files(); }
  void verify() const override { data_->verify(); }

 private:
  DatasetPointer data_;
  std::vector<Field> fields_;
  Change change_;
};

class Batched final : public Dataset {
 public:
  Batched(DatasetPointer data, Index batch, bool drop_last)
      : data_(std::move(data)), batch_(batch), drop_last_(drop_last) {
    if (batch < 1) throw UsageError("[batched] a batch of {} samples; legal: at least 1", batch);
    fields_ = batch_fields(data_->fields(), batch, drop_last || data_->size() % batch == 0);
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return drop_last_ ? data_->size() / batch_ : (data_->size() + batch_ - 1) / batch_; }
  void read(Index b, Sample& into) const override {
    if (b < 0 || b >= size()) throw Error("[batched] batch {} of {}", b, size());
    const Index first = b * batch_, count = std::min(batch_, data_->size() - first);
    for (size_t f = 0; f < into.size(); ++f)
      if (!into[f].present()) into[f] = Tensor(fields_[f].dtype, batch_shape(data_->fields()[f], count));
    for (Index i = 0; i < count; ++i) {
      Sample row = batch_row(into, data_->fields(), i);
      data_->read(first + i, row);
    }
  }
  std::string where(Index b) const override { return fmt::format("batch {} from {}", b, data_->where(b * batch_)); }
  std::vector<std::string> files() const override { return data_->files(); }
  void verify() const override { data_->verify(); }

 private:
  DatasetPointer data_;
  std::vector<Field> fields_;
  Index batch_;
  bool drop_last_;
};

class CachedView final : public Cached {
 public:
  CachedView(DatasetPointer data, size_t most_bytes)
      : data_(std::move(data)), most_bytes_(most_bytes), kept_(static_cast<size_t>(data_->size())) {}
  const std::vector<Field>& fields() const override { return data_->fields(); }
  Index size() const override { return data_->size(); }
  std::string where(Index i) const override { return data_->where(i); }
  std::vector<std::string> files() const override { return data_->files(); }
  void verify() const override { data_->verify(); }
  CacheCounts counts() const override {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void read(Index i, Sample& into) const override {
    if (i < 0 || i >= size()) throw Error("[cached] sample {} of {}", i, size());
    std::shared_ptr<const Sample> kept;
    {
      const std::lock_guard lock(mutex_);
      kept = kept_[static_cast<size_t>(i)];
      ++(kept ? counts_.hits : counts_.misses);
    }
    if (!kept) kept = fetch(i);
    for (size_t f = 0; f < into.size(); ++f) {
      if (into[f].present())
        into[f].copy_from((*kept)[f]);
      else
        into[f] = (*kept)[f];
    }
  }

 private:
  std::shared_ptr<const Sample> fetch(Index i) const {
    auto sample = std::make_shared<Sample>(data_->at(i));
    size_t bytes = 0;
    for (const Tensor& tensor : *sample) bytes += tensor.dtype() == DType::string ? 0 : tensor.bytes();
    const std::lock_guard lock(mutex_);
    auto& place = kept_[static_cast<size_t>(i)];
    if (!place && counts_.bytes + bytes <= most_bytes_) {
      place = sample;
      counts_.bytes += bytes;
    }
    return sample;
  }

  DatasetPointer data_;
  size_t most_bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Sample>> kept_;
  mutable CacheCounts counts_;
};

}  // namespace

DatasetPointer subset(DatasetPointer data, std::vector<Index> samples) {
  return std::make_shared<Subset>(std::move(data), std::move(samples));
}

DatasetPointer range(DatasetPointer data, Index first, Index count) {
  if (first < 0 || count < 0 || first > data->size() || count > data->size() - first)
    throw UsageError("[range] {} samples from {} on; the data set has {}", count, first, data->size());
  return std::make_shared<Strided>(std::move(data), first, 1, count);
}

DatasetPointer shard(DatasetPointer data, int number, int shards) {
  if (shards < 1 || number < 0 || number >= shards)
    throw UsageError("[shard] number {} of {}; legal: 0 to shards - 1, of at least 1", number, shards);
  const Index count = std::max<Index>(0, (data->size() - number + shards - 1) / shards);
  return std::make_shared<Strided>(std::move(data), number, shards, count);
}

DatasetPointer sampled(DatasetPointer data, std::shared_ptr<const Sampler> sampler, Index epoch) {
  return std::make_shared<Sampled>(std::move(data), std::move(sampler), epoch);
}

DatasetPointer shuffled(DatasetPointer data, uint64_t seed, Index epoch) {
  std::shared_ptr<const Sampler> order = make_sampler("shuffle", data->size(), seed);
  return sampled(std::move(data), std::move(order), epoch);
}

DatasetPointer mapped(DatasetPointer data, std::vector<Field> fields, Change change) {
  return std::make_shared<Mapped>(std::move(data), std::move(fields), std::move(change));
}

DatasetPointer batched(DatasetPointer data, Index batch, bool drop_last) {
  return std::make_shared<Batched>(std::move(data), batch, drop_last);
}

std::shared_ptr<const Cached> cached(DatasetPointer data, size_t most_bytes) {
  return std::make_shared<CachedView>(std::move(data), most_bytes);
}

}  // namespace d5
