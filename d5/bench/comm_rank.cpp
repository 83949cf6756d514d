// SPDX-License-Identifier: Apache-2.0
// What every rank does: check, warm up, then rounds in which each algorithm runs one slice, in an order that changes
// from round to round. The time of an iteration is the latest end over ranks minus the latest end of the one before it;
// of what does not hold up all ranks (a root, neighbours, messages, windows), minus the latest that any left the
// barrier before it.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "d5/bench/comm.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/rng.hpp"
#include "d5/distributed/rank_clock.hpp"
#include "d5/distributed/tuned.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr double long_ago = -1e300;  // of a rank that is not asked

template <class T>
T over_ranks(Communicator& c, T mine, Reduction reduction) {
  T all{};
  c.run({.collective = Collective::allreduce,
         .input = &mine,
         .output = &all,
         .count = 1,
         .dtype = dtype_of<T>::value,
         .reduction = reduction,
         .algorithm = "recursive_doubling"});
  return all;
}

void swap_bytes(Communicator& c, int peer, bool first, void* data, size_t bytes) {
  const auto send = [&] { c.send(peer, data, bytes).wait(); };
  const auto receive = [&] { c.receive(peer, data, bytes).wait(); };
  first ? (send(), receive()) : (receive(), send());
}

// alpha and beta from half of a round trip, between rank 0 and the first rank of another machine, if there is one.
Json ping_pong(Communicator& c) {
  if (c.size() < 2) return {{"alpha_s", 0.0}, {"beta_s_per_byte", 0.0}};
  int peer = 1;
  for (int rank = c.size() - 1; rank > 0; --rank)
    if (c.nodes()[static_cast<size_t>(rank)] != c.nodes()[0]) peer = rank;
  std::vector<std::byte> data(4 << 20);
  const auto half_trip = [&](size_t bytes, int repeats) {
    std::vector<double> times;
    if (c.rank() != 0 && c.rank() != peer) return 0.0;
    for (int i = 0; i < repeats + 2; ++i) {
      const double begin = now_seconds();
      swap_bytes(c, c.rank() == 0 ? peer : 0, c.rank() == 0, data.data(), bytes);
      if (i >= 2) times.push_back((now_seconds() - begin) / 2);
    }
    return median(times);
  };
  const double alpha = half_trip(1, 200), middle = half_trip(1 << 20, 10), large = half_trip(4 << 20, 10);
  c.barrier();
  return {{"alpha_s", alpha}, {"beta_s_per_byte", std::max(0.0, large - middle) / (3 << 20)}, {"between", {0, peer}}};
}

class GroupRun {
 public:
  GroupRun(Communicator& c, const communicators::Entry& entry, const CommPlan& plan, size_t number, RankClock& clock,
           const Tell& tell)
      : c_(c),
        entry_(entry),
        plan_(plan),
        group_(plan.groups[number]),
        number_(number),
        clock_(clock),
        tell_(tell),
        neighbours_(neighbours_of(group_, c.size(), c.rank())),
        op_(operation_of(group_, c.size(), neighbours_)),
        check_(group_, op_, c.rank(), c.size()) {
    const auto room = [&](int64_t elements) { return static_cast<size_t>(storage_bytes(op_.dtype, elements)) + 64; };
    // A broadcast is in place everywhere: the root keeps what it sends.
    input_.resize(room(input_elements(op_, c.size())));
    output_.resize(room(output_elements(op_, c.size())));
    op_.input = op_.collective == Collective::broadcast ? output_.data() : input_.data();
    op_.output = output_.data();
    op_.divisor = c.size();
  }

