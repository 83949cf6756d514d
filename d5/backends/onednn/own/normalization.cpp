// SPDX-License-Identifier: Apache-2.0
// LayerNormalization, RMSNormalization, InstanceNormalization and GroupNormalization: rows of contiguous elements, each
// normalised by its own statistics (d5/operators/normalization.hpp has the formulas). A row is read from memory once
// and stays in the caches for what follows. Scale and bias belong to the elements of a row, or to stretches of it
// (channels).
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

class NormalizationKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const Geometry g = geometry(setup);
    for (size_t i = 1; i < setup.inputs.size(); ++i)
      if (setup.inputs[i].present && setup.inputs[i].elements() != g.parameters)
        return "its kernel wants scale and bias of the normalised shape, not broadcast";
    if (g.rows * g.length == 0) return "its kernel wants at least one element";
    return OwnKernel::cannot(setup);
  }

  void build(const KernelSetup& setup) override {
    g_ = geometry(setup);
    memory_.backward_inputs = std::vector<bool>{true, true};
    memory_.backward_outputs.emplace();
    const Attributes& a = setup.node.attributes;
    epsilon_ = static_cast<float>(a.real("epsilon", 1e-5));
    centred_ = setup.node.op != "RMSNormalization";
    x_ = input(setup, 0);
    scale_ = input(setup, 1);
    has_bias_ = setup.inputs.size() > 2 && setup.inputs[2].present;
    if (has_bias_) bias_ = input(setup, 2);
    y_ = output(setup, 0);
    dy_ = output_gradient(setup, 0);
    outputs_ = setup.outputs;
    wants_ = setup.wants_gradient;
    wants_.resize(3);
    parts_ = threads();
    streamed_ = exceeds_caches(3 * setup.inputs[0].bytes());
    if (std::ranges::any_of(wants_, [](bool wanted) { return wanted; }))
      statistics_ = need_workspace(2 * sizeof(float) * static_cast<size_t>(g_.rows));
    keeps_ = setup.training();

    ScratchPlan all, part;
    scale_at_ = all.take_floats(g_.parameters);
    bias_at_ = all.take_floats(g_.parameters);
    parts_at_ = all.bytes();
    const Index narrow = x_.type == DType::f32 ? 0 : g_.length;
    row_at_ = part.take_floats(narrow);
    gradient_at_ = part.take_floats(y_.type == DType::f32 ? 0 : g_.length);
    for (size_t& tile : tiles_) tile = part.take_tile();
    dscale_at_ = part.take_floats(wants_[1] ? g_.parameters : 0);
    dbias_at_ = part.take_floats(wants_[2] ? g_.parameters : 0);
    part_bytes_ = part.bytes();
    need_scratch(parts_at_ + part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    widen(scale_, b, scale_at_);
    if (has_bias_) widen(bias_, b, bias_at_);
    for_each_part(parts_, g_.rows, [&](int part, Index first, Index last) {
      pass == Pass::forward ? forward_rows(b, part, first, last) : backward_rows(b, part, first, last);
      if (streamed_) loops().fence();
    });
    if (pass == Pass::forward) return;
    join(b, 1, dscale_at_);
    join(b, 2, dbias_at_);
  }

 private:
  // Rows of `length`; a stretch of `stretch` elements shares a parameter (1: none does, and a row has all of them), of
  // which row r uses those from r mod cycle * advance on.
  struct Geometry {
    Index rows, length, stretch, cycle, advance, parameters;
  };

  static Geometry geometry(const KernelSetup& setup) {
    const Shape& x = setup.inputs[0].shape;
    const Attributes& a = setup.node.attributes;
    const std::string& op = setup.node.op;
    if (op == "InstanceNormalization") {
      const Index inner = x.elements(2, x.rank());
      return {x[0] * x[1], inner, inner, x[1], 1, x[1]};
    }
    if (op == "GroupNormalization") {
      const Index inner = x.elements(2, x.rank()), groups = a.integer("num_groups", 1), channels = x[1] / groups;
      return {x[0] * groups, channels * inner, inner, groups, channels, x[1]};
    }
    const size_t axis = valid_axis(a.integer("axis", -1), x.rank(), "[normalization]");
    const Index length = x.elements(axis, x.rank());
    return {x.elements(0, axis), length, 0, 1, 0, length};
  }

  static void widen(const Operand& parameter, const Buffers& b, size_t at) {
    float* to = floats(b.scratch, at);
    const Index n = parameter.shape.elements();
    const float* from = load(parameter.type, parameter.data(b), 0, n, to);
    if (from != to) std::copy_n(from, n, to);
  }

  char* part_scratch(const Buffers& b, int part) const {
    return static_cast<char*>(b.scratch) + parts_at_ + part_bytes_ * static_cast<size_t>(part);
  }

  // f(first element, count, place of its parameters, whether they are one for all) for pieces of a row of `most`.
  template <class F>
  void for_each_piece(Index row, Index most, const F& f) const {
    const Index base = row % g_.cycle * g_.advance;
    if (g_.stretch == 0) {
      for (Index at = 0; at < g_.length; at += most) f(at, std::min(most, g_.length - at), at, false);
      return;
    }
    for (Index channel = 0; channel < g_.length / g_.stretch; ++channel)
      for (Index at = 0; at < g_.stretch; at += most)
        f(channel * g_.stretch + at, std::min(most, g_.stretch - at), base + channel, true);
  }

  Index burst() const { return streamed_ ? streaming_burst : tile_elements; }

  // The parameters of a piece as a tile.
  const float* tile(const Buffers& b, size_t at, Index parameter, bool shared, Index n, float* buffer) const {
    const float* found = floats(b.scratch, at) + parameter;
    if (!shared) return found;
    loops().fill(buffer, *found, n);
    return buffer;
  }

  void forward_rows(const Buffers& b, int part, Index first, Index last) const {
    char* scratch = part_scratch(b, part);
    const auto n = static_cast<float>(g_.length);
    for (Index row = first; row < last; ++row) {
      const float* x = load_row(x_, b, row * g_.length, g_.length, floats(scratch, row_at_));
      const float mean = centred_ ? loops().reduce[0](x, g_.length) / n : 0.0f;
      const float rstd = 1.0f / std::sqrt(loops().sum_of_squares(x, mean, g_.length) / n + epsilon_);
      if (keeps_ && statistics_) {
        float* kept = floats(b.workspace, *statistics_) + 2 * row;
        kept[0] = mean;
        kept[1] = rstd;
      }
      for_each_piece(row, burst(), [&](Index at, Index count, Index parameter, bool shared) {
        const float* gain = tile(b, scale_at_, parameter, shared, count, floats(scratch, tiles_[0]));
        const float* bias =
            has_bias_ ? tile(b, bias_at_, parameter, shared, count, floats(scratch, tiles_[1])) : nullptr;
        float* y = floats(scratch, tiles_[2]);
        if (row + 1 < last) prefetch(x_.type, x_.data(b), (row + 1) * g_.length + at, count);
        loops().normalize(y, x + at, mean, rstd, gain, bias, count);
        store(y_.type, y_.data(b), row * g_.length + at, y, count, streamed_, floats(scratch, tiles_[3]));
      });
      for (size_t i = 1; i < outputs_.size(); ++i)
        if (outputs_[i].present) {
          const float value = i == 1 ? mean : rstd;
          store(outputs_[i].dtype, b.outputs[i], row, &value, 1, false, nullptr);
        }
    }
  }

  void backward_rows(const Buffers& b, int part, Index first, Index last) const {
    char* scratch = part_scratch(b, part);
    float* dscale = wants_[1] ? floats(scratch, dscale_at_) : nullptr;
    float* dbias = wants_[2] ? floats(scratch, dbias_at_) : nullptr;
    if (dscale) std::fill_n(dscale, g_.parameters, 0.0f);
    if (dbias) std::fill_n(dbias, g_.parameters, 0.0f);
    for (Index row = first; row < last; ++row) {
      const float* x = load_row(x_, b, row * g_.length, g_.length, floats(scratch, row_at_));
      const float* dy = load_row(dy_, b, row * g_.length, g_.length, floats(scratch, gradient_at_));
      const float* kept = floats(b.workspace, *statistics_) + 2 * row;
      const float mean = kept[0], rstd = kept[1];
      float totals[2] = {};
      for_each_piece(row, tile_elements, [&](Index at, Index count, Index parameter, bool shared) {
        float sums[2];
        const float* gain = floats(b.scratch, scale_at_) + parameter;
        loops().normalize_sums(x + at, dy + at, mean, rstd, shared ? nullptr : gain,
                               dscale && !shared ? dscale + parameter : nullptr,
                               dbias && !shared ? dbias + parameter : nullptr, count, sums);
        if (shared) {
          if (dscale) dscale[parameter] += sums[1];
          if (dbias) dbias[parameter] += sums[0];
        }
        for (const int k : {0, 1}) totals[k] += shared ? *gain * sums[k] : sums[k];
      });
      if (!wants_[0]) continue;
      const float a = centred_ ? totals[0] / static_cast<float>(g_.length) : 0.0f;
      const float c = totals[1] / static_cast<float>(g_.length);
      for_each_piece(row, burst(), [&](Index at, Index count, Index parameter, bool shared) {
        const float* gain = tile(b, scale_at_, parameter, shared, count, floats(scratch, tiles_[0]));
        float* dx = floats(scratch, tiles_[2]);
        if (row + 1 < last) prefetch(x_.type, x_.data(b), (row + 1) * g_.length + at, count);
        if (row + 1 < last) prefetch(y_.type, dy_.data(b), (row + 1) * g_.length + at, count);
        loops().normalize_gradient(dx, x + at, dy + at, mean, rstd, gain, a, c, count);
        store(x_.type, b.input_gradients[0], row * g_.length + at, dx, count, streamed_, floats(scratch, tiles_[3]));
      });
    }
  }

  // The sum of all parts.
  void join(const Buffers& b, size_t index, size_t at) const {
    if (!wants_[index]) return;
    const DType type = index == 1 ? scale_.type : bias_.type;
    const auto body = [&](Index first, Index last) {
      float* total = floats(part_scratch(b, 0), at) + first;
      for (int part = 1; part < parts_; ++part)
        loops().merge[0](total, floats(part_scratch(b, part), at) + first, last - first);
      store(type, b.input_gradients[index], first, total, last - first, false, nullptr);
    };
    parallel_for(g_.parameters, 1 << 14, std::ref(body));
  }

  Geometry g_{};
  float epsilon_ = 0;
  bool centred_ = true, has_bias_ = false, streamed_ = false, keeps_ = false;
  Operand x_, scale_, bias_, y_, dy_;
  std::vector<TensorSpec> outputs_;
  std::vector<bool> wants_;
  int parts_ = 1;
  std::optional<size_t> statistics_;
  size_t scale_at_ = 0, bias_at_ = 0, parts_at_ = 0, part_bytes_ = 0;
  size_t row_at_ = 0, gradient_at_ = 0, dscale_at_ = 0, dbias_at_ = 0, tiles_[4] = {};
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "LayerNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "RMSNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "InstanceNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "GroupNormalization", "builtin", NormalizationKernel);
}  // namespace d5::onednn::own
