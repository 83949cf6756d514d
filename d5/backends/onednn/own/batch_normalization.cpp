// SPDX-License-Identifier: Apache-2.0
// BatchNormalization of f32 with channels last, with the Relu, the sum of a residual block, or both, that follow it
// (d5/operators/batch_normalization.cpp has the formulas). In training forward reads x twice and backward reads x and
// dy twice; where y was positive is found again from x, or from y where something was added.
#include "d5/backends/onednn/own/batch_normalization.hpp"

#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/channel_loops.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

enum InputName { X, scale, shift, mean, variance };

class BatchNormalizationKernel final : public OwnKernel {
 public:
  std::string implementation() const override { return std::string("own:") + loops().isa + " channels last"; }

 protected:
  bool follows_orders() const override { return true; }
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (const auto reason = why_not_channels_last(setup)) return reason;
    return {};
  }

  void build(const KernelSetup& setup) override {
    const Attributes& a = setup.node.attributes;
    const Shape& shape = setup.inputs[X].shape;  // as it lies
    channels_ = setup.inputs[scale].elements();
    rows_ = shape.elements() / channels_;
    batch_statistics_ = a.flag("training_mode", false);
    epsilon_ = static_cast<float>(a.real("epsilon", 1e-5));
    momentum_ = static_cast<float>(a.real("momentum", 0.9));
    relu_ = !setup.followers.empty() && setup.followers.back().node.op == "Relu";
    added_ = added_input(setup);
    wants_ = setup.wants_gradient;
    parts_ = threads();
    chunk_ = std::max<Index>(32, (1 << 15) / channels_);
    outputs_ = setup.outputs;

    kept_ = need_workspace(3 * row_bytes());  // mean, 1 / s, scale / s
    ScratchPlan all;
    origin_ = all.take(row_bytes());
    a_ = all.take(row_bytes());
    b_ = all.take(row_bytes());
    first_part_ = all.bytes();
    ScratchPlan part;
    totals_ = part.take(4 * row_bytes());  // two rows of doubles
    partial_ = part.take_floats(2 * ChannelLoops::most_channels);
    part_bytes_ = part.bytes();
    need_scratch(first_part_ + part_bytes_ * static_cast<size_t>(parts_));
    answer(setup);
  }

  void run(Pass pass, const Buffers& b) override { pass == Pass::forward ? forward_pass(b) : backward_pass(b); }

 private:
  static std::optional<size_t> added_input(const KernelSetup& setup) {
    for (const Follower& follower : setup.followers)
      if (follower.node.op == "Add")
        return follower.inputs[0] == Follower::result ? follower.inputs[1] : follower.inputs[0];
    return {};
  }

  void answer(const KernelSetup& setup) {
    const size_t n = setup.inputs.size();
    const bool any = std::ranges::find(wants_, true) != wants_.end();
    memory_.backward_inputs = std::vector<bool>{any, any, any};
    memory_.backward_outputs = std::vector<bool>{relu_ && added_.has_value()};
    memory_.in_place.assign(n, false);
    memory_.in_place[X] = true;
    memory_.gradient_in_place.assign(n, false);
    memory_.passes_gradient.assign(n, false);
    memory_.most_contributions = std::clamp<size_t>(setup.contributions, 1, ChannelLoops::most_summands);
    stores_slopes_ = false;
    if (added_) {
      memory_.in_place[*added_] = true;
      memory_.passes_gradient[*added_] = !relu_ && wants_[*added_];
      stores_slopes_ = relu_ && wants_[*added_];
    }
    memory_.gradient_in_place[stores_slopes_ ? *added_ : size_t{X}] = true;
  }

  size_t row_bytes() const { return aligned_bytes(static_cast<size_t>(channels_) * sizeof(float)); }
  float* kept(const Buffers& b, int i) const {
    return floats(b.workspace, kept_ + static_cast<size_t>(i) * row_bytes());
  }
  const float* row(const Buffers& b, size_t input) const { return static_cast<const float*>(b.inputs[input]); }
  char* scratch(const Buffers& b, int part) const {
    return static_cast<char*>(b.scratch) + first_part_ + part_bytes_ * static_cast<size_t>(part);
  }
  double* totals(const Buffers& b, int part, int i) const {
    return reinterpret_cast<double*>(scratch(b, part) + totals_ + 2 * static_cast<size_t>(i) * row_bytes());
  }

  // f(channel rows, element offset, channel) for blocks of rows and channels.
  template <class F>
  void for_each_block(Index first, Index last, const F& f) const {
    for (Index row = first; row < last; row += chunk_)
      for (Index c = 0; c < channels_; c += ChannelLoops::most_channels)
        f(ChannelRows{std::min(chunk_, last - row), channels_, std::min(ChannelLoops::most_channels, channels_ - c)},
          row * channels_ + c, c);
  }

  // Two sums for each channel: g(rows, offset, channel, first, second) adds those of a block.
  template <class G>
  void sum_channels(const Buffers& b, const G& g) const {
    for_each_part(parts_, rows_, [&](int part, Index first, Index last) {
      double *one = totals(b, part, 0), *two = totals(b, part, 1);
      std::fill_n(one, channels_, 0.0);
      std::fill_n(two, channels_, 0.0);
      float* partial = floats(scratch(b, part), partial_);
      for_each_block(first, last, [&](ChannelRows rows, Index offset, Index c) {
        std::fill_n(partial, 2 * ChannelLoops::most_channels, 0.0f);
        g(rows, offset, c, partial, partial + ChannelLoops::most_channels);
        for (Index i = 0; i < rows.n; ++i) {
          one[c + i] += partial[i];
          two[c + i] += partial[ChannelLoops::most_channels + i];
        }
      });
    });
    for (int part = 1; part < parts_; ++part)
      for (const int i : {0, 1})
        for (Index c = 0; c < channels_; ++c) totals(b, 0, i)[c] += totals(b, part, i)[c];
  }

  void forward_pass(const Buffers& b) const {
    float *of_mean = kept(b, 0), *of_rstd = kept(b, 1), *of_factor = kept(b, 2);
    if (batch_statistics_)
      find_statistics(b);
    else
      for (Index c = 0; c < channels_; ++c) {
        of_mean[c] = row(b, mean)[c];
        of_rstd[c] = 1.0f / std::sqrt(row(b, variance)[c] + epsilon_);
      }
    for (Index c = 0; c < channels_; ++c) of_factor[c] = row(b, scale)[c] * of_rstd[c];
    const auto* more = added_ ? static_cast<const float*>(b.inputs[*added_]) : nullptr;
    for_each_part(parts_, rows_, [&](int, Index first, Index last) {
      for_each_block(first, last, [&](ChannelRows rows, Index offset, Index c) {
        loops().channels->normalize(rows, static_cast<float*>(b.outputs[0]) + offset, row(b, X) + offset,
                                    more ? more + offset : nullptr, of_mean + c, of_factor + c, row(b, shift) + c,
                                    relu_);
      });
    });
  }

  // Sums of x - origin, where the origin is near the mean: nothing cancels.
  void find_statistics(const Buffers& b) const {
    float* origin = floats(b.scratch, origin_);
    std::fill_n(origin, channels_, 0.0f);
    const Index few = std::min<Index>(16, rows_);
    for (Index r = 0; r < few; ++r)
      for (Index c = 0; c < channels_; ++c) origin[c] += row(b, X)[r * channels_ + c] / static_cast<float>(few);
    sum_channels(b, [&](ChannelRows rows, Index offset, Index c, float* sums, float* squares) {
      loops().channels->moments(rows, row(b, X) + offset, origin + c, sums, squares);
    });
    const auto n = static_cast<double>(rows_);
    const double *sums = totals(b, 0, 0), *squares = totals(b, 0, 1);
    for (Index c = 0; c < channels_; ++c) {
      const double distance = sums[c] / n;
      const double of_mean = origin[c] + distance, of_variance = std::max(0.0, squares[c] / n - distance * distance);
      kept(b, 0)[c] = static_cast<float>(of_mean);
      kept(b, 1)[c] = static_cast<float>(1 / std::sqrt(of_variance + epsilon_));
      const auto follow = [&](size_t output, size_t running, double batch) {
        if (output < outputs_.size() && outputs_[output].present)
          static_cast<float*>(b.outputs[output])[c] =
              static_cast<float>(momentum_ * row(b, running)[c] + (1 - momentum_) * batch);
      };
      follow(1, mean, of_mean);
      follow(2, variance, of_variance);
    }
  }

  void backward_pass(const Buffers& b) const {
    const float *of_mean = kept(b, 0), *of_rstd = kept(b, 1), *of_factor = kept(b, 2);
    ChannelLoops::Slopes all{};
    all.count = 1 + static_cast<int64_t>(b.more_gradients.size());
    all.dy[0] = static_cast<const float*>(b.output_gradients[0]);
    for (size_t i = 0; i < b.more_gradients.size(); ++i) all.dy[i + 1] = static_cast<const float*>(b.more_gradients[i]);
    all.relu = relu_;
    all.sign = relu_ && added_ ? static_cast<const float*>(b.outputs[0]) : nullptr;
    all.g = stores_slopes_ ? static_cast<float*>(b.input_gradients[*added_]) : nullptr;
    all.x = row(b, X);
    all.mean = of_mean;
    all.factor = of_factor;
    all.shift = row(b, shift);
    const auto at = [](ChannelLoops::Slopes s, Index offset, Index c) {
      for (int64_t i = 0; i < s.count; ++i) s.dy[i] += offset;
      if (s.sign) s.sign += offset;
      if (s.g) s.g += offset;
      s.x += offset;
      s.mean += c;
      s.factor += c;
      s.shift += c;
      return s;
    };
    sum_channels(b, [&](ChannelRows rows, Index offset, Index c, float* sums, float* products) {
      loops().channels->gradient_sums(rows, at(all, offset, c), sums, products);
    });
    float *a = floats(b.scratch, a_), *slope = floats(b.scratch, b_);
    const double n = batch_statistics_ ? static_cast<double>(rows_) : 0;
    for (Index c = 0; c < channels_; ++c) {
      const double sum = totals(b, 0, 0)[c], product = totals(b, 0, 1)[c] * of_rstd[c];
      a[c] = n > 0 ? static_cast<float>(sum / n) : 0.0f;
      slope[c] = n > 0 ? static_cast<float>(product * of_rstd[c] / n) : 0.0f;
      if (wants_[scale]) static_cast<float*>(b.input_gradients[scale])[c] = static_cast<float>(product);
      if (wants_[shift]) static_cast<float*>(b.input_gradients[shift])[c] = static_cast<float>(sum);
    }
    if (!wants_[X]) return;
    if (all.g) {  // what was stored is all of it
      all.dy[0] = all.g;
      all.count = 1;
      all.relu = false;
      all.sign = nullptr;
      all.g = nullptr;
    }
    for_each_part(parts_, rows_, [&](int, Index first, Index last) {
      for_each_block(first, last, [&](ChannelRows rows, Index offset, Index c) {
        loops().channels->gradient(rows, at(all, offset, c), static_cast<float*>(b.input_gradients[X]) + offset, a + c,
                                   slope + c);
      });
    });
  }

  Index channels_ = 1, rows_ = 1, chunk_ = 1;
  bool batch_statistics_ = false, relu_ = false, stores_slopes_ = false;
  float epsilon_ = 0, momentum_ = 0;
  std::optional<size_t> added_;
  std::vector<bool> wants_;
  std::vector<TensorSpec> outputs_;
  int parts_ = 1;
  size_t kept_ = 0, origin_ = 0, a_ = 0, b_ = 0, first_part_ = 0, totals_ = 0, partial_ = 0, part_bytes_ = 0;
};

}  // namespace

std::optional<std::string> why_not_channels_last(const KernelSetup& setup) {
  for (const auto* specs : {&setup.inputs, &setup.outputs})
    for (const TensorSpec& spec : *specs)
      if (spec.present && spec.dtype != DType::f32) return "its kernel for channels last computes in f32";
  const Shape& shape = setup.inputs[X].shape;
  if (shape.elements() == 0 || shape.rank() < 2) return "its kernel for channels last wants rows of channels";
  if (!same_places(setup.input_order(X), channels_last_order(shape.rank()), shape))
    return "its kernel for channels last wants them last";
  for (const size_t i : {mean, variance})
    if (i < setup.wants_gradient.size() && setup.wants_gradient[i])
      return "its kernel has no gradient with respect to the given mean and variance";
  return {};
}

std::unique_ptr<Kernel> make_channels_last() { return std::make_unique<BatchNormalizationKernel>(); }

}  // namespace d5::onednn::own
