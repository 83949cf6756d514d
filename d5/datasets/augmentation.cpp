// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/augmentation.hpp"

#include <algorithm>

#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

class AugmentedView final : public Dataset {
 public:
  AugmentedView(std::shared_ptr<const Dataset> data, const std::vector<AugmentationStep>& steps, uint64_t seed,
                Index epoch)
      : all_(std::move(data), steps, seed), epoch_(epoch) {}
  const std::vector<Field>& fields() const override { return all_.fields(); }
  Index size() const override { return all_.data().size(); }
  void read(Index i, Sample& into) const override { all_.read(epoch_, i, into); }
  std::string where(Index i) const override { return all_.data().where(i); }
  std::vector<std::string> files() const override { return all_.data().files(); }
  void verify() const override { all_.data().verify(); }

 private:
  Augmented all_;
  Index epoch_;
};

}  // namespace

Augmented::Augmented(std::shared_ptr<const Dataset> data, const std::vector<AugmentationStep>& steps, uint64_t seed)
    : data_(std::move(data)) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string& name = steps[i].name;
    const augmentations::Entry& entry = registered<augmentations>(name);
    const std::string place = "[augmentation " + name + "]";
    steps_.push_back(entry.make(fields(), complete_options(steps[i].values, entry.options, place)));
    seeds_.push_back(Rng(seed, stream_of("augmentation " + name)).bits(i));
  }
}

const std::vector<Field>& Augmented::fields() const {
  return steps_.empty() ? data_->fields() : steps_.back()->fields();
}

void Augmented::read(Index epoch, Index sample, Sample& into) const { read_after(steps_.size(), epoch, sample, into); }

void Augmented::read_after(size_t steps, Index epoch, Index sample, Sample& into) const {
  if (steps == 0) return data_->read(sample, into);
  const Augmentation& step = *steps_[steps - 1];
  const std::vector<Field>& before = steps == 1 ? data_->fields() : steps_[steps - 2]->fields();
  // What a step leaves alone is read straight to its place; so is what it changes in place, but never a mapped file.
  Sample in(before.size());
  for (size_t f = 0; f < before.size(); ++f) in[f] = into[f];
  for (const size_t f : step.changed()) {
    if (!step.in_place()) {
      in[f] = before[f].shape ? Tensor(before[f].dtype, *before[f].shape) : Tensor();
    } else if (!in[f].present() && before[f].shape) {
      in[f] = Tensor(before[f].dtype, *before[f].shape);
    }
  }
  read_after(steps - 1, epoch, sample, in);
  for (size_t f = 0; f < before.size(); ++f)
    if (!into[f].present() && (step.in_place() || std::ranges::find(step.changed(), f) == step.changed().end()))
      into[f] = in[f];
  if (step.in_place())
    for (const size_t f : step.changed())
      if (!before[f].shape) into[f] = in[f] = in[f].clone();
  const auto other = [&](Index i) {
    Sample whole(before.size());
    read_after(steps - 1, epoch, i, whole);
    return whole;
  };
  const uint64_t key = Rng(seeds_[steps - 1]).bits(static_cast<uint64_t>(epoch));
  step.apply(in, into, {Rng(key, static_cast<uint64_t>(sample)), data_->size(), std::cref(other)});
}

std::unique_ptr<Dataset> augmented(std::shared_ptr<const Dataset> data, const std::vector<AugmentationStep>& steps,
                                   uint64_t seed, Index epoch) {
  return std::make_unique<AugmentedView>(std::move(data), steps, seed, epoch);
}

}  // namespace d5