  void run() {
    std::vector<size_t> can;
    std::vector<int64_t> iterations(group_.algorithms.size());
    for (size_t a = 0; a < group_.algorithms.size(); ++a) {
      if (const auto reason = why_not(a)) {
        tell("unsupported", a, {{"reason", *reason}});
        continue;
      }
      const int64_t wrong = first_check(a);
      if (wrong > 0) {
        tell("failed", a, {{"reason", fmt::format("{} elements are wrong before timing", wrong)}});
        continue;
      }
      alive();
      iterations[a] = calibrate(a);
      alive();
      can.push_back(a);
    }
    check_.fill_exact(input_.data());
    for (int round = 0; round < plan_.rounds; ++round) {
      std::vector<int64_t> order(can.size());
      std::iota(order.begin(), order.end(), 0);
      shuffle(order, Rng(plan_.seed, 1000 * number_ + static_cast<size_t>(round)));
      for (const int64_t at : order)
        slice(can[static_cast<size_t>(at)], round, iterations[can[static_cast<size_t>(at)]]);
    }
  }

 private:
  std::optional<std::string> why_not(size_t a) {
    const std::string& name = group_.algorithms[a];
    if (op_.count == 0 && group_.bytes > 0)
      return fmt::format("fewer than one element for each of {} ranks", c_.size());
    const bool one_sided = op_.collective == Collective::put || op_.collective == Collective::get;
    if (name == "windows") {
      if (one_sided) return why_no_window();
      return fmt::format("{} is not one-sided; windows have put, get", d5::name(op_.collective));
    }
    if (name == "messages") {
      if (is_direct(op_.collective) && !one_sided) return {};
      return fmt::format("{} is no message; messages have send, send_receive, neighbour_exchange",
                         d5::name(op_.collective));
    }
    if (name == "auto" && is_direct(op_.collective)) return "only collectives are tuned";
    if (name == "plain") {
      if (!entry_.plain_loop) return "this communicator has no library";
      return c_.transport().why_no_library(op_);
    }
    Operation op = op_;
    op.algorithm = name == "auto" ? "" : std::string_view(name);
    if (name == "auto" && !tuned_) {
      std::vector<int64_t> sizes;
      for (int64_t bytes = 1 << 10; bytes < 4 * group_.bytes && bytes <= 64 << 20; bytes *= 4) sizes.push_back(bytes);
      if (sizes.empty()) sizes.push_back(1 << 10);
      choose_tuned(c_, op_.collective, op_.dtype, sizes, entry_.about, Timing::all);
      tuned_ = true;
    }
    return c_.why_not(op);
  }

  // Opens it where it can be had; whether it can is found out by trying, and said by all ranks or none.
  std::optional<std::string> why_no_window() {
    std::string reason;
    const bool put = op_.collective == Collective::put;
    try {
      window_ = c_.expose(put ? output_.data() : input_.data(), put ? output_.size() : input_.size());
    } catch (const RankLost&) {
      throw;
    } catch (const Error& error) {
      reason = error.what();
    }
    if (over_ranks(c_, static_cast<int64_t>(window_ ? 0 : 1), Reduction::max) == 0) return {};
    window_.reset();
    return reason.empty() ? "another rank has no window" : reason;
  }

  void poison() {
    std::memset(output_.data(), 0xa5, output_.size());
    if (op_.collective == Collective::broadcast && c_.rank() == op_.root)
      std::memcpy(output_.data(), input_.data(), input_.size());
  }

  // Only some ranks wait for others there: without a barrier a root would be many calls ahead.
  bool holds_up_some() const {
    return is_direct(op_.collective) || op_.collective == Collective::broadcast ||
           op_.collective == Collective::reduce || op_.collective == Collective::gather ||
           op_.collective == Collective::scatter;
  }

  void calls(size_t a, std::span<double> ends) {
    const std::string& name = group_.algorithms[a];
    if (name == "plain") return entry_.plain_loop(c_.transport(), op_, ends);
    if (name == "messages" || name == "windows") {
      for (double& end : ends) {
        name == "messages" ? exchange_messages() : exchange_by_window();
        end = now_seconds();
      }
      return;
    }
    op_.algorithm = name == "auto" ? std::string_view() : std::string_view(name);
    for (double& end : ends) {
      c_.run(op_);
      end = now_seconds();
    }
  }

  int next() const { return (c_.rank() + 1) % c_.size(); }
  int before() const { return (c_.rank() + c_.size() - 1) % c_.size(); }
  // Of one message only two ranks know.
  bool takes_part() const {
    return op_.collective != Collective::send || c_.rank() == op_.root || before() == op_.root;
  }

