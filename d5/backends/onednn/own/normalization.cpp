// SPDX-License-Identifier: Apache-2.0
// LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization and, with channels first and the
// statistics of the batch, BatchNormalization: rows of pieces of contiguous elements, each row normalised by its own
// statistics (d5/operators/normalization.hpp and batch_normalization.cpp have the formulas). A row is read from memory
// once and stays in the caches until it is written, past them; a channel of a batch while the next one is read, because
// it may fill what a core has to itself. Scale and bias belong to the elements of a row, or to a piece of it
// (channels).
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/batch_normalization.hpp"
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
    momentum_ = a.real("momentum", 0.9);
    centred_ = setup.node.op != "RMSNormalization";
    of_batch_ = setup.node.op == "BatchNormalization";
    x_ = input(setup, 0);
    scale_ = input(setup, 1);
    has_bias_ = setup.inputs.size() > 2 && setup.inputs[2].present;
    if (has_bias_) bias_ = input(setup, 2);
    y_ = output(setup, 0);
    dy_ = output_gradient(setup, 0);
    for (const size_t i : {0, 1})
      if (of_batch_) running_[i] = input(setup, 3 + i);
    outputs_ = setup.outputs;
    wants_ = setup.wants_gradient;
    wants_.resize(3);
    parts_ = threads();
    streamed_ = exceeds_caches(3 * setup.inputs[0].bytes());
    const bool wide = x_.type == DType::f32 && y_.type == DType::f32;
    // Where a row stays near, reading it and then writing it is faster.
    writes_behind_ = streamed_ && of_batch_ && g_.piece % line_elements == 0;
    kept_.reset();
    if (std::ranges::any_of(wants_, [](bool wanted) { return wanted; }))
      kept_ = need_workspace(2 * sizeof(float) * static_cast<size_t>(g_.rows));

    ScratchPlan all;
    scale_at_ = all.take_floats(g_.parameters);
    bias_at_ = all.take_floats(g_.parameters);
    parts_at_ = all.bytes();
    ScratchPlan part = ScratchPlan::behind(all);
    group_rows_ = g_.of_elements && g_.length > piece_elements ? most_rows : 1;  // short rows stay in the first cache
    room_at_ = part.take_floats(wide ? 0 : 2 * group_rows_ * g_.length);
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
  static constexpr Index line_elements = alignment_bytes / sizeof(float);

  // Rows of `length` elements in pieces; row r begins at r * row_stride, its pieces are piece_stride apart. Parameters
  // belong to the elements (of_elements: a row has all of them), or piece k of row r has number
  // r mod cycle * advance + k * step.
  struct Geometry {
    Index rows, length, piece, row_stride, piece_stride;
    bool of_elements;
    Index cycle, advance, step, parameters;
    Index parameter(Index row, Index k) const { return row % cycle * advance + k * step; }
  };

  static Geometry geometry(const KernelSetup& setup) {
    const Shape& x = setup.inputs[0].shape;
    const Attributes& a = setup.node.attributes;
    const std::string& op = setup.node.op;
    const Index inner = x.rank() > 2 ? x.elements(2, x.rank()) : 1;
    if (op == "BatchNormalization") return {x[1], x[0] * inner, inner, inner, x[1] * inner, false, x[1], 1, 0, x[1]};
    if (op == "InstanceNormalization") return {x[0] * x[1], inner, inner, inner, inner, false, x[1], 1, 0, x[1]};
    if (op == "GroupNormalization") {
      const Index groups = a.integer("num_groups", 1), channels = x[1] / groups, length = channels * inner;
      return {x[0] * groups, length, inner, length, inner, false, groups, channels, 1, x[1]};
    }
    const size_t axis = valid_axis(a.integer("axis", -1), x.rank(), "[normalization]");
    const Index length = x.elements(axis, x.rank()), piece = std::min(length, piece_elements);
    return {x.elements(0, axis), length, piece, length, piece, true, 1, 0, 0, length};
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

  // A group of rows that take turns, piece by piece, so that the parameters of a piece stay in the first cache.
  struct Group {
    Index start = 0, rows = 0;
    std::array<const float*, most_rows> x{}, dy{};
    std::array<float, most_rows> mean{}, rstd{}, a{}, c{};
  };
  struct Piece {
    Index number, at, count;  // at: from the beginning of the row
  };
  template <class F>
  void for_each_piece(const F& f) const {
    for (Index k = 0, done = 0; done < g_.length; done += g_.piece, ++k)
      f(Piece{k, k * g_.piece_stride, std::min(g_.piece, g_.length - done)});
  }
  // For statistics of rows as they lie pieces matter only where others are written beside them.
  template <class F>
  void for_each_stretch(bool alone, const F& f) const {
    if (alone && g_.piece_stride == g_.piece) return f(Piece{0, 0, g_.length});
    for_each_piece(f);
  }
  bool on_whole_lines(const void* target) const { return reinterpret_cast<uintptr_t>(target) % alignment_bytes == 0; }

  struct Forward {
    const NormalizationKernel& k;
    const Buffers& b;
    const float *gain, *bias;

    Place place(const Group& g, Index r, const Piece& p) const {
      return place_at(k.y_.type, k.y_.data(b), (g.start + r) * k.g_.row_stride + p.at, k.streamed_);
    }
    LineBefore line(const Group& g, Index r, const Piece& p) const {
      LineBefore line{static_cast<float*>(place(g, r, p).data), g.x[r] + p.at, g.mean[r], g.rstd[r], 0.0f};
      if (k.g_.of_elements) {
        line.gain = gain + p.at;
        line.bias = bias ? bias + p.at : nullptr;
      } else {
        const Index parameter = k.g_.parameter(g.start + r, p.number);
        line.factor *= gain[parameter];
        line.term = bias ? bias[parameter] : 0.0f;
      }
      return line;
    }
    void write(const Group& g, Index first_row) const {
      k.for_each_piece([&](const Piece& p) {
        for (Index r = first_row; r < g.rows; ++r) {
          const LineBefore l = line(g, r, p);
          if (l.gain)
            loops().normalize(place(g, r, p), l.x, l.shift, l.factor, l.gain, l.bias, p.count);
          else
            loops().normalize_shared(place(g, r, p), l.x, l.shift, l.factor, 1.0f, l.term, p.count);
        }
      });
    }
  };

  void forward_rows(const Buffers& b, int part, Index first, Index last) const {
    float* room = floats(part_scratch(b, part), room_at_);
    const Forward f{*this, b, floats(b.scratch, scale_at_), has_bias_ ? floats(b.scratch, bias_at_) : nullptr};
    const bool behind = writes_behind_ && on_whole_lines(y_.data(b));
    Group now, before;
    for (now.start = first; now.start < last; now.start += now.rows) {
      now.rows = std::min(group_rows_, last - now.start);
      std::array<std::array<double, 2>, most_rows> totals{};
      std::array<float, most_rows> origin{};
      for (Index r = 0; r < now.rows; ++r) {
        now.x[r] = load_row(x_, b, (now.start + r) * g_.row_stride, g_.length, room + r * g_.length);
        if (centred_) origin[r] = mean_of_few(now.x[r]);
      }
      for_each_stretch(before.rows == 0, [&](const Piece& p) {
        for (Index r = 0; r < now.rows; ++r) {
          float sums[2];
          loops().moments(now.x[r] + p.at, origin[r], p.count, sums,
                          r < before.rows ? f.line(before, r, p) : LineBefore{});
          for (const size_t i : {0, 1}) totals[r][i] += sums[i];
        }
      });
      f.write(before, now.rows);
      for (Index r = 0; r < now.rows; ++r) finish_statistics(b, now, r, origin[r], totals[r]);
      before = now;
      if (behind) continue;
      f.write(now, 0);
      before.rows = 0;
    }
    f.write(before, 0);
  }

  // The origin of differences, which then cancel little: all of them are in one line of memory.
  float mean_of_few(const float* x) const {
    const Index few = std::min(line_elements, g_.piece);
    return loops().reduce[static_cast<size_t>(Reduce::sum)](x, few) / static_cast<float>(few);
  }

  void finish_statistics(const Buffers& b, Group& g, Index r, float origin, const std::array<double, 2>& totals) const {
    const Index row = g.start + r;
    const auto n = static_cast<double>(g_.length);
    const double distance = centred_ ? totals[0] / n : 0, mean = origin + distance;
    const double variance = std::max(totals[1] / n - distance * distance, 0.0);  // NaN stays
    g.mean[r] = static_cast<float>(mean);
    g.rstd[r] = static_cast<float>(1 / std::sqrt(variance + epsilon_));
    if (kept_) {
      float* kept = floats(b.workspace, *kept_) + 2 * row;
      kept[0] = g.mean[r];
      kept[1] = g.rstd[r];
    }
    for (size_t i = 1; i < outputs_.size(); ++i) {
      if (!outputs_[i].present) continue;
      float value = i == 1 ? g.mean[r] : g.rstd[r];
      if (of_batch_)
        value = static_cast<float>(momentum_ * load_one(running_[i - 1].type, running_[i - 1].data(b), row) +
                                   (1 - momentum_) * (i == 1 ? mean : variance));
      store(outputs_[i].dtype, b.outputs[i], row, &value, 1);
    }
  }

  struct Backward {
    const NormalizationKernel& k;
    const Buffers& b;
    const float* gain;
    float *dscale, *dbias, *unwanted;

    Place place(const Group& g, Index r, const Piece& p) const {  // not wanted: somewhere
      if (!k.wants_[0]) return {unwanted};
      return place_at(k.x_.type, b.input_gradients[0], (g.start + r) * k.g_.row_stride + p.at, k.streamed_);
    }
    GradientBefore line(const Group& g, Index r, const Piece& p) const {
      GradientBefore line{static_cast<float*>(place(g, r, p).data),
                          g.x[r] + p.at,
                          g.dy[r] + p.at,
                          g.mean[r],
                          g.rstd[r],
                          g.a[r],
                          g.c[r]};
      if (!k.g_.of_elements) {
        line.shared = gain[k.g_.parameter(g.start + r, p.number)];
        return line;
      }
      line.gain = gain + p.at;
      line.dgain = dscale ? dscale + p.at : nullptr;
      line.dbias = dbias ? dbias + p.at : nullptr;
      return line;
    }
    void write(const Group& g, Index first_row) const {
      if (!k.g_.of_elements && !k.wants_[0]) return;
      k.for_each_piece([&](const Piece& p) {
        for (Index r = first_row; r < g.rows; ++r) {
          const GradientBefore l = line(g, r, p);
          if (l.gain)
            loops().normalize_gradient(place(g, r, p), l.x, l.dy, l.mean, l.rstd, l.gain, l.a, l.b, l.dgain, l.dbias,
                                       p.count);
          else
            loops().normalize_gradient_shared(place(g, r, p), l.x, l.dy, l.mean, l.rstd, l.shared, l.a, l.b, p.count);
        }
      });
    }
  };

  void backward_rows(const Buffers& b, int part, Index first, Index last) const {
    char* scratch = part_scratch(b, part);
    float *room = floats(scratch, room_at_), *other = room + group_rows_ * g_.length;
    float* dscale = wants_[1] ? floats(scratch, dscale_at_) : nullptr;
    float* dbias = wants_[2] ? floats(scratch, dbias_at_) : nullptr;
    if (dscale) std::fill_n(dscale, g_.parameters, 0.0f);
    if (dbias) std::fill_n(dbias, g_.parameters, 0.0f);
    const float* gain = floats(b.scratch, scale_at_);
    const Backward f{*this, b, gain, dscale, dbias, floats(scratch, unwanted_at_)};
    const bool behind = writes_behind_ && wants_[0] && on_whole_lines(b.input_gradients[0]);
    Group now, before;
    for (now.start = first; now.start < last; now.start += now.rows) {
      now.rows = std::min(group_rows_, last - now.start);
      std::array<std::array<double, 2>, most_rows> totals{};
      for (Index r = 0; r < now.rows; ++r) {
        const Index row = now.start + r;
        now.x[r] = load_row(x_, b, row * g_.row_stride, g_.length, room + r * g_.length);
        now.dy[r] = load_row(dy_, b, row * g_.row_stride, g_.length, other + r * g_.length);
        now.mean[r] = floats(b.workspace, *kept_)[2 * row];
        now.rstd[r] = floats(b.workspace, *kept_)[2 * row + 1];
      }
      for_each_piece([&](const Piece& p) {
        for (Index r = 0; r < now.rows; ++r) {
          float sums[2];
          loops().normalize_sums(now.x[r] + p.at, now.dy[r] + p.at, now.mean[r], now.rstd[r],
                                 g_.of_elements ? gain + p.at : nullptr, p.count, sums,
                                 r < before.rows ? f.line(before, r, p) : GradientBefore{});
          const Index parameter = g_.of_elements ? 0 : g_.parameter(now.start + r, p.number);
          if (!g_.of_elements && dscale) dscale[parameter] += sums[1];
          if (!g_.of_elements && dbias) dbias[parameter] += sums[0];
          for (const size_t i : {0, 1}) totals[r][i] += g_.of_elements ? sums[i] : gain[parameter] * sums[i];
        }
      });
      f.write(before, now.rows);
      for (Index r = 0; r < now.rows; ++r) {
        now.a[r] = centred_ ? static_cast<float>(totals[r][0] / static_cast<double>(g_.length)) : 0.0f;
        now.c[r] = static_cast<float>(totals[r][1] / static_cast<double>(g_.length));
      }
      before = now;
      if (behind) continue;
      f.write(now, 0);
      before.rows = 0;
    }
    f.write(before, 0);
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
  double momentum_ = 0;
  bool centred_ = true, of_batch_ = false, has_bias_ = false, streamed_ = false, writes_behind_ = false;
  Operand x_, scale_, bias_, y_, dy_, running_[2];
  std::vector<TensorSpec> outputs_;
  std::vector<bool> wants_;
  int parts_ = 1;
  std::optional<size_t> kept_;  // the statistics' place in the workspace, where backward wants them
  size_t scale_at_ = 0, bias_at_ = 0, parts_at_ = 0, part_bytes_ = 0;
  size_t room_at_ = 0, unwanted_at_ = 0, dscale_at_ = 0, dbias_at_ = 0;
  Index group_rows_ = 1;
};

}  // namespace

std::optional<std::string> why_not_channels_first(const KernelSetup& setup) {
  constexpr Index fewest = 64;
  const Shape& x = setup.inputs[0].shape;
  if (!setup.node.attributes.flag("training_mode", false)) return "its kernel takes the statistics of the batch";
  if (!setup.followers.empty()) return "its kernel for channels first computes nothing that follows";
  if (setup.inputs[0].dtype != DType::f32) return "its kernel for channels first computes in f32";
  if (!setup.input_order(0).empty() || x.rank() < 3 || x.elements(2, x.rank()) < fewest)
    return fmt::format("its kernel for channels first wants at least {} neighbours of a channel", fewest);
  if (setup.wants_gradient[3] || setup.wants_gradient[4])
    return "its kernel has no gradient with respect to the given mean and variance";
  return NormalizationKernel().why_not(setup);
}
std::unique_ptr<Kernel> make_channels_first() { return std::make_unique<NormalizationKernel>(); }

D5_REGISTER_KERNEL(onednn, "LayerNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "RMSNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "InstanceNormalization", "builtin", NormalizationKernel);
D5_REGISTER_KERNEL(onednn, "GroupNormalization", "builtin", NormalizationKernel);
}  // namespace d5::onednn::own
