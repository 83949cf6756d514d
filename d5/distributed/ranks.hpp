// SPDX-License-Identifier: Apache-2.0
// Some ranks of a transport, numbered from 0 in an order of their own, as an algorithm sees them; and memory for it.
#pragma once

#include <algorithm>

#include "d5/distributed/transport.hpp"

namespace d5 {

class Scratch {
 public:
  // Kept from one operation to the next, so that a step that repeats allocates nothing.
  std::byte* bytes(size_t count) {
    if (count > size_) {
      data_.reset(new std::byte[count]);
      size_ = count;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

class Ranks {
 public:
  // `waiting`: how many wait for what is done here (Transport::wait).
  Ranks(Transport& transport, Scratch& scratch, int tag, const std::atomic<int>* waiting = nullptr)
      : transport_(transport), scratch_(scratch), tag_(tag), waiting_(waiting) {}
  // `members` are ranks of the transport, this one among them.
  Ranks(const Ranks& all, std::vector<int> members)
      : transport_(all.transport_),
        scratch_(all.scratch_),
        tag_(all.tag_),
        waiting_(all.waiting_),
        members_(std::move(members)) {
    rank_ = static_cast<int>(std::ranges::find(members_, transport_.rank()) - members_.begin());
  }

  int rank() const { return members_.empty() ? transport_.rank() : rank_; }
  int size() const { return members_.empty() ? transport_.size() : static_cast<int>(members_.size()); }
  Transport& transport() const { return transport_; }
  std::byte* scratch(size_t bytes) const { return scratch_.bytes(bytes); }

  Transfer send(int to, const void* data, size_t bytes) const { return transport_.send(of(to), tag_, data, bytes); }
  Transfer receive(int from, void* data, size_t bytes) const { return transport_.receive(of(from), tag_, data, bytes); }
  void wait(Transfer& transfer) const { transport_.wait(transfer, waiting_); }
  void send_now(int to, const void* data, size_t bytes) const {
    Transfer sent = send(to, data, bytes);
    wait(sent);
  }
  void receive_now(int from, void* data, size_t bytes) const {
    Transfer received = receive(from, data, bytes);
    wait(received);
  }
  void exchange(int to, const void* data, size_t bytes, int from, void* into, size_t into_bytes) const {
    Transfer received = receive(from, into, into_bytes), sent = send(to, data, bytes);
    wait(received);
    wait(sent);
  }

 private:
  int of(int member) const { return members_.empty() ? member : members_[static_cast<size_t>(member)]; }
  Transport& transport_;
  Scratch& scratch_;
  int tag_;
  const std::atomic<int>* waiting_;
  std::vector<int> members_ = {};
  int rank_ = 0;
};

}  // namespace d5
