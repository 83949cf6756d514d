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

constexpr Index most_rows = 4, piece_elements = 1024;

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
    kept_.reset();
    if (std::ranges::any_of(wants_, [](bool wanted) { return wanted; }))
      kept_ = need_workspace(2 * sizeof(float) * static_cast<size_t>(g_.rows));

    ScratchPlan all;
    scale_at_ = all.take_floats(g_.parameters);
    bias_at_ = all.take_floats(g_.parameters);
    parts_at_ = all.bytes();
    ScratchPlan part = ScratchPlan::behind(all);
    group_rows_ = g_.stretch == 0 && g_.length > 1024 ? most_rows : 1;  // short rows stay in the first cache
    room_at_ = part.take_floats(x_.type == DType::f32 && y_.type == DType::f32 ? 0 : 2 * group_rows_ * g_.length);
    unwanted_at_ = part.take_floats(kept_ && !wants_[0] ? g_.length : 0);
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
  // Rows of `length`; a stretch of `stretch` elements shares a parameter (0: none does, and a row has all of them), of
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

  // A group of rows, read from memory once: statistics first, then the results. Those come piece by piece for all rows
  // of the group, so that the parameters of a piece stay in the first cache.
  struct Group {
    std::array<const float*, most_rows> x, dy;
    std::array<float, most_rows> mean, rstd, a, c;
  };
  template <class F>
  void for_each_group(Index first, Index last, const F& f) const {
    for (Index row = first; row < last; row += group_rows_) f(row, std::min(group_rows_, last - row));
  }
  template <class F>
  void for_each_piece(Index rows, const F& f) const {
    const Index most = group_rows_ == 1 ? g_.length : piece_elements;
    for (Index at = 0; at < g_.length; at += most)
      for (Index r = 0; r < rows; ++r) f(r, at, std::min(most, g_.length - at));
  }
  // f(first element, count, number of its parameter)
  template <class F>
  void for_each_stretch(Index row, const F& f) const {
    Index parameter = row % g_.cycle * g_.advance;
    for (Index at = 0; at < g_.length; at += g_.stretch) f(at, g_.stretch, parameter++);
  }

  // Mean and squared deviations of what was taken so far; a piece is in the first cache when its deviations from its
  // own mean are summed (Chan, Golub and LeVeque, 1983).
  struct Statistics {
    double count = 0, mean = 0, squares = 0;

    void take(const float* x, Index n, bool centred) {
      const auto more = static_cast<double>(n), total = count + more;
      const double own = centred ? static_cast<double>(loops().reduce[0](x, n)) / more : 0.0;
      const double apart = own - mean;
      squares += static_cast<double>(loops().sum_of_squares(x, static_cast<float>(own), n)) +
                 apart * apart * count * more / total;
      mean += apart * more / total;
      count = total;
    }
  };

  // While a group is written the statistics of the next one are taken, so that memory is read and written at once.
  void forward_rows(const Buffers& b, int part, Index first, Index last) const {
    float* rooms = floats(part_scratch(b, part), room_at_);
    Group now, next;
    Index start = first, rows = 0;  // of the group that is written
    for (Index coming = first; coming < last || rows > 0; coming += group_rows_) {
      const Index more = std::clamp<Index>(last - coming, 0, group_rows_);
      float* room = rooms + (coming - first) / group_rows_ % 2 * group_rows_ * g_.length;
      std::array<Statistics, most_rows> statistics;
      for (Index r = 0; r < more; ++r)
        next.x[r] = load_row(x_, b, (coming + r) * g_.length, g_.length, room + r * g_.length);
      for (Index at = 0; at < g_.length; at += piece_elements)
        for (Index r = 0; r < std::max(rows, more); ++r) {
          const Index count = std::min(piece_elements, g_.length - at);
          if (r < rows) write_piece(b, now, start + r, r, at, count);
          if (r < more) statistics[r].take(next.x[r] + at, count, centred_);
        }
      for (Index r = 0; r < more; ++r) finish_statistics(b, next, coming + r, r, statistics[r]);
      std::swap(now, next);
      start = coming;
      rows = more;
    }
  }

  void finish_statistics(const Buffers& b, Group& g, Index row, Index r, const Statistics& of_row) const {
    g.mean[r] = static_cast<float>(of_row.mean);
    g.rstd[r] = 1.0f / std::sqrt(static_cast<float>(of_row.squares / of_row.count) + epsilon_);
    if (kept_) {
      float* kept = floats(b.workspace, *kept_) + 2 * row;
      kept[0] = g.mean[r];
      kept[1] = g.rstd[r];
    }
    for (size_t i = 1; i < outputs_.size(); ++i)
      if (outputs_[i].present) store(outputs_[i].dtype, b.outputs[i], row, i == 1 ? &g.mean[r] : &g.rstd[r], 1);
  }

  void write_piece(const Buffers& b, const Group& g, Index row, Index r, Index at, Index count) const {
    const float *gain = floats(b.scratch, scale_at_), *bias = has_bias_ ? floats(b.scratch, bias_at_) : nullptr;
    const auto y = [&](Index i) { return place_at(y_.type, y_.data(b), row * g_.length + i, streamed_); };
    if (g_.stretch == 0)
      return loops().normalize(y(at), g.x[r] + at, g.mean[r], g.rstd[r], gain + at, bias ? bias + at : nullptr, count);
    for (Index i = at, n = 0; i < at + count; i += n) {
      const Index parameter = row % g_.cycle * g_.advance + i / g_.stretch;
      n = std::min(at + count, (i / g_.stretch + 1) * g_.stretch) - i;
      loops().normalize_shared(y(i), g.x[r] + i, g.mean[r], g.rstd[r], gain[parameter], bias ? bias[parameter] : 0.0f,
                               n);
    }
  }

  void backward_rows(const Buffers& b, int part, Index first, Index last) const {
    char* scratch = part_scratch(b, part);
    float *room = floats(scratch, room_at_), *other = room + group_rows_ * g_.length;
    float* dscale = wants_[1] ? floats(scratch, dscale_at_) : nullptr;
    float* dbias = wants_[2] ? floats(scratch, dbias_at_) : nullptr;
    if (dscale) std::fill_n(dscale, g_.parameters, 0.0f);
    if (dbias) std::fill_n(dbias, g_.parameters, 0.0f);
    const float* gain = floats(b.scratch, scale_at_);
    const auto dx = [&](Index row, Index at) {  // not wanted: somewhere
      return wants_[0] ? place_at(x_.type, b.input_gradients[0], row * g_.length + at, streamed_)
                       : Place{floats(scratch, unwanted_at_) + at};
    };
    Group g;
    for_each_group(first, last, [&](Index start, Index rows) {
      for (Index r = 0; r < rows; ++r) {
        const Index row = start + r;
        g.x[r] = load_row(x_, b, row * g_.length, g_.length, room + r * g_.length);
        g.dy[r] = load_row(dy_, b, row * g_.length, g_.length, other + r * g_.length);
        g.mean[r] = floats(b.workspace, *kept_)[2 * row];
        g.rstd[r] = floats(b.workspace, *kept_)[2 * row + 1];
        float totals[2] = {};
        if (g_.stretch == 0)
          loops().normalize_sums(g.x[r], g.dy[r], g.mean[r], g.rstd[r], gain, g_.length, totals);
        else
          for_each_stretch(row, [&](Index at, Index count, Index parameter) {
            float sums[2];
            loops().normalize_sums(g.x[r] + at, g.dy[r] + at, g.mean[r], g.rstd[r], nullptr, count, sums);
            if (dscale) dscale[parameter] += sums[1];
            if (dbias) dbias[parameter] += sums[0];
            for (const int k : {0, 1}) totals[k] += gain[parameter] * sums[k];
          });
        g.a[r] = centred_ ? totals[0] / static_cast<float>(g_.length) : 0.0f;
        g.c[r] = totals[1] / static_cast<float>(g_.length);
      }
      if (g_.stretch == 0)
        for_each_piece(rows, [&](Index r, Index at, Index count) {
          loops().normalize_gradient(dx(start + r, at), g.x[r] + at, g.dy[r] + at, g.mean[r], g.rstd[r], gain + at,
                                     g.a[r], g.c[r], dscale ? dscale + at : nullptr, dbias ? dbias + at : nullptr,
                                     count);
        });
      else if (wants_[0])
        for_each_stretch(start, [&](Index at, Index count, Index parameter) {
          loops().normalize_gradient_shared(dx(start, at), g.x[0] + at, g.dy[0] + at, g.mean[0], g.rstd[0],
                                            gain[parameter], g.a[0], g.c[0], count);
        });
    });
  }

  // The sum of all parts.
  void join(const Buffers& b, size_t index, size_t at) const {
    if (!wants_[index]) return;
    const DType type = index == 1 ? scale_.type : bias_.type;
    const auto body = [&](Index first, Index last) {
      float* total = floats(part_scratch(b, 0), at) + first;
      for (int part = 1; part < parts_; ++part)
        loops().merge[0](total, floats(part_scratch(b, part), at) + first, last - first);
      store(type, b.input_gradients[index], first, total, last - first);
    };
    parallel_for(g_.parameters, 1 << 14, std::ref(body));
  }

  Geometry g_{};
  float epsilon_ = 0;
  bool centred_ = true, has_bias_ = false, streamed_ = false;
  Operand x_, scale_, bias_, y_, dy_;
  std::vector<TensorSpec> outputs_;
  std::vector<bool> wants_;
  int parts_ = 1;
  std::optional<size_t> kept_;  // the statistics' place in the workspace, where backward wants them
  size_t scale_at_ = 0, bias_at_ = 0, parts_at_ = 0, part_bytes_ = 0;
  size_t room_at_ = 0, unwanted_at_ = 0, dscale_at_ = 0, dbias_at_ = 0;
  Index group_rows_ = 1;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "LayerNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "RMSNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "InstanceNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "GroupNormalization", "builtin", NormalizationKernel);
}  // namespace d5::onednn::own
