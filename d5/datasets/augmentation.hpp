// SPDX-License-Identifier: Apache-2.0
// What is done to a sample between the data set and the batch. The random numbers of a step depend on (seed, epoch,
// sample, place of the step in the chain) alone: not on the thread, the batch or the rank that asks.
// One file per augmentation in augmentations/; it ends with D5_REGISTER(augmentations, "flip", Flip). The class has
//   about        one line
//   options()    its named values with their defaults
//   a constructor (const std::vector<Field>& in, const Attributes& values) that throws a UsageError where it cannot
//   work on these fields; the values are complete
#pragma once

#include <functional>

#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/core/rng.hpp"
#include "d5/datasets/dataset.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {

class Augmentation {
 public:
  // One sample: its random numbers, and any other sample of the epoch as this step would get it.
  struct Draw {
    Rng rng;
    Index samples;
    std::function<Sample(Index)> other;
  };
  virtual ~Augmentation() = default;
  virtual const std::vector<Field>& fields() const = 0;    // of what it makes
  virtual const std::vector<size_t>& changed() const = 0;  // fields that it reads or writes; the others pass by
  virtual bool in_place() const = 0;                       // then in[f] and out[f] are the same bytes
  virtual void apply(const Sample& in, Sample& out, const Draw&) const = 0;  // presence as in Dataset::read
};

struct augmentations {
  static constexpr const char* kind = "augmentation";
  struct Entry {
    std::string about;
    std::vector<DataOption> options;
    std::function<std::unique_ptr<Augmentation>(const std::vector<Field>&, const Attributes&)> make;
  };
  template <class T>
  static Entry entry() {
    return {T::about, T::options(), [](const std::vector<Field>& in, const Attributes& values) {
              return std::unique_ptr<Augmentation>(std::make_unique<T>(in, values));
            }};
  }
};

struct AugmentationStep {
  std::string name;
  Attributes values;
};

// A data set and the steps on its samples, in order. Thread-safe, as the data set is.
class Augmented {
 public:
  Augmented(std::shared_ptr<const Dataset>, const std::vector<AugmentationStep>&, uint64_t seed);
  const std::vector<Field>& fields() const;
  const Dataset& data() const { return *data_; }
  void read(Index epoch, Index sample, Sample& into) const;
  void expect(Index sample) const { data_->expect(sample); }

 private:
  void read_after(size_t steps, Index epoch, Index sample, Sample& into) const;
  std::shared_ptr<const Dataset> data_;
  std::vector<std::unique_ptr<Augmentation>> steps_;
  std::vector<uint64_t> seeds_;
};

// The same as a data set of one epoch.
std::unique_ptr<Dataset> augmented(std::shared_ptr<const Dataset>, const std::vector<AugmentationStep>&, uint64_t seed,
                                   Index epoch);

}  // namespace d5
