// SPDX-License-Identifier: Apache-2.0
// Losses against class labels (SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss, CrossEntropy; the formulas are in
// d5/operators/class_loss.hpp). With a softmax one walk over the scores finds the maximum and the sum of exponentials
// of each label's scores, another one makes the gradient; the rest is work for each label.
#include <cmath>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"

namespace d5::onednn::own {
namespace {

class ClassLossKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    for (size_t i = 0; i < setup.inputs.size(); ++i)
      if (i != 1)
        if (auto reason = wrong_type(setup.inputs[i])) return reason;
    if (setup.wants_gradient.size() > 2 && setup.wants_gradient[2]) return "weights have no gradient";
    if (setup.inputs[0].elements() == 0) return "its kernel wants at least one score";
    return {};
  }

  void build(const KernelSetup& setup) override {
    const std::string& op = setup.node.op;
    memory_.backward_outputs.emplace();
    softmax_ = op == "SoftmaxCrossEntropyLoss";
    logarithm_ = op == "CrossEntropy";
    const Shape& x = setup.inputs[0].shape;
    classes_ = x[1];
    inner_ = x.elements(2, x.rank());
    labels_ = x[0] * inner_;
    type_ = setup.inputs[0].dtype;
    wide_labels_ = setup.inputs[1].dtype == DType::i64;
    has_weights_ = setup.inputs.size() > 2 && setup.inputs[2].present;
    const std::string reduction = setup.node.attributes.text("reduction", "mean");
    none_ = reduction == "none";
    mean_ = reduction == "mean";
    ignored_.reset();
    if (setup.node.attributes.has("ignore_index")) ignored_ = setup.node.attributes.integer("ignore_index", 0);
    elements_ = x.elements();
    parts_ = threads();
    need_scratch(sizeof(Totals) * static_cast<size_t>(parts_));
    if (softmax_) build_softmax(setup);
  }

  void run(Pass pass, const Buffers& b) override { pass == Pass::forward ? forward_pass(b) : backward_pass(b); }

 private:
  struct alignas(alignment_bytes) Totals {
    float loss, weight;
  };

  void build_softmax(const KernelSetup& setup) {
    const Shape& x = setup.inputs[0].shape;
    std::vector<Index> sizes = x.sizes();
    sizes[1] = 1;
    const auto kept = [&] {
      return Operand{Part::workspace, need_workspace(sizeof(float) * static_cast<size_t>(labels_)), DType::f32,
                     Shape(sizes)};
    };
    top_ = kept();
    sum_ = kept();
    share_ = kept();
    statistics_.emplace(x);
    statistics_->reduce(top_, {{nullptr, {statistics_->read(input(setup, 0))}}}, Reduce::log_sum_exp,
                        {.keep_second = sum_});
    add(*statistics_);
    gives_z_ = setup.outputs.size() > 1 && setup.outputs[1].present;
    if (gives_z_) {
      z_.emplace(x);
      z_->write(output(setup, 1),
                {{functions("Log").value, {z_->read(sum_)}},
                 {functions("log softmax").value, {z_->read(input(setup, 0)), z_->read(top_), Link::previous}}});
      add(*z_);
    }
    if (!setup.wants_gradient[0]) return;
    for (const bool with_z : {false, true}) {
      if (with_z && !gives_z_) break;
      Traversal& walk = gradient_[with_z].emplace(x);
      std::vector<size_t> sources{walk.read(input(setup, 0)), walk.read(top_), walk.read(sum_), walk.read(share_)};
      std::vector<Link> chain{{functions("minus softmax").value, sources}};
      if (with_z) chain.push_back({functions("Add").value, {Link::previous, walk.read(output_gradient(setup, 1))}});
      walk.write(input_gradient(setup, 0), chain);
      add(walk);
    }
    if (!gives_z_) return;
    z_sum_.emplace(x);
    z_sum_->reduce(share_, {{nullptr, {z_sum_->read(output_gradient(setup, 1))}}}, Reduce::sum, {});
    add(*z_sum_);
  }

  void add(Traversal& walk) {
    walk.prepare();
    need_scratch(walk.scratch_bytes());
  }

  float* kept(const Buffers& b, const Operand& operand) const { return static_cast<float*>(operand.data(b)); }

  // f(label's number, place of its score, weight) for the labels that count, of [first, last).
  template <class F>
  void for_each_label(const Buffers& b, Index first, Index last, const F& f) const {
    for (Index n = first; n < last; ++n) {
      const Index label =
          wide_labels_ ? static_cast<const int64_t*>(b.inputs[1])[n] : static_cast<const int32_t*>(b.inputs[1])[n];
      if (label == ignored_) continue;
      if (label < 0 || label >= classes_)
        throw Error("[onednn] label {} is {}; 0 to {} are legal", n, label, classes_ - 1);
      f(n, (n / inner_ * classes_ + label) * inner_ + n % inner_,
        has_weights_ ? load_one(type_, b.inputs[2], label) : 1.0f);
    }
  }

