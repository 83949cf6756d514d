// SPDX-License-Identifier: Apache-2.0
// Binomial tree: ranks are numbered from the root; the parent of p is p without its lowest set bit.
//   broadcast, reduce   log2 n (alpha + S beta)      allreduce: the one after the other
//   gather, scatter     log2 n alpha + (n - 1)/n S beta      a subtree's blocks travel together
#include <cstring>

#include "d5/distributed/algorithm.hpp"

namespace d5 {
namespace {

int top_bit(int n) {  // the smallest power of two that is not below n
  int bit = 1;
  while (bit < n) bit *= 2;
  return bit;
}

class Place {
 public:
  Place(const Ranks& ranks, int root) : n_(ranks.size()), root_(root), place_((ranks.rank() - root + n_) % n_) {}
  int place() const { return place_; }
  int rank_of(int place) const { return (place + root_) % n_; }
  int parent() const { return rank_of(place_ & (place_ - 1)); }
  // Of a child at distance `bit`: how many ranks are below it, itself included.
  int family(int bit) const { return std::min(bit, n_ - (place_ + bit)); }
  int own_bit() const { return place_ == 0 ? top_bit(n_) : place_ & -place_; }  // children are at smaller bits

 private:
  int n_, root_, place_;
};

void broadcast(const Operation& op, const Ranks& ranks) {
  const Place tree(ranks, op.root);
  const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  if (tree.place() > 0)
    ranks.receive_now(tree.parent(), op.output, bytes);
  else if (op.input != op.output && bytes > 0)
    std::memcpy(op.output, op.input, bytes);
  for (int bit = tree.own_bit() / 2; bit > 0; bit /= 2)
    if (tree.place() + bit < ranks.size()) ranks.send_now(tree.rank_of(tree.place() + bit), op.output, bytes);
}

// `sums`: where a rank that is no root adds up; may be the input of a reduce in place.
void reduce(const Operation& op, const Ranks& ranks, void* sums) {
  const Place tree(ranks, op.root);
  const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  const void* have = op.input;
  for (int bit = 1; bit < tree.own_bit(); bit *= 2) {
    if (tree.place() + bit >= ranks.size()) break;
    std::byte* const theirs = ranks.scratch(bytes);
    ranks.receive_now(tree.rank_of(tree.place() + bit), theirs, bytes);
    combine(op, sums, have, theirs, op.count);
    have = sums;
  }
  if (tree.place() > 0) ranks.send_now(tree.parent(), have, bytes);
}

void gather(const Operation& op, const Ranks& ranks) {
  const Place tree(ranks, op.root);
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  const int below = tree.place() == 0 ? ranks.size() : std::min(tree.own_bit(), ranks.size() - tree.place());
  std::byte* const blocks = ranks.scratch(block * static_cast<size_t>(below));  // in the order of places
  if (block > 0) std::memcpy(blocks, op.input, block);
  for (int bit = 1; bit < tree.own_bit() && tree.place() + bit < ranks.size(); bit *= 2)
    ranks.receive_now(tree.rank_of(tree.place() + bit), blocks + block * static_cast<size_t>(bit),
                      block * static_cast<size_t>(tree.family(bit)));
  if (tree.place() > 0) return ranks.send_now(tree.parent(), blocks, block * static_cast<size_t>(below));
  for (int place = 0; place < ranks.size() && block > 0; ++place)
    std::memcpy(static_cast<std::byte*>(op.output) + block * static_cast<size_t>(tree.rank_of(place)),
                blocks + block * static_cast<size_t>(place), block);
}

void scatter(const Operation& op, const Ranks& ranks) {
  const Place tree(ranks, op.root);
  const auto block = static_cast<size_t>(storage_bytes(op.dtype, op.count));
  const int below = tree.place() == 0 ? ranks.size() : std::min(tree.own_bit(), ranks.size() - tree.place());
  std::byte* const blocks = ranks.scratch(block * static_cast<size_t>(below));
  if (tree.place() > 0) {
    ranks.receive_now(tree.parent(), blocks, block * static_cast<size_t>(below));
  } else {
    for (int place = 0; place < ranks.size() && block > 0; ++place)
      std::memcpy(blocks + block * static_cast<size_t>(place),
                  static_cast<const std::byte*>(op.input) + block * static_cast<size_t>(tree.rank_of(place)), block);
  }
  for (int bit = tree.own_bit() / 2; bit > 0; bit /= 2)
    if (tree.place() + bit < ranks.size())
      ranks.send_now(tree.rank_of(tree.place() + bit), blocks + block * static_cast<size_t>(bit),
                     block * static_cast<size_t>(tree.family(bit)));
  if (block > 0) std::memcpy(op.output, blocks, block);
}

class Tree final : public Algorithm {
 public:
  std::string about() const override { return "a binomial tree from or to the root"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    switch (op.collective) {
      case Collective::allreduce:
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::gather:
      case Collective::scatter: return {};
      default:
        return fmt::format("it has no {}; it has allreduce, broadcast, reduce, gather, scatter", name(op.collective));
    }
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    switch (op.collective) {
      case Collective::broadcast: return broadcast(op, ranks);
      case Collective::gather: return gather(op, ranks);
      case Collective::scatter: return scatter(op, ranks);
      case Collective::reduce: return reduce_to_root(op, ranks);
      default: break;
    }
    Operation half = op;
    half.root = 0;
    reduce(half, ranks, op.output);
    if (ranks.rank() == 0) finish(op, op.output, op.count);
    half.input = op.output;
    broadcast(half, ranks);
  }

 private:
  // Only the root's output is promised to be there.
  static void reduce_to_root(const Operation& op, const Ranks& ranks) {
    if (ranks.rank() == op.root) {
      reduce(op, ranks, op.output);
      finish(op, op.output, op.count);
      return;
    }
    const std::unique_ptr<std::byte[]> sums(new std::byte[static_cast<size_t>(storage_bytes(op.dtype, op.count))]);
    reduce(op, ranks, sums.get());
  }
};

}  // namespace
D5_REGISTER(algorithms, "tree", Tree);
}  // namespace d5
