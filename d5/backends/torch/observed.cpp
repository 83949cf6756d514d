// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/observed.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

namespace d5::libtorch {
namespace {

using torch::autograd::variable_list;

class BeforeFunction final : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeFunction(std::function<void()> call) : call_(std::move(call)) {}
  variable_list operator()(const variable_list& gradients) override {
    call_();
    return gradients;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

void BackwardEvents::watch(const std::vector<at::Tensor>& roots) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* function) {
    if (function && seen.insert(function).second) open.push_back(function);
  };
  for (const at::Tensor& root : roots) visit(root.grad_fn().get());
  while (!open.empty()) {
    torch::autograd::Node* function = open.back();
    open.pop_back();
    for (const auto& edge : function->next_edges()) visit(edge.function.get());
    if (function->name() == "torch::autograd::AccumulateGrad") continue;
    // The functions belong to the graph, which must not keep its own observer alive.
    function->add_pre_hook(
        std::make_unique<BeforeFunction>([events = weak_from_this(), number = function->sequence_nr()] {
          if (const auto alive = events.lock()) alive->enter(number);
        }));
  }
}

void BackwardEvents::watch_leaf(const at::Tensor& leaf, Gradient gradient, Keep keep) {
  const auto hook = [events = weak_from_this(), gradient, keep = std::move(keep)](const at::Tensor& result) {
    const auto alive = events.lock();
    if (!alive || !alive->observer_) return;
    keep(result, alive->add_);
    alive->observer_->gradient_ready(gradient);
  };
  leaves_.emplace_back(leaf, leaf.register_hook(hook));
}

BackwardEvents::~BackwardEvents() {
  for (const auto& [leaf, hook] : leaves_) leaf.remove_hook(hook);
}

void BackwardEvents::begin(Observer* observer, bool add) {
  observer_ = observer;
  add_ = add;
  current_ = nullptr;
}

void BackwardEvents::end() {
  leave();
  observer_ = nullptr;
}

void BackwardEvents::enter(uint64_t number) {
  if (!observer_) return;
  for (size_t n = 0; n < ranges_.size(); ++n) {
    if (number < ranges_[n].first || number >= ranges_[n].last) continue;
    if (current_ == &graph_.nodes[n]) return;
    leave();
    current_ = &graph_.nodes[n];
    observer_->node_begin(*current_, Pass::backward);
    return;
  }
}

void BackwardEvents::leave() {
  if (current_ && observer_) observer_->node_end(*current_, Pass::backward);
  current_ = nullptr;
}

}  // namespace d5::libtorch
