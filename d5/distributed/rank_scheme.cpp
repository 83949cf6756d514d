// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/rank_scheme.hpp"

#include <algorithm>
#include <cstring>

#include "d5/core/convert.hpp"
#include "d5/training/trainer.hpp"

namespace d5 {

void set_communicator(TrainingSettings& settings, Communicator& communicator) {
  settings.communicator = &communicator;
  settings.rank = communicator.rank();
  settings.ranks = communicator.size();
}

void end_all(std::vector<Request>& requests) noexcept {
  for (Request& request : requests) try {
      request.wait();
    } catch (const std::exception&) {  // the error that led here is the one to tell of
    }
  requests.clear();
}

std::byte* gradients_at(const ParameterSet& set, ParameterSet::Range range) {
  return static_cast<std::byte*>(set.gradients(set.all()).data()) + storage_bytes(set.compute_dtype(), range.first);
}
float* masters_at(const ParameterSet& set, ParameterSet::Range range) {
  return static_cast<float*>(set.masters(set.all()).data()) + range.first;
}

RankScheme::RankScheme(std::string name, Communicator* communicator)
    : name_(std::move(name)),
      communicator_(communicator
                        ? *communicator
                        : throw UsageError("[scheme {}] is for several ranks, and this process is alone; legal: single",
                                           name_)) {}

void RankScheme::begin_training(const TrainingStart& start) {
  aside_bytes_ = sent_bytes();  // of tuning, and what else went before
  ParameterSet& set = start.parameters;
  if (!set.masters(set.all()).memory().is_host())
    throw UsageError("{} exchanges what lies on the host; these parameters are on a device", place());
  if (start.optimizer.evaluates())
    throw UsageError("{} needs an optimizer that sees a batch once; legal: scheme single", place());
  aside([&] {
    std::vector<uint64_t> hashes(static_cast<size_t>(ranks()));
    const uint64_t mine = set.layout_hash();
    communicator_.run({.collective = Collective::allgather,
                       .input = &mine,
                       .output = hashes.data(),
                       .count = 1,
                       .dtype = DType::u64});
    for (size_t other = 1; other < hashes.size(); ++other)
      if (hashes[other] != hashes[0])
        throw UsageError(
            "{} rank {} has other parameters or layouts than rank 0: do all run the same network on the same "
            "backend?",
            place(), other);
    if (start.resumed) return;
    float* const masters = masters_at(set, set.all());
    communicator_.run(
        {.collective = Collective::broadcast, .input = masters, .output = masters, .count = set.elements()});
  });
  refresh_computes(set);
  set.touch();
  statistics_.clear();
  size_t length = 0;
  for (const ParameterSet::Parameter& p : set.parameters())
    if (!p.trainable) {
      statistics_.push_back({p.offset, p.padded_elements});
      length += static_cast<size_t>(p.padded_elements);
    }
  kept_statistics_.resize(length);
  gradient_bytes_ = static_cast<double>(storage_bytes(set.compute_dtype(), set.elements()));
  master_bytes_ = static_cast<double>(set.elements()) * sizeof(float);
}

void RankScheme::begin_test(ParameterSet& set) {
  aside([&] {
    if (ranks_differ()) {
      const float* const masters = masters_at(set, set.all());
      kept_.assign(masters, masters + set.elements());
      return average(set);
    }
    if (statistics_.empty()) return;
    keep_statistics(set);
    communicator_.run({.collective = Collective::allreduce,
                       .input = kept_statistics_.data(),
                       .output = kept_statistics_.data(),
                       .count = static_cast<int64_t>(kept_statistics_.size()),
                       .reduction = Reduction::mean});
    restore_statistics(set);
    refresh_computes(set);
  });
}

void RankScheme::end_test(ParameterSet& set) {
  if (!ranks_differ()) return;
  std::ranges::copy(kept_, masters_at(set, set.all()));
  refresh_computes(set);
}

void RankScheme::end_training(ParameterSet& set) {
  if (ranks_differ()) aside([&] { average(set); });
}

void RankScheme::sum_over_ranks(std::span<double> numbers) {
  aside([&] {
    communicator_.run({.collective = Collective::allreduce,
                       .input = numbers.data(),
                       .output = numbers.data(),
                       .count = static_cast<int64_t>(numbers.size()),
                       .dtype = DType::f64});
  });
}

Scheme::Numbers RankScheme::measured() const {
  return {{"sent_bytes", static_cast<double>(sent_bytes() - aside_bytes_)}, {"least_bytes", least_bytes()}};
}

void RankScheme::average(ParameterSet& set) {
  float* const masters = masters_at(set, set.all());
  communicator_.run({.collective = Collective::allreduce,
                     .input = masters,
                     .output = masters,
                     .count = set.elements(),
                     .reduction = Reduction::mean});
  refresh_computes(set);
}

void RankScheme::refresh_computes(ParameterSet& set) const {
  if (set.compute_dtype() == DType::f32) return;
  convert(DType::f32, masters_at(set, set.all()), set.compute_dtype(), set.computes(set.all()).data(), set.elements());
}

void RankScheme::keep_statistics(ParameterSet& set) {
  float* to = kept_statistics_.data();
  for (const Range& range : statistics_) to = std::copy_n(masters_at(set, range), range.count, to);
}

void RankScheme::restore_statistics(ParameterSet& set) {
  const float* from = kept_statistics_.data();
  for (const Range& range : statistics_) {
    std::copy_n(from, range.count, masters_at(set, range));
    from += range.count;
  }
}

void RankScheme::need_f32_gradients(const ParameterSet& set) const {
  if (set.compute_dtype() != DType::f32)
    throw UsageError("{} takes gradients in f32, and these are {}", place(), d5::name(set.compute_dtype()));
}

std::vector<Optimizer::State> RankScheme::whole_state(const ParameterSet& set, Optimizer& optimizer,
                                                      const std::vector<Range>& parts) {
  std::vector<Optimizer::State> states = optimizer.state();
  aside([&] {
    for (Optimizer::State& state : states) {
      if (!state.like_parameters) continue;
      const Tensor whole(DType::f32, {set.elements()});
      for (size_t owner = 0; owner < parts.size(); ++owner) {
        const Range part = parts[owner];
        if (part.count == 0) continue;
        const Tensor values = whole.slice(part.first, part.count);
        if (static_cast<int>(owner) == rank())
          values.copy_from(state.values.slice(part.first - state.first, part.count));
        communicator_.run({.collective = Collective::broadcast,
                           .input = values.data(),
                           .output = values.data(),
                           .count = part.count,
                           .root = static_cast<int>(owner)});
      }
      state.values = whole;
      state.first = 0;
    }
  });
  return states;
}

std::vector<ParameterSet::Range> whole_parameters(const ParameterSet& set, int parts) {
  std::vector<ParameterSet::Range> result;
  const auto& all = set.parameters();
  size_t next = 0;
  for (int part = 0; part < parts; ++part) {
    // As many as bring the end nearest to where an even cut would be.
    const Index first = next < all.size() ? all[next].offset : set.elements();
    const Index cut = set.elements() / parts * (part + 1);
    while (next < all.size() && part + 1 < parts) {
      const Index begin = all[next].offset, end = next + 1 < all.size() ? all[next + 1].offset : set.elements();
      if (end > cut && end - cut > cut - begin) break;
      ++next;
    }
    const Index end = part + 1 < parts && next < all.size() ? all[next].offset : set.elements();
    result.push_back({first, end - first});
  }
  return result;
}

std::vector<ParameterSet::Range> shards(const ParameterSet& set, Optimizer& optimizer, int parts,
                                        const std::string& place) {
  if (optimizer.division() == Optimizer::Division::whole) {
    const auto states = optimizer.state();
    const bool scalars = std::ranges::any_of(states, [](const Optimizer::State& s) { return !s.like_parameters; });
    if (parts > 1 || scalars)
      throw UsageError(
          "{} divides the update among ranks, and this optimizer needs all gradients at once (a norm over all "
          "of them, or a number made of them); legal: scheme dsgd, or another optimizer",
          place);
    return {set.all()};
  }
  if (optimizer.division() == Optimizer::Division::parameters) return whole_parameters(set, parts);
  constexpr Index line = 64;  // elements: parts begin at a cache line in every region
  std::vector<ParameterSet::Range> result;
  Index first = 0;
  for (int part = 0; part < parts; ++part) {
    const Index end = part + 1 == parts ? set.elements() : set.elements() * (part + 1) / parts / line * line;
    result.push_back({first, end - first});
    first = end;
  }
  return result;
}

}  // namespace d5
