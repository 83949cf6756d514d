// SPDX-License-Identifier: Apache-2.0
// Conv as one matrix product over the whole batch, row-major: X is unfolded into columns, one per place of the window.
//   columns[c r s, n p q] = X[n, c, p stride - pad + r dilation, q stride - pad + s dilation]
//   product[k, n p q] = W[k, c r s] columns,   Y[n, k, p q] = product[k, n p q] + B[k]
//   backward: the same columns give dW = dproduct columns^T; dcolumns = W^T dproduct is folded back into dX
// It needs C R S / K times the memory of its result, in proportion to the batch: what micro-batching is for. Choose it
// with --kernel im2col; the built-in kernel needs none of this and is faster on most sizes.
#include <algorithm>
#include <cstring>

#include "d5/backends/onednn/engine.hpp"
#include "d5/backends/onednn/window.hpp"
#include "d5/core/parallel.hpp"

namespace d5::onednn {
namespace {

class Im2colConv final : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    const TensorSpec &x = setup.inputs[0], &w = setup.inputs[1];
    if (x.dtype != DType::f32) return fmt::format("im2col computes in f32, not in {}", name(x.dtype));
    if (x.shape.rank() != 4) return "im2col has two spatial axes";
    if (setup.node.attributes.integer("group", 1) != 1) return "im2col has no groups";
    if (setup.options.math != Math::strict) return "im2col computes strictly in f32";
    if (setup.options.deterministic) return "oneDNN promises no order of sums in its products";
    if (x.elements() == 0 || w.elements() == 0 || setup.outputs[0].elements() == 0)
      return "im2col has no empty tensors";
    return {};
  }

  void prepare(KernelSetup& setup) override {
    const Shape &x = setup.inputs[0].shape, &w = setup.inputs[1].shape;
    window_.emplace(setup.node.attributes, spatial_sizes(x), spatial_sizes(w), "[conv]");
    samples_ = x[0];
    channels_ = x[1];
    filters_ = w[0];
    unfolded_ = channels_ * window_->taps();
    has_bias_ = setup.inputs.size() > 2 && setup.inputs[2].present;
    wants_ = setup.wants_gradient;
    wants_.resize(3, false);
  }

  void bind(int binding, const Buffers& buffers) override {
    bound_.resize(std::max(bound_.size(), static_cast<size_t>(binding) + 1));
    bound_[static_cast<size_t>(binding)] = buffers;
  }

  void forward(int binding) override {
    const Buffers& b = bound_[static_cast<size_t>(binding)];
    float *columns = columns_in(b), *product = product_in(b);
    unfold(in(b.inputs[0]), columns);
    multiply('N', 'N', filters_, places(), unfolded_, in(b.inputs[1]), columns, product);
    const float* bias = has_bias_ ? in(b.inputs[2]) : nullptr;
    auto* y = static_cast<float*>(b.outputs[0]);
    each_row([&](Index sample, Index filter) {
      const float* from = product + filter * places() + sample * window_->output_elements();
      float* to = y + (sample * filters_ + filter) * window_->output_elements();
      const float add = bias ? bias[filter] : 0;
      for (Index i = 0; i < window_->output_elements(); ++i) to[i] = from[i] + add;
    });
  }

  void backward(int binding) override {
    const Buffers& b = bound_[static_cast<size_t>(binding)];
    float *columns = columns_in(b), *product = product_in(b);
    const float* dy = in(b.output_gradients[0]);
    each_row([&](Index sample, Index filter) {
      std::copy_n(dy + (sample * filters_ + filter) * window_->output_elements(), window_->output_elements(),
                  product + filter * places() + sample * window_->output_elements());
    });
    if (wants_[1]) {
      unfold(in(b.inputs[0]), columns);
      multiply('N', 'T', filters_, unfolded_, places(), product, columns, static_cast<float*>(b.input_gradients[1]));
    }
    if (wants_[2] && has_bias_) {
      auto* db = static_cast<float*>(b.input_gradients[2]);
      parallel_for(filters_, 1, [&](Index first, Index last) {
        for (Index k = first; k < last; ++k) {
          double sum = 0;
          for (Index i = 0; i < places(); ++i) sum += product[k * places() + i];
          db[k] = static_cast<float>(sum);
        }
      });
    }
    if (wants_[0]) {
      multiply('T', 'N', unfolded_, places(), filters_, in(b.inputs[1]), product, columns);
      fold(columns, static_cast<float*>(b.input_gradients[0]));
    }
  }

