// SPDX-License-Identifier: Apache-2.0
// The events of a backward pass. The engine runs the functions of one forward pass from the last to the first, so the
// functions of a node lie side by side: a node begins when the first of its functions begins and ends when one of
// another node begins. Only an observed backward pays for this.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {

struct NodeRange {
  uint64_t first = 0, last = 0;  // sequence numbers of autograd's functions: [first, last)
};

class BackwardEvents : public std::enable_shared_from_this<BackwardEvents> {
 public:
  using Keep = std::function<void(const at::Tensor& gradient, bool add)>;

  BackwardEvents(const Graph& graph, std::vector<NodeRange> ranges) : graph_(graph), ranges_(std::move(ranges)) {}
  ~BackwardEvents();
  BackwardEvents(const BackwardEvents&) = delete;
  BackwardEvents& operator=(const BackwardEvents&) = delete;

  void watch(const std::vector<at::Tensor>& roots);                       // once per forward
  void watch_leaf(const at::Tensor& leaf, Gradient gradient, Keep keep);  // once per forward
  void begin(Observer*, bool add);
  void end();

 private:
  void enter(uint64_t sequence_number);
  void leave();

  const Graph& graph_;
  std::vector<NodeRange> ranges_;
  std::vector<std::pair<at::Tensor, unsigned>> leaves_;  // and their hooks
  Observer* observer_ = nullptr;
  bool add_ = false;
  const Node* current_ = nullptr;
};

}  // namespace d5::libtorch
