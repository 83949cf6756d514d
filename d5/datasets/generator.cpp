// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/generator.hpp"

#include <array>
#include <cmath>
#include <numbers>

#include "d5/datasets/generators.hpp"

namespace d5 {

std::vector<DataOption> Generator::with_common(std::vector<DataOption> own, Index size) {
  own.push_back({"size", "samples", int64_t{size}});
  own.push_back({"seed", "of the distribution and its samples", int64_t{1}});
  own.push_back({"part", "train or test: other samples of the same distribution", std::string("train")});
  return own;
}

Generator::Generator(std::string name, const Attributes& values) : name_(std::move(name)) {
  const std::string place = "[" + name_ + "]";
  size_ = integer_in(values, "size", 1, Index{1} << 48, place);
  seed_ = static_cast<uint64_t>(values.integer("seed", 1));
  part_seed_ = Rng(seed_, stream_of(name_ + " " + one_of(values, "part", {"train", "test"}, place))).bits(0);
}

Rng Generator::of_set(std::string_view what) const { return Rng(seed_, stream_of(fmt::format("{} {}", name_, what))); }

Rng Generator::of_sample(Index i) const {
  if (i < 0 || i >= size_) throw Error("[{}] sample {} of {}", name_, i, size_);
  return Rng(part_seed_, static_cast<uint64_t>(i));
}

const Tensor& Generator::written(Sample& into, size_t f) const {
  if (!into[f].present()) into[f] = Tensor(fields_[f].dtype, *fields_[f].shape);
  return into[f];
}

void fill_normal(std::span<float> values, const Rng& rng) {
  const auto half = [](uint32_t bits) { return (static_cast<float>(bits >> 8) + 0.5f) * 0x1p-24f; };  // (0, 1)
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(rng.seed()), static_cast<uint32_t>(rng.seed() >> 32)};
  const auto low = static_cast<uint32_t>(rng.stream()), high = static_cast<uint32_t>(rng.stream() >> 32);
  for (size_t i = 0; i < values.size(); i += 4) {
    // Counters from 2^63 on: apart from the numbers that Rng itself gives for this stream.
    const auto bits =
        philox4x32({static_cast<uint32_t>(i / 4), 0x80000000u | static_cast<uint32_t>(i >> 34), low, high}, key);
    std::array<float, 4> made;
    for (size_t pair = 0; pair < 2; ++pair) {
      const float radius = std::sqrt(-2 * std::log(half(bits[2 * pair])));
      const float angle = 2 * std::numbers::pi_v<float> * half(bits[2 * pair + 1]);
      made[2 * pair] = radius * std::cos(angle);
      made[2 * pair + 1] = radius * std::sin(angle);
    }
    for (size_t k = 0; k < std::min<size_t>(4, values.size() - i); ++k) values[i + k] = made[k];
  }
}

std::shared_ptr<const Generator> generate(const std::string& name, const Attributes& values) {
  auto made = std::dynamic_pointer_cast<const Generator>(open_dataset(name, "", values));
  if (!made) throw UsageError("[generate] '{}' is read from files, not generated", name);
  return made;
}

}  // namespace d5