  int label_parts() const { return labels_ < 4096 ? 1 : parts_; }

  // The logarithm of the probability at this place.
  float z_at(const Buffers& b, Index n, Index at) const {
    const float x = load_one(type_, b.inputs[0], at);
    if (softmax_) return (x - kept(b, top_)[n]) - std::log(kept(b, sum_)[n]);
    return logarithm_ ? std::log(x) : x;
  }

  Totals totals(const Buffers& b, bool losses) const {
    auto* all = static_cast<Totals*>(b.scratch);
    for_each_part(label_parts(), labels_, [&](int part, Index first, Index last) {
      Totals sums{};
      for_each_label(b, first, last, [&](Index n, Index at, float weight) {
        if (losses) sums.loss -= weight * z_at(b, n, at);
        sums.weight += weight;
      });
      all[part] = sums;
    });
    for (int part = 1; part < label_parts(); ++part) {
      all[0].loss += all[part].loss;
      all[0].weight += all[part].weight;
    }
    return all[0];
  }

  void forward_pass(const Buffers& b) const {
    if (softmax_) statistics_->run(b);
    if (none_) {
      zero_bytes(parts_, b.outputs[0], labels_ * tile_type_bytes(type_));
      for_each_part(label_parts(), labels_, [&](int, Index first, Index last) {
        for_each_label(b, first, last, [&](Index n, Index at, float weight) {
          const float loss = -weight * z_at(b, n, at);
          store(type_, b.outputs[0], n, &loss, 1);
        });
      });
    } else {
      const Totals sums = totals(b, true);
      const float loss = mean_ ? sums.loss / sums.weight : sums.loss;
      store(type_, b.outputs[0], 0, &loss, 1);
    }
    if (gives_z_) z_->run(b);
  }

  void backward_pass(const Buffers& b) const {
    const void* dy = b.output_gradients[0];
    const bool with_z = gives_z_ && b.output_gradients[1];
    const float share = mean_ && dy ? 1.0f / totals(b, false).weight : 1.0f;
    const auto dz_of = [&](Index n, float weight) {
      return dy ? -weight * share * load_one(type_, dy, none_ ? n : 0) : 0.0f;
    };
    if (softmax_) {
      // The sum of dz over the classes: of the label alone, and of the gradient of z itself.
      if (with_z)
        z_sum_->run(b);
      else
        zero_bytes(parts_, kept(b, share_), labels_ * static_cast<Index>(sizeof(float)));
      for_each_label_part(b, [&](Index n, Index, float weight) { kept(b, share_)[n] += dz_of(n, weight); });
      gradient_[with_z]->run(b);
    } else {
      zero_bytes(parts_, b.input_gradients[0], elements_ * tile_type_bytes(type_));
    }
    for_each_label_part(b, [&](Index n, Index at, float weight) {
      float dx = dz_of(n, weight);
      if (logarithm_) dx /= load_one(type_, b.inputs[0], at);
      if (softmax_) {
        dx -= std::exp(load_one(type_, b.inputs[0], at) - kept(b, top_)[n]) / kept(b, sum_)[n] * kept(b, share_)[n];
        if (with_z) dx += load_one(type_, b.output_gradients[1], at);
      }
      store(type_, b.input_gradients[0], at, &dx, 1);
    });
  }

  template <class F>
  void for_each_label_part(const Buffers& b, const F& f) const {
    for_each_part(label_parts(), labels_, [&](int, Index first, Index last) { for_each_label(b, first, last, f); });
  }

  bool softmax_ = false, logarithm_ = false, wide_labels_ = true, has_weights_ = false, none_ = false, mean_ = true;
  bool gives_z_ = false;
  Index classes_ = 1, inner_ = 1, labels_ = 1, elements_ = 0;
  DType type_ = DType::f32;
  std::optional<int64_t> ignored_;
  int parts_ = 1;
  Operand top_, sum_, share_;  // of each label, in the workspace
  std::optional<Traversal> statistics_, z_, gradient_[2], z_sum_;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "SoftmaxCrossEntropyLoss", "builtin", ClassLossKernel);
D5_REGISTER_KERNEL(onednn, "NegativeLogLikelihoodLoss", "builtin", ClassLossKernel);
D5_REGISTER_KERNEL(onednn, "CrossEntropy", "builtin", ClassLossKernel);
}  // namespace d5::onednn::own
