// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/transport.hpp"

#include <sched.h>

#include <chrono>

namespace d5 {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void check_peer(int peer, int ranks) {
  if (peer < 0 || peer >= ranks)
    throw UsageError("[communicator] rank {} does not exist; there are {} ranks, from 0", peer, ranks);
}

}  // namespace

Transfer Transport::send(int to, int tag, const void* data, size_t bytes) {
  check_peer(to, size());
  count(bytes);
  return start_send(to, tag, data, bytes);
}

Transfer Transport::receive(int from, int tag, void* data, size_t bytes) {
  check_peer(from, size());
  Transfer transfer = start_receive(from, tag, data, bytes);
  transfer.expected = static_cast<int64_t>(bytes);
  return transfer;
}

void Transport::count(size_t bytes) {
  bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  messages_.fetch_add(1, std::memory_order_relaxed);
}

void Transport::wait(Transfer& transfer) {
  constexpr int eager = 20, looks = 256;  // ranks often outnumber cores: who waits gives way soon
  double begin = 0;
  for (int turn = 0; !done(transfer); ++turn) {
    if (turn >= eager) sched_yield();
    if (turn % looks != looks - 1) continue;
    if (begin == 0) begin = now();
    if (now() - begin > limit_s_) {
      const int peer = abandon(transfer.peer);
      throw RankLost(peer, fmt::format("[communicator] rank {} waited {:.3g} s for rank {}, which is lost or hung",
                                       rank_, limit_s_, peer));
    }
  }
}

std::optional<std::string> Transport::why_no_library(const Operation&) const {
  return "this communicator has no library with collectives of its own";
}

std::unique_ptr<Transport> Transport::shrink() { throw Error("[communicator] {}", *why_no_shrink()); }

void Transport::run_library(const Operation& op) { throw Error("[communicator] {}", *why_no_library(op)); }

}  // namespace d5
