// SPDX-License-Identifier: Apache-2.0
// Data sets that are computed: sample i depends on (seed, part, i) alone, so any size opens in constant memory. Those
// whose best possible result is known say so; what a network reaches can be held against it.
#pragma once

#include <span>

#include "d5/core/rng.hpp"
#include "d5/datasets/dataset.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {

class Generator : public Dataset {
 public:
  struct Optimum {
    std::string metric;  // "accuracy", "bits per symbol"
    double value = 0;
    std::string why;  // the formula, in words
  };
  Index size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string where(Index i) const override { return fmt::format("{}, generated sample {}", name_, i); }
  virtual std::optional<Optimum> optimum() const { return {}; }

 protected:
  // Options that every generator has: size, seed, part (train or test: other samples of the same distribution).
  static std::vector<DataOption> with_common(std::vector<DataOption> own, Index size);
  Generator(std::string name, const Attributes& values);

  Rng of_set(std::string_view what) const;  // the same in every part
  Rng of_sample(Index i) const;             // Error where there is no sample i
  // Field f of the sample, made where it is absent.
  const Tensor& written(Sample& into, size_t f) const;

  std::vector<Field> fields_;

 private:
  std::string name_;
  Index size_;
  uint64_t seed_, part_seed_;
};

// Standard normal numbers in f32: four from each block of the generator, number i always the same. Half as many bits as
// Rng::normal and several times as fast.
void fill_normal(std::span<float>, const Rng&);

}  // namespace d5
