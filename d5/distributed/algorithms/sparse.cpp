// SPDX-License-Identifier: Apache-2.0
// Sparse streams (SparCML; Renggli et al., SC'19): vectors that are mostly zero travel as pairs of index and value, by
// recursive doubling. Where two streams together would be longer than the dense vector, what follows is dense.
//   allreduce   log2 n (2 alpha + 2 k d S beta)      for a density d: k is how much it grows as streams are merged, 1
//   to n
#include <algorithm>

#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/algorithms/power_of_two.hpp"

namespace d5 {
namespace {

template <class T>
class Stream {
 public:
  explicit Stream(int64_t length) : length_(length) {}

  void read(const T* dense) {
    for (int64_t i = 0; i < length_; ++i)
      if (dense[i] != T{0}) {
        index_.push_back(static_cast<uint32_t>(i));
        value_.push_back(dense[i]);
      }
    thin_out();
  }
  void write(T* dense) const {
    if (dense_) return void(std::copy(value_.begin(), value_.end(), dense));
    std::fill_n(dense, length_, T{0});
    for (size_t i = 0; i < index_.size(); ++i) dense[index_[i]] = value_[i];
  }

  void send(const Ranks& ranks, int to) const { swap(ranks, to, -1, nullptr); }
  void receive(const Ranks& ranks, int from) { Stream(length_).swap(ranks, -1, from, this); }
  void swap(const Ranks& ranks, int to, int from, Stream* theirs) const {
    // A negative number: dense. The length goes ahead, because it is not known on the other side.
    const int64_t out = dense_ ? -length_ - 1 : static_cast<int64_t>(index_.size());
    int64_t in = 0;
    Transfer sent, received;
    if (from >= 0) received = ranks.receive(from, &in, sizeof in);
    if (to >= 0) sent = ranks.send(to, &out, sizeof out);
    ranks.wait(received);
    ranks.wait(sent);
    Transfer sent_index, received_index;
    if (from >= 0) {
      theirs->dense_ = in < 0;
      theirs->value_.resize(static_cast<size_t>(in < 0 ? length_ : in));
      theirs->index_.resize(static_cast<size_t>(in < 0 ? 0 : in));
      received_index = ranks.receive(from, theirs->index_.data(), theirs->index_.size() * sizeof(uint32_t));
      received = ranks.receive(from, theirs->value_.data(), theirs->value_.size() * sizeof(T));
    }
    if (to >= 0) {
      sent_index = ranks.send(to, index_.data(), index_.size() * sizeof(uint32_t));
      sent = ranks.send(to, value_.data(), value_.size() * sizeof(T));
    }
    for (Transfer* transfer : {&received_index, &received, &sent_index, &sent}) ranks.wait(*transfer);
  }

  void add(const Operation& op, const Stream& other) {
    if (dense_ || other.dense_) {
      if (!dense_) become_dense();
      if (other.dense_) return combine(op, value_.data(), value_.data(), other.value_.data(), length_);
      for (size_t i = 0; i < other.index_.size(); ++i) value_[other.index_[i]] += other.value_[i];
      return;
    }
    Stream sum(length_);
    sum.index_.reserve(index_.size() + other.index_.size());
    sum.value_.reserve(index_.size() + other.index_.size());
    size_t a = 0, b = 0;
    while (a < index_.size() || b < other.index_.size()) {
      const bool from_a = b == other.index_.size() || (a < index_.size() && index_[a] <= other.index_[b]);
      const bool from_b = a == index_.size() || (b < other.index_.size() && other.index_[b] <= index_[a]);
      sum.index_.push_back(from_a ? index_[a] : other.index_[b]);
      sum.value_.push_back(from_a && from_b ? value_[a] + other.value_[b] : from_a ? value_[a] : other.value_[b]);
      a += from_a;
      b += from_b;
    }
    *this = std::move(sum);
    thin_out();
  }
  void finish_values(const Operation& op) { finish(op, value_.data(), static_cast<int64_t>(value_.size())); }

 private:
  void thin_out() {
    if (index_.size() * (sizeof(uint32_t) + sizeof(T)) >= static_cast<size_t>(length_) * sizeof(T)) become_dense();
  }
  void become_dense() {
    std::vector<T> all(static_cast<size_t>(length_));
    write(all.data());
    dense_ = true;
    value_ = std::move(all);
    index_.clear();
  }
  int64_t length_;
  bool dense_ = false;
  std::vector<uint32_t> index_;  // ascending
  std::vector<T> value_;         // as many; of a dense stream all
};

template <class T>
void allreduce(const Operation& op, const Ranks& ranks) {
  Stream<T> mine(op.count), theirs(op.count);
  mine.read(static_cast<const T*>(op.input));
  const Fold fold(ranks);
  const int rank = ranks.rank(), extra = ranks.size() - fold.size();
  if (fold.place() < 0) {
    mine.send(ranks, rank + 1);
    mine.receive(ranks, rank + 1);
    return mine.write(static_cast<T*>(op.output));
  }
  if (rank < 2 * extra) {
    theirs.receive(ranks, rank - 1);
    mine.add(op, theirs);
  }
  for (int bit = 1; bit < fold.size(); bit *= 2) {
    const int peer = fold.rank_of(fold.place() ^ bit);
    mine.swap(ranks, peer, peer, &theirs);
    mine.add(op, theirs);
  }
  mine.finish_values(op);
  if (rank < 2 * extra) mine.send(ranks, rank - 1);
  mine.write(static_cast<T*>(op.output));
}

class Sparse final : public Algorithm {
 public:
  std::string about() const override { return "index and value of what is not zero; dense where that is shorter"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks&) const override {
    if (op.collective != Collective::allreduce)
      return fmt::format("it has no {}; it has allreduce", name(op.collective));
    if (op.dtype != DType::f32 && op.dtype != DType::f64)
      return fmt::format("streams hold f32 or f64, not {}", name(op.dtype));
    if (op.reduction == Reduction::max) return "what is not sent counts as zero: there are sums and means alone";
    if (op.count > int64_t{1} << 32) return "indices of streams have 32 bits";
    return {};
  }
  void run(const Operation& op, const Ranks& ranks) const override {
    op.dtype == DType::f32 ? allreduce<float>(op, ranks) : allreduce<double>(op, ranks);
  }
};

}  // namespace
D5_REGISTER(algorithms, "sparse", Sparse);
}  // namespace d5
