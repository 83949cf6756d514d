// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/communicators/threads.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

namespace d5 {
namespace {

constexpr int setup_tag = 0;

// What became of one transfer; whoever comes second to the mailbox copies.
struct State {
  bool differs = false;
  size_t sent = 0, expected = 0;
};
struct SharedState : State {
  std::atomic<bool> done{false};
};

struct Post {
  int source, tag, owner;  // owner: who waits for it
  std::byte* data;
  size_t bytes;
  SharedState* state;
};

struct Mailbox {
  std::mutex mutex;
  std::deque<Post> sends, receives;  // to its rank, by its rank
};

struct World {
  explicit World(std::vector<int> nodes)
      : nodes(std::move(nodes)),
        mailboxes(this->nodes.size()),
        gone(this->nodes.size()),
        waits_for(this->nodes.size()) {
    for (auto& who : gone) who = -1;
    for (auto& who : waits_for) who = -1;
  }
  std::vector<int> nodes;
  std::vector<Mailbox> mailboxes;
  std::vector<std::atomic<int>> gone;       // -1: it is there; else for whom it gave up, itself where it just ended
  std::vector<std::atomic<int>> waits_for;  // -1: for nobody
  std::mutex windows;
  // Those that are left meet here; the first that sees all of them makes their world.
  std::mutex meeting;
  std::vector<int> came;
  std::shared_ptr<World> smaller;

  // The end of a chain of ranks of which each waits for the next.
  int culprit(int rank) const {
    for (size_t hops = 0; hops < waits_for.size(); ++hops) {
      const int next = waits_for[static_cast<size_t>(rank)];
      if (next < 0) break;
      rank = next;
    }
    return rank;
  }
  int cause(int rank) const {
    for (size_t hops = 0; hops < gone.size(); ++hops) {
      const int next = gone[static_cast<size_t>(rank)];
      if (next < 0 || next == rank) break;
      rank = next;
    }
    return rank;
  }
};

void deliver(const Post& send, const Post& receive) {
  const bool differs = send.bytes != receive.bytes;
  if (!differs && send.bytes > 0) std::memcpy(receive.data, send.data, send.bytes);
  for (SharedState* state : {send.state, receive.state}) {
    static_cast<State&>(*state) = {differs, send.bytes, receive.bytes};
    state->done.store(true, std::memory_order_release);
  }
}

class ThreadTransport;
class ThreadWindow final : public Window {
 public:
  ThreadWindow(ThreadTransport& transport, std::shared_ptr<World> world, std::vector<std::pair<std::byte*, size_t>> all)
      : transport_(transport), world_(std::move(world)), all_(std::move(all)) {}
  void put(int rank, size_t offset, const void* from, size_t bytes) override;
  void get(int rank, size_t offset, void* to, size_t bytes) override;
  void complete() override {}

 private:
  std::byte* at(int rank, size_t offset, size_t bytes) const {
    const auto& [data, size] = all_.at(static_cast<size_t>(rank));
    if (offset > size || bytes > size - offset)
      throw Error("[communicator] bytes {} to {} are outside of the window of rank {}, which has {}", offset,
                  offset + bytes, rank, size);
    return data + offset;
  }
  ThreadTransport& transport_;
  std::shared_ptr<World> world_;
  std::vector<std::pair<std::byte*, size_t>> all_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<World> world, int rank) : Transport(rank, world->nodes), world_(std::move(world)) {}
  ~ThreadTransport() override { leave(rank()); }

  bool done(Transfer& transfer) override {
    if (transfer.handle == 0) return true;
    auto* const state = reinterpret_cast<SharedState*>(transfer.handle);
    if (!state->done.load(std::memory_order_acquire)) {
      if (world_->gone[static_cast<size_t>(transfer.peer)] < 0) {
        world_->waits_for[static_cast<size_t>(rank())].store(transfer.peer, std::memory_order_relaxed);
        return false;
      }
      // It may have been delivered just before the peer went.
      if (!state->done.load(std::memory_order_acquire)) {
        const int peer = world_->cause(transfer.peer);
        leave(peer);
        throw RankLost(peer, fmt::format("[communicator] rank {} is lost; rank {} was waiting for it", peer, rank()));
      }
    }
    transfer.handle = 0;
    world_->waits_for[static_cast<size_t>(rank())].store(-1, std::memory_order_relaxed);
    const State ended = take_back(state);
    if (ended.differs)
      throw Error(
          "[communicator] {} bytes were sent between rank {} and rank {} where {} are expected: do all ranks run "
          "the same program?",
          ended.sent, rank(), transfer.peer, ended.expected);
    return true;
  }