  std::string implementation() const override { return "im2col + dnnl_sgemm"; }
  size_t scratch_bytes() const override {
    return static_cast<size_t>((unfolded_ + filters_) * places()) * sizeof(float);
  }

 private:
  Index places() const { return samples_ * window_->output_elements(); }
  static const float* in(const void* data) { return static_cast<const float*>(data); }
  static float* columns_in(const Buffers& b) { return static_cast<float*>(b.scratch); }
  float* product_in(const Buffers& b) const { return columns_in(b) + unfolded_ * places(); }

  // c = a b, or with their transposes; all row-major, m x n sums of k products.
  static void multiply(char transpose_a, char transpose_b, Index m, Index n, Index k, const float* a, const float* b,
                       float* c) {
    const auto status = dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1, a, transpose_a == 'N' ? k : m, b,
                                   transpose_b == 'N' ? n : k, 0, c, n);
    if (status != dnnl_success)
      throw Error("[onednn] sgemm {} x {} x {}: status {}", m, n, k, static_cast<int>(status));
  }

  template <class F>
  void each_row(const F& f) const {
    parallel_for(samples_ * filters_, 8, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) f(i / filters_, i % filters_);
    });
  }

  // f(run of a column, run of the image, first and last output of the run that lies inside the image) for every channel
  // in [first, last): runs of one tap, sample and row of outputs. An image of null: the row lies in the padding.
  template <class T, class F>
  void each_run(Index first, Index last, T* image, float* columns, const F& f) const {
    const Window& w = *window_;
    const Index rows = w.output[1], width = w.output[2];
    for (Index c = first; c < last; ++c)
      for (Index r = 0; r < w.kernel[1]; ++r)
        for (Index s = 0; s < w.kernel[2]; ++s) {
          float* column = columns + ((c * w.kernel[1] + r) * w.kernel[2] + s) * places();
          const Index shift = s * w.dilation[2] - w.pad[2];  // input column of output 0
          const Index begin = shift >= 0 ? 0 : std::min(width, (-shift + w.stride[2] - 1) / w.stride[2]);
          const Index end = std::clamp((w.input[2] - shift + w.stride[2] - 1) / w.stride[2], begin, width);
          for (Index n = 0; n < samples_; ++n)
            for (Index p = 0; p < rows; ++p) {
              const Index h = w.source(1, p, r);
              T* row = h < 0 || h >= w.input[1] ? nullptr
                                                : image + ((n * channels_ + c) * w.input[1] + h) * w.input[2] + shift;
              f(column + (n * rows + p) * width, row, begin, end);
            }
        }
  }

  void unfold(const float* x, float* columns) const {
    const Index step = window_->stride[2], width = window_->output[2];
    parallel_for(channels_, 1, [&](Index first, Index last) {
      each_run(first, last, x, columns, [&](float* to, const float* row, Index begin, Index end) {
        if (!row) begin = end = 0;
        std::fill(to, to + begin, 0.0f);
        if (step == 1)
          std::copy(row + begin, row + end, to + begin);
        else
          for (Index q = begin; q < end; ++q) to[q] = row[q * step];
        std::fill(to + end, to + width, 0.0f);
      });
    });
  }

  void fold(float* columns, float* dx) const {
    const Index step = window_->stride[2], image = window_->input_elements();
    parallel_for(channels_, 1, [&](Index first, Index last) {
      for (Index n = 0; n < samples_; ++n)
        std::fill_n(dx + (n * channels_ + first) * image, (last - first) * image, 0.0f);
      each_run(first, last, dx, columns, [&](const float* from, float* row, Index begin, Index end) {
        if (row)
          for (Index q = begin; q < end; ++q) row[q * step] += from[q];
      });
    });
  }

  std::optional<Window> window_;
  Index samples_ = 0, channels_ = 0, filters_ = 0, unfolded_ = 0;
  bool has_bias_ = false;
  std::vector<bool> wants_;
  std::vector<Buffers> bound_;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Conv", "im2col", Im2colConv);
}  // namespace d5::onednn
