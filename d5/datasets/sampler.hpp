// SPDX-License-Identifier: Apache-2.0
// Which sample comes at which position of an epoch: a function of (seed, epoch, position). So any position can be had
// at once and from any thread, and the whole state of a run is (epoch, position).
// One file per sampler in samplers/; it ends with D5_REGISTER(samplers, "shuffle", ShuffleSampler). The class has
//   about        one line
//   options()    its named values with their defaults
//   a constructor (Index samples, uint64_t seed, const Attributes& values); the values are complete
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/core/shape.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {

class Dataset;

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual Index size() const = 0;  // positions of an epoch
  // The samples at positions first, first + step, ... of the epoch, as many as fit into `samples`.
  virtual void take(Index epoch, Index first, Index step, std::span<Index> samples) const = 0;

  Index at(Index epoch, Index position) const {
    Index sample = 0;
    take(epoch, position, 1, {&sample, 1});
    return sample;
  }
};

struct samplers {
  static constexpr const char* kind = "sampler";
  struct Entry {
    std::string about;
    std::vector<DataOption> options;
    std::function<std::unique_ptr<Sampler>(Index samples, uint64_t seed, const Attributes&)> make;
  };
  template <class T>
  static Entry entry() {
    return {T::about, T::options(), [](Index samples, uint64_t seed, const Attributes& values) {
              return std::unique_ptr<Sampler>(std::make_unique<T>(samples, seed, values));
            }};
  }
};
std::unique_ptr<Sampler> make_sampler(const std::string& name, Index samples, uint64_t seed,
                                      const Attributes& values = {});

// One that a case names, for this set: `weighted` draws every class equally often, for which the set is read once.
std::unique_ptr<Sampler> sampler_of(const std::string& name, const Dataset&, uint64_t seed);

// Rank r of n: positions r, r + n, r + 2 n, ... of the sampler. The ranks together take every position exactly once,
// their sizes differ by at most one, and the union of batch b over the ranks does not depend on how many there are as
// long as ranks x batch stays the same.
std::unique_ptr<Sampler> partitioned(std::shared_ptr<const Sampler>, int rank, int ranks);

}  // namespace d5