  std::unique_ptr<Transport> split(int colour, int key) override {
    struct Wish {
      int colour, key, rank;
    };
    const std::vector<Wish> wishes = tell_all(Wish{colour, key, rank()});
    std::vector<Wish> group;
    for (const Wish& wish : wishes)
      if (wish.colour == colour) group.push_back(wish);
    std::ranges::sort(group,
                      [](const Wish& a, const Wish& b) { return std::pair(a.key, a.rank) < std::pair(b.key, b.rank); });
    // The first of a group makes its world; the pointer is a message, because all are in one process.
    std::shared_ptr<World> part;
    if (colour >= 0 && group.front().rank == rank()) {
      std::vector<int> members;
      for (const Wish& wish : group) members.push_back(wish.rank);
      part = std::make_shared<World>(nodes_among(members));
    }
    const std::vector<std::shared_ptr<World>*> made = tell_all(&part);
    const std::shared_ptr<World> joined = colour < 0 ? nullptr : *made[static_cast<size_t>(group.front().rank)];
    tell_all(0);  // nobody leaves while another reads its pointer
    if (colour < 0) return nullptr;
    const auto place = std::ranges::find(group, rank(), &Wish::rank) - group.begin();
    return std::make_unique<ThreadTransport>(joined, static_cast<int>(place));
  }

  std::unique_ptr<Window> expose(void* data, size_t bytes) override {
    return std::make_unique<ThreadWindow>(*this, world_, tell_all(std::pair(static_cast<std::byte*>(data), bytes)));
  }

  int abandon(int peer) override {
    const int lost = world_->culprit(peer);
    leave(lost);
    return lost;
  }
  std::optional<std::string> why_no_shrink() const override { return {}; }
  std::unique_ptr<Transport> shrink() override {
    leave((rank() + 1) % size());  // whoever still waits for this rank hears of it
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(time_limit());
    bool counted = false;
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      const std::scoped_lock lock(world_->meeting);
      std::vector<int>& came = world_->came;
      if (!counted && !world_->smaller) came.push_back(rank());
      counted = true;
      const auto is_there = [&](int other) {
        return std::ranges::find(came, other) != came.end() || world_->gone[static_cast<size_t>(other)] == other;
      };
      bool all = true;
      for (int other = 0; other < size(); ++other) all = all && is_there(other);
      if (!world_->smaller && (all || std::chrono::steady_clock::now() > limit)) {
        std::ranges::sort(came);
        world_->smaller = std::make_shared<World>(nodes_among(came));
      }
      if (!world_->smaller) continue;
      const auto place = std::ranges::find(came, rank()) - came.begin();
      if (place == static_cast<std::ptrdiff_t>(came.size()))
        throw RankLost(rank(), fmt::format("[communicator] rank {} came too late: the others went on", rank()));
      return std::make_unique<ThreadTransport>(world_->smaller, static_cast<int>(place));
    }
  }
  using Transport::count;

 protected:
  Transfer start_send(int to, int tag, const void* data, size_t bytes) override {
    SharedState* const state = new_state();
    Post post{rank(), tag, rank(), const_cast<std::byte*>(static_cast<const std::byte*>(data)), bytes, state};
    Mailbox& box = world_->mailboxes[static_cast<size_t>(to)];
    const std::scoped_lock lock(box.mutex);
    if (const auto match = matching(box.receives, post); match != box.receives.end()) {
      deliver(post, *match);
      box.receives.erase(match);
    } else {
      box.sends.push_back(post);
    }
    return {reinterpret_cast<uintptr_t>(state), to};
  }

  Transfer start_receive(int from, int tag, void* data, size_t bytes) override {
    SharedState* const state = new_state();
    Post post{from, tag, rank(), static_cast<std::byte*>(data), bytes, state};
    Mailbox& box = world_->mailboxes[static_cast<size_t>(rank())];
    const std::scoped_lock lock(box.mutex);
    if (const auto match = matching(box.sends, post); match != box.sends.end()) {
      deliver(*match, post);
      box.sends.erase(match);
    } else {
      box.receives.push_back(post);
    }
    return {reinterpret_cast<uintptr_t>(state), from};
  }

