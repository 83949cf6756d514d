// SPDX-License-Identifier: Apache-2.0
// SparCML (Renggli et al., SC'19): of every group of consecutive gradients the k of largest magnitude travel, as pairs
// of index and value; what stays behind is added to the next step's gradients (error feedback).
//   a_r = e_r + g_r      s_r = top_k(a_r)      e_r = a_r - s_r      g = 1/n sum_r s_r      p = update(p, g)
// Streams switch to dense where that is shorter (algorithms/sparse.cpp). Where the sum of all ranks is expected to be
// more than half full, 1 - (1 - share)^n >= 1/2, the dense reduction is taken at once.
#include <algorithm>
#include <cmath>

#include "d5/distributed/bucketed_scheme.hpp"
#include "d5/distributed/top_k.hpp"

namespace d5 {
namespace {

class Sparcml final : public BucketedScheme {
 public:
  static constexpr const char* about = "synchronous, the largest gradients travel, the rest is kept for later steps";
  static std::vector<Parameter> parameters() {
    return {bucket_parameter(),
            {"density", "share of the gradients that travel, at least one of a group", 0.01},
            {"group", "gradients of which the largest are chosen together", 512}};
  }

  Sparcml(const Attributes& values, Communicator* communicator)
      : BucketedScheme("sparcml", communicator, values),
        group_(integer_in(values, "group", 1, 1 << 20, place())),
        top_(real_in(values, "density", 1e-6, 1, place()), group_),
        share_(static_cast<double>(top_.chosen_of(static_cast<size_t>(group_))) / static_cast<double>(group_)),
        dense_(1 - std::pow(1 - share_, ranks()) >= 0.5) {}

  void begin_training(const TrainingStart& start) override {
    need_f32_gradients(start.parameters);
    BucketedScheme::begin_training(start);
    left_ = Tensor(DType::f32, {start.parameters.elements()});
    left_.fill_bytes(0);
  }
  void begin_step(Step& step) override {
    BucketedScheme::begin_step(step);
    // What is left of a step with another number of micro-batches counts as much as it did there.
    const double factor = step.moment().gradient_factor;
    rescale_ = static_cast<float>(factor_ / factor);
    factor_ = factor;
  }
  State state() override {
    State all = BucketedScheme::state();
    all.emplace_back("left over", left_);
    all.emplace_back("factor", Tensor::view(DType::f64, {1}, &factor_));
    return all;
  }

 protected:
  Request reduce(size_t, Range range, std::byte* bytes) override {
    const std::span gradients(reinterpret_cast<float*>(bytes), static_cast<size_t>(range.count));
    top_.split(gradients, left_.values<float>().subspan(static_cast<size_t>(range.first), gradients.size()), rescale_);
    return communicator().start({.collective = Collective::allreduce,
                                 .input = bytes,
                                 .output = bytes,
                                 .count = range.count,
                                 .reduction = Reduction::mean,
                                 .algorithm = dense_ ? std::string_view() : "sparse"});
  }
  // Pairs of 4 bytes and 4; at best all ranks choose the same ones.
  double least_bytes() const override {
    return dense_ ? dense_least_bytes() : std::min(dense_least_bytes(), 2.0 * share_ * dense_least_bytes());
  }

 private:
  int64_t group_;
  TopK top_;
  double share_;  // that travels: at least one of a group
  bool dense_;
  Tensor left_;
  double factor_ = 1;
  float rescale_ = 1;
};

}  // namespace
D5_REGISTER(schemes, "sparcml", Sparcml);
}  // namespace d5