  void exchange_messages() {
    const auto bytes = static_cast<size_t>(storage_bytes(op_.dtype, op_.count));
    if (op_.collective == Collective::neighbour_exchange) {
      for (size_t i = 0; i < neighbours_.size(); ++i)
        pending_.push_back(c_.receive(neighbours_[i], output_.data() + bytes * i, bytes));
      for (size_t i = 0; i < neighbours_.size(); ++i)
        pending_.push_back(c_.send(neighbours_[i], input_.data() + bytes * i, bytes));
      return wait_all(pending_);
    }
    const bool to_next = op_.collective == Collective::send_receive;
    if (to_next || before() == op_.root) pending_.push_back(c_.receive(before(), output_.data(), bytes));
    if (to_next || c_.rank() == op_.root) pending_.push_back(c_.send(next(), input_.data(), bytes));
    wait_all(pending_);
  }

  void exchange_by_window() {
    const auto bytes = static_cast<size_t>(storage_bytes(op_.dtype, op_.count));
    if (op_.collective == Collective::put)
      window_->put(next(), 0, input_.data(), bytes);
    else
      window_->get(next(), 0, output_.data(), bytes);
    window_->complete();
  }

  struct Times {
    std::vector<double> begins, ends;  // where all are held up nobody looks when a call begins
    Traffic sent;                      // without that of barriers
  };
  Times go(size_t a, size_t count) {
    Times times{{}, std::vector<double>(count), {}};
    const size_t together = holds_up_some() ? 1 : count;
    for (size_t i = 0; i < count; i += together) {
      if (holds_up_some()) c_.barrier();
      const Traffic before = c_.traffic();
      if (holds_up_some()) times.begins.push_back(now_seconds());
      calls(a, std::span(times.ends).subspan(i, together));
      times.sent.bytes += c_.traffic().bytes - before.bytes;
      times.sent.messages += c_.traffic().messages - before.messages;
    }
    if (window_) {  // what others put here is there when all have done so
      c_.barrier();
      window_->complete();
    }
    if (takes_part()) return times;
    for (auto* moments : {&times.begins, &times.ends}) std::ranges::fill(*moments, long_ago);
    return times;
  }

  // The latest of all ranks, by rank 0's clock.
  std::vector<double> latest(std::vector<double> times) {
    std::vector<double> all(times.size());
    c_.run({.collective = Collective::allreduce,
            .input = times.data(),
            .output = all.data(),
            .count = static_cast<int64_t>(times.size()),
            .dtype = DType::f64,
            .reduction = Reduction::max,
            .algorithm = "tree"});
    return all;
  }

  bool has_output() const {
    if (op_.collective == Collective::send) return before() == op_.root;
    return (op_.collective != Collective::reduce && op_.collective != Collective::gather) || c_.rank() == op_.root;
  }
  int64_t wrong(bool exact) {
    const int64_t mine = !has_output() ? 0
                         : exact       ? check_.wrong_exact(output_.data())
                                       : check_.wrong_real(output_.data());
    return over_ranks(c_, mine, Reduction::sum);
  }

  int64_t first_check(size_t a) {
    int64_t count = 0;
    for (const bool exact : {true, false}) {
      if (!exact && !is_float(op_.dtype)) continue;
      exact ? check_.fill_exact(input_.data()) : check_.fill_real(input_.data());
      poison();
      go(a, 1);
      count += wrong(exact);
    }
    return count;
  }

  int64_t calibrate(size_t a) {
    go(a, 1);
    c_.barrier();
    const double begin = now_seconds();
    const double each = over_ranks(c_, (go(a, 3).ends.back() - begin) / 3, Reduction::max);
    return std::clamp<int64_t>(static_cast<int64_t>(plan_.slice_s / std::max(each, 1e-9)), 1, 500);
  }

