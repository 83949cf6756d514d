// SPDX-License-Identifier: Apache-2.0
// Rabenseifner (2004): a reduce-scatter by recursive halving, then an allgather by recursive doubling.
//   allreduce   2 log2 n alpha + 2 (n - 1)/n S beta      for 2^k ranks: as few bytes as a ring, fewer messages
#include <array>

#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/algorithms/power_of_two.hpp"

namespace d5 {
namespace {

struct Range {
  int64_t begin, end;
  Range half(bool upper) const {
    const int64_t middle = begin + (end - begin) / 2;
    return upper ? Range{middle, end} : Range{begin, middle};
  }
  int64_t size() const { return end - begin; }
};

class Rabenseifner final : public Algorithm {
 public:
  std::string about() const override { return "halves the vector log2 n times, then doubles it again"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective == Collective::allreduce) return {};
    return fmt::format("it has no {}; it has allreduce", name(op.collective));
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    const Fold fold(ranks);
    fold.enter(op);
    if (fold.place() >= 0) halve_and_double(op, ranks, fold);
    fold.leave(op);
  }

 private:
  static void halve_and_double(const Operation& op, const Ranks& ranks, const Fold& fold) {
    auto* const data = static_cast<std::byte*>(op.output);
    const int64_t width = storage_bytes(op.dtype, 1);
    const auto at = [&](const Range& r) { return data + r.begin * width; };
    const auto bytes = [&](const Range& r) { return static_cast<size_t>(r.size() * width); };
    const int place = fold.place();
    std::array<Range, 32> ranges;  // that this rank was responsible for, before each step
    int steps = 0;
    Range mine{0, op.count};
    for (int bit = fold.size() / 2; bit > 0; bit /= 2) {
      const int peer = fold.rank_of(place ^ bit);
      ranges[steps++] = mine;
      const bool upper = place & bit;
      const Range theirs = mine.half(!upper);
      mine = mine.half(upper);
      std::byte* const received = ranks.scratch(bytes(mine));
      ranks.exchange(peer, at(theirs), bytes(theirs), peer, received, bytes(mine));
      combine(op, at(mine), at(mine), received, mine.size());
    }
    finish(op, at(mine), mine.size());
    for (int bit = 1; bit < fold.size(); bit *= 2) {
      const int peer = fold.rank_of(place ^ bit);
      const Range whole = ranges[--steps], theirs = whole.half(!(place & bit));
      ranks.exchange(peer, at(mine), bytes(mine), peer, at(theirs), bytes(theirs));
      mine = whole;
    }
  }
};

}  // namespace
D5_REGISTER(algorithms, "rabenseifner", Rabenseifner);
}  // namespace d5