 private:
  // The machines of some ranks, numbered anew.
  std::vector<int> nodes_among(const std::vector<int>& members) const {
    std::vector<int> nodes, numbers(world_->nodes.size(), -1);
    int next = 0;
    for (const int member : members) {
      int& number = numbers[static_cast<size_t>(world_->nodes[static_cast<size_t>(member)])];
      if (number < 0) number = next++;
      nodes.push_back(number);
    }
    return nodes;
  }
  static std::deque<Post>::iterator matching(std::deque<Post>& posts, const Post& other) {
    return std::ranges::find_if(posts, [&](const Post& p) { return p.source == other.source && p.tag == other.tag; });
  }

  SharedState* new_state() {
    const std::scoped_lock lock(states_mutex_);
    if (free_states_.empty()) {
      states_.push_back(std::make_unique<SharedState>());
      return states_.back().get();
    }
    SharedState* const state = free_states_.back();
    free_states_.pop_back();
    return state;
  }
  State take_back(SharedState* state) {
    const State ended = *state;
    state->done.store(false, std::memory_order_relaxed);
    const std::scoped_lock lock(states_mutex_);
    free_states_.push_back(state);
    return ended;
  }

  // Nobody delivers to this rank any more, also what another of its threads posted after it had left before.
  void leave(int lost) {
    int there = -1;
    world_->gone[static_cast<size_t>(rank())].compare_exchange_strong(there, lost);
    for (Mailbox& box : world_->mailboxes) {
      const std::scoped_lock lock(box.mutex);
      for (auto* posts : {&box.sends, &box.receives})
        std::erase_if(*posts, [&](const Post& post) { return post.owner == rank(); });
    }
  }

  template <class T>
  std::vector<T> tell_all(const T& mine) {
    std::vector<T> all(static_cast<size_t>(size()));
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < size(); ++peer) {
      transfers.push_back(start_receive(peer, setup_tag, &all[static_cast<size_t>(peer)], sizeof(T)));
      transfers.push_back(start_send(peer, setup_tag, &mine, sizeof(T)));
    }
    for (Transfer& transfer : transfers) wait(transfer);
    return all;
  }

  std::shared_ptr<World> world_;
  std::mutex states_mutex_;
  std::vector<std::unique_ptr<SharedState>> states_;  // of those that were abandoned nobody knows any more
  std::vector<SharedState*> free_states_;
};

void ThreadWindow::put(int rank, size_t offset, const void* from, size_t bytes) {
  std::byte* const target = at(rank, offset, bytes);
  transport_.count(bytes);
  const std::scoped_lock lock(world_->windows);
  std::memcpy(target, from, bytes);
}

void ThreadWindow::get(int rank, size_t offset, void* to, size_t bytes) {
  const std::byte* const source = at(rank, offset, bytes);
  transport_.count(bytes);
  const std::scoped_lock lock(world_->windows);
  std::memcpy(to, source, bytes);
}

struct Threads {
  static communicators::Entry entry() { return {.about = "ranks are threads of one process"}; }
};

}  // namespace

std::vector<std::shared_ptr<Transport>> thread_transports(int n, int per_node) {
  if (n < 1) throw UsageError("[communicator] {} ranks; there is at least 1", n);
  std::vector<int> nodes;
  for (int rank = 0; rank < n; ++rank) nodes.push_back(per_node > 0 ? rank / per_node : 0);
  const auto world = std::make_shared<World>(std::move(nodes));
  std::vector<std::shared_ptr<Transport>> all;
  for (int rank = 0; rank < n; ++rank) all.push_back(std::make_shared<ThreadTransport>(world, rank));
  return all;
}

void run_ranks(const ThreadRanks& options, const std::function<void(Communicator&)>& body) {
  auto transports = thread_transports(options.ranks, options.per_node);
  std::mutex mutex;
  std::exception_ptr first, first_lost;
  bool any_ended = false;
  std::vector<std::thread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&, own = std::move(transport)]() mutable {
      own->set_time_limit(options.time_limit_s);
      try {
        Communicator communicator(std::move(own));
        body(communicator);
        const std::scoped_lock lock(mutex);
        any_ended = true;
      } catch (const RankLost&) {
        const std::scoped_lock lock(mutex);
        if (!first_lost) first_lost = std::current_exception();
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (options.elastic && any_ended) return;
  if (first) std::rethrow_exception(first);
  if (first_lost) std::rethrow_exception(first_lost);
}

D5_REGISTER(communicators, "threads", Threads);

}  // namespace d5
