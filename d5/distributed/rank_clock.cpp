// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/rank_clock.hpp"

#include <fstream>
#include <limits>

#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr int tag = 9;

bool share_a_kernel(Communicator& c) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const auto mine = static_cast<uint64_t>(std::hash<std::string>{}(boot));
  std::vector<uint64_t> all(static_cast<size_t>(c.size()));
  c.run({.collective = Collective::allgather, .input = &mine, .output = all.data(), .count = 1, .dtype = DType::u64});
  return std::ranges::count(all, mine) == c.size();
}

}  // namespace

ClockLine::ClockLine(const ClockReading& first, const ClockReading& last)
    : at_s_(first.at_s), offset_s_(first.offset_s), uncertainty_s_(std::max(first.uncertainty_s, last.uncertainty_s)) {
  if (last.at_s > first.at_s) drift_ = (last.offset_s - first.offset_s) / (last.at_s - first.at_s);
}

RankClock::RankClock(Communicator& communicator, Clock clock)
    : communicator_(communicator),
      clock_(clock ? clock : Clock(now_seconds)),
      shared_(!clock && share_a_kernel(communicator)),
      first_(reading()),
      before_(first_),
      last_(first_) {}

void RankClock::read() {
  before_ = last_;
  last_ = reading();
}

// The shortest of some round trips is the one that says most.
ClockReading RankClock::reading() const {
  constexpr int trips = 50;
  ClockReading mine{.at_s = clock_()};
  if (shared_) return mine;
  double shortest = std::numeric_limits<double>::infinity();
  for (int rank = 1; rank < communicator_.size(); ++rank)
    for (int trip = 0; trip < trips; ++trip) {
      double theirs = 0;
      if (communicator_.rank() == 0) {
        communicator_.receive(rank, &theirs, sizeof theirs, tag).wait();
        theirs = clock_();
        communicator_.send(rank, &theirs, sizeof theirs, tag).wait();
      } else if (communicator_.rank() == rank) {
        const double begin = clock_();
        communicator_.send(0, &theirs, sizeof theirs, tag).wait();
        communicator_.receive(0, &theirs, sizeof theirs, tag).wait();
        const double end = clock_(), middle = (begin + end) / 2;
        if (end - begin >= shortest) continue;
        shortest = end - begin;
        mine = {middle, theirs - middle, shortest / 2};
      }
    }
  return mine;
}

nlohmann::json RankClock::describe() const {
  if (shared_) return {{"shared", true}};
  const ClockLine line(first_, last_);
  const std::vector<double> mine{first_.offset_s, first_.uncertainty_s, last_.offset_s, last_.uncertainty_s,
                                 line.drift()};
  std::vector<double> all(mine.size() * static_cast<size_t>(communicator_.size()));
  communicator_.run({.collective = Collective::allgather,
                     .input = mine.data(),
                     .output = all.data(),
                     .count = static_cast<int64_t>(mine.size()),
                     .dtype = DType::f64});
  nlohmann::json ranks = nlohmann::json::array();
  for (size_t at = 0; at < all.size(); at += mine.size())
    ranks.push_back({{"begin", {{"offset_s", all[at]}, {"uncertainty_s", all[at + 1]}}},
                     {"end", {{"offset_s", all[at + 2]}, {"uncertainty_s", all[at + 3]}}},
                     {"drift", all[at + 4]}});
  return {{"shared", false}, {"ranks", ranks}};
}

}  // namespace d5
