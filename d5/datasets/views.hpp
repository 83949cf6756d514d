// SPDX-License-Identifier: Apache-2.0
// Data sets and streams made of others. A view holds the one below it; nothing is read before it is asked for.
#pragma once

#include <functional>

#include "d5/datasets/dataset.hpp"
#include "d5/datasets/sampler.hpp"

namespace d5 {

using DatasetPointer = std::shared_ptr<const Dataset>;

// ---- data sets
DatasetPointer subset(DatasetPointer, std::vector<Index> samples);  // these, in this order
DatasetPointer range(DatasetPointer, Index first, Index count);     // without a table
DatasetPointer shard(DatasetPointer, int number, int shards);       // samples number, number + shards, ...
DatasetPointer sampled(DatasetPointer, std::shared_ptr<const Sampler>, Index epoch);
DatasetPointer shuffled(DatasetPointer, uint64_t seed, Index epoch = 0);  // every sample once, without a table

// `change` gets a sample of its own to read and fills a new one of the given fields (presence as in Dataset::read).
using Change = std::function<void(Index i, const Sample& in, Sample& out)>;
DatasetPointer mapped(DatasetPointer, std::vector<Field> fields, Change change);

// Sample b is samples b * batch ... stacked. The last one is shorter unless it is dropped; then, or where the batches
// come out even, every batch has a shape.
DatasetPointer batched(DatasetPointer, Index batch, bool drop_last = false);

// Keeps what was read, as long as it fits into `most_bytes`; what does not is read again every time.
struct CacheCounts {
  Index hits = 0, misses = 0;
  size_t bytes = 0;
};
class Cached : public Dataset {
 public:
  virtual CacheCounts counts() const = 0;
};
std::shared_ptr<const Cached> cached(DatasetPointer, size_t most_bytes);

// ---- streams
using StreamPointer = std::unique_ptr<Stream>;

StreamPointer streamed(DatasetPointer, std::shared_ptr<const Sampler>, Index epoch = 0, Index first = 0);
// A buffer of so many samples: each one given is drawn from it and replaced by the next of the stream, so no sample is
// lost or doubled, and none comes more than `buffer` places too early.
StreamPointer shuffled(StreamPointer, Index buffer, uint64_t seed);
// Samples first, first + shards, ... of the stream.
StreamPointer shard(StreamPointer, int number, int shards);
StreamPointer batched(StreamPointer, Index batch, bool drop_last = false);
// A thread reads up to so many samples ahead. An error of the stream comes at its place; destroying it early is safe.
StreamPointer prefetched(StreamPointer, Index ahead);

}  // namespace d5