  void slice(size_t a, int round, int64_t iterations) {
    poison();
    c_.barrier();
    // The first one warms up: its end is where the second begins.
    Times times = go(a, static_cast<size_t>(iterations) + 1);
    clock_.read();
    for (auto* moments : {&times.begins, &times.ends})
      for (double& moment : *moments) moment = clock_.to_rank_0(moment);
    const int64_t bad = wrong(true);
    const std::vector<double> ends = latest(times.ends);
    std::vector<double> begins(ends.begin(), ends.end() - 1);
    if (holds_up_some()) {
      begins = latest(times.begins);
      begins.erase(begins.begin());
    }
    // Who was last, how often: the straggler.
    std::vector<int64_t> last(static_cast<size_t>(c_.size()));
    for (size_t i = 1; i < ends.size(); ++i) last[static_cast<size_t>(c_.rank())] += times.ends[i] == ends[i];
    c_.run({.collective = Collective::allreduce,
            .input = last.data(),
            .output = last.data(),
            .count = c_.size(),
            .dtype = DType::i64,
            .algorithm = "tree"});
    const auto runs = static_cast<double>(ends.size());
    const double sent = static_cast<double>(times.sent.bytes) / runs,
                 messages = static_cast<double>(times.sent.messages) / runs;
    const double all_sent = over_ranks(c_, sent, Reduction::sum), most_sent = over_ranks(c_, sent, Reduction::max),
                 all_messages = over_ranks(c_, messages, Reduction::sum);
    Json result{{"round", round}, {"wrong", bad}, {"last", last}};
    for (size_t i = 1; i < ends.size(); ++i) {
      result["time_s"].push_back(ends[i] - begins[i - 1]);
      result["end_s"].push_back(ends[i]);
    }
    const std::string& name = group_.algorithms[a];
    if (name != "plain" && name != "library" && !(name == "auto" && c_.chosen(op_) == "library"))
      result.update({{"bytes_sent", all_sent}, {"most_bytes_sent", most_sent}, {"messages", all_messages}});
    if (name == "auto") result["chosen"] = c_.chosen(op_);
    tell("slice", a, std::move(result));
  }

  // Before the first slice large messages on slow links take minutes, and who starts ranks takes silence for their end.
  void alive() {
    if (c_.rank() == 0) tell_({{"what", "alive"}});
  }

  void tell(const char* what, size_t a, Json more) {
    if (c_.rank() != 0) return;
    more.update({{"what", what}, {"group", number_}, {"algorithm", group_.algorithms[a]}});
    tell_(more);
  }

  Communicator& c_;
  const communicators::Entry& entry_;
  const CommPlan& plan_;
  const CommGroup& group_;
  size_t number_;
  RankClock& clock_;
  const Tell& tell_;
  std::vector<int> neighbours_;
  Operation op_;
  CommCheck check_;
  bool tuned_ = false;
  std::vector<std::byte> input_, output_;
  std::vector<Request> pending_;
  std::unique_ptr<Window> window_;  // ends before the memory that it shows
};

}  // namespace

void run_comm_plan(Communicator& c, const communicators::Entry& entry, const CommPlan& plan, const Tell& tell) {
  c.set_time_limit(plan.time_limit_s);
  if (c.size() != plan.ranks)
    throw Error(
        "[comm] {} ranks were started, the plan is for {}: is this mpirun of the same MPI that d5 was built with?",
        c.size(), plan.ranks);
  // Ranks that were given another plan would wait for each other for ever.
  const std::string hash = content_hash(to_json(plan).dump());
  const auto mine = static_cast<int64_t>(std::stoull(hash.substr(0, 15), nullptr, 16));
  if (over_ranks(c, mine, Reduction::max) != mine || over_ranks(c, -mine, Reduction::max) != -mine)
    throw Error("[comm] rank {} was started with another plan than the others", c.rank());
  RankClock clock(c);
  Json hello = ping_pong(c);
  hello.update({{"what", "hello"}, {"nodes", c.nodes()}, {"library", entry.about}});
  if (c.rank() == 0) tell(hello);
  for (size_t g = 0; g < plan.groups.size(); ++g) GroupRun(c, entry, plan, g, clock, tell).run();
  const Json clocks = clock.describe();
  c.barrier();
  if (c.rank() == 0) tell({{"what", "done"}, {"clocks", clocks}});
}

}  // namespace d5
