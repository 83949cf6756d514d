// SPDX-License-Identifier: Apache-2.0
// Data sets whose samples tell which they are.
#pragma once

#include <atomic>
#include <set>

#include "d5/datasets/dataset.hpp"

namespace d5 {

// Sample i: value f32[3] = {i, 2 i, -i}, label i64 = i mod 10. Samples of `broken` cannot be read, `fatal` ends all.
class Counting final : public Dataset {
 public:
  explicit Counting(Index size, std::set<Index> broken = {}, Index fatal = -1)
      : size_(size), broken_(std::move(broken)), fatal_(fatal) {}
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return size_; }
  void read(Index i, Sample& into) const override {
    ++reads;
    if (i < 0 || i >= size_) throw Error("[counting] sample {} of {}", i, size_);
    if (broken_.contains(i)) throw SampleError("[counting] broken");
    if (i == fatal_) throw std::runtime_error("the disk is gone");
    if (!into[0].present()) into[0] = Tensor(DType::f32, {3});
    if (!into[1].present()) into[1] = Tensor(DType::i64, {});
    const auto value = static_cast<float>(i);
    float* values = into[0].values<float>().data();
    values[0] = value;
    values[1] = 2 * value;
    values[2] = -value;
    into[1].values<int64_t>()[0] = i % 10;
  }
  std::string where(Index i) const override { return fmt::format("counted {}", i); }

  mutable std::atomic<Index> reads = 0;

 private:
  std::vector<Field> fields_{{"value", DType::f32, Shape{3}, {}}, {"label", DType::i64, Shape{}, 10}};
  Index size_;
  std::set<Index> broken_;
  Index fatal_;
};

inline Index number_of(const Sample& sample) { return static_cast<Index>(sample[0].values<float>()[0]); }

}  // namespace d5
