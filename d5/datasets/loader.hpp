// SPDX-License-Identifier: Apache-2.0
// Batches, made ahead by threads. The samples are read straight into the rows of a ring of batches that is allocated
// once, so memory is bounded and nothing is copied after decoding. What a batch holds depends on (seed, epoch, number)
// alone, so it is the same for any number of threads, and a loader can begin at any batch of any epoch.
//
// next() is for one thread. The first error of a batch, by row, comes out of next() at that batch, after the batches
// before it; a loader that failed gives the same error again. Destroying it early is safe.
#pragma once

#include <memory>

#include "d5/datasets/augmentation.hpp"
#include "d5/datasets/sampler.hpp"

namespace d5 {

// What becomes of a sample that cannot be read, besides being counted. skip: its row is left out, and the batch is
// shorter; replace: the sample half an epoch later takes its row, or the first after it that can be read.
enum class OnError { fail, skip, replace };
OnError parse_on_error(std::string_view);  // fail or skip

struct LoaderOptions {
  Index batch = 32;
  bool drop_last = false;  // the last batch of an epoch where it is short
  int threads = 1;         // 0: the thread that calls next() reads
  Index ahead = 2;         // batches that are filled or wait while one is used
  Index epochs = 0;        // the last epoch is epochs - 1; 0: without end
  OnError on_error = OnError::fail;
  Index first_epoch = 0, first_batch = 0;  // where to begin: what state() said
  Memory* memory = &host_memory();         // of the batches; the host can write it
};

struct Batch {
  Index epoch = 0, number = 0;
  std::vector<Tensor> fields;  // the first axis is the samples
  std::vector<Index> samples;  // which ones, in their order, as they were read
  double waited_s = 0;         // by the caller of next(), for this batch
  double read_s = 0;           // spent on it by all threads
  Index size() const { return static_cast<Index>(samples.size()); }
};

struct Skipped {
  Index epoch, sample;
  std::string reason;
};

struct LoaderCounts {
  Index batches = 0, samples = 0, skipped = 0;
  double bytes = 0;                    // delivered
  double waited_s = 0, elapsed_s = 0;  // input stall, and since the first next() began
  double read_s = 0;
  std::vector<Skipped> first_skipped;  // the first hundred, in the order of the run
};

class Loader {
 public:
  struct State {
    Index epoch = 0, batch = 0;
  };
  Loader(std::shared_ptr<const Augmented>, std::shared_ptr<const Sampler>, LoaderOptions);
  Loader(std::shared_ptr<const Dataset>, std::shared_ptr<const Sampler>, LoaderOptions);
  ~Loader();

  const std::vector<Field>& fields() const;  // of a sample
  Index batches() const;                     // of an epoch
  // The next batch, which stays as it is until next() is called again; null behind the last epoch.
  const Batch* next();
  void settle();        // returns when all that may be read ahead is, and no thread reads
  State state() const;  // of the batch that next() will give: a new loader that begins there gives the same ones
  const LoaderCounts& counts() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace d5
