// SPDX-License-Identifier: Apache-2.0
// LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization and, with channels first and the
// statistics of the batch, BatchNormalization: rows of pieces of contiguous elements, each row normalised by its own
// statistics (d5/operators/normalization.hpp and batch_normalization.cpp have the formulas). A row is read from memory
// once and stays in the caches until it is written, past them. Memory that is read and then written stands still half
// of the time, so the next row is fetched while a short one is written; a channel of a batch, which may fill what a
// core has to itself, is written while the next one is read, and so are rows with parameters for each element, four by
// four; of gradients, which need more at once than the first cache holds, four long rows are written together. Scale
// and bias belong to the elements of a row, or to a piece of it (channels).
#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/batch_normalization.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

constexpr Index most_rows = rows_in_turn, stretch_elements = 1024;
// The next row is fetched into the first cache: a longer one would displace what is still to be written.
constexpr Index fetched_elements = 8192;

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
    in_turn_ = streamed_ && wide && g_.of_elements && g_.length % line_elements == 0;
    // Short rows stay in the first cache together with their parameters.
    group_rows_ = in_turn_ || (g_.of_elements && g_.length > stretch_elements) ? most_rows : 1;
    stretch_ = in_turn_ ? stretch_elements / 2 : stretch_elements;
    writes_behind_ = in_turn_ || (streamed_ && of_batch_ && g_.piece % line_elements == 0);
    fetches_ = streamed_ && wide && !g_.of_elements && g_.length <= fetched_elements;
    kept_.reset();
    if (std::ranges::any_of(wants_, [](bool wanted) { return wanted; }))
      kept_ = need_workspace(2 * sizeof(float) * static_cast<size_t>(g_.rows));

    ScratchPlan all;
    scale_at_ = all.take_floats(g_.parameters);
    bias_at_ = all.take_floats(g_.parameters);
    parts_at_ = all.bytes();
    ScratchPlan part = ScratchPlan::behind(all);
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
    const Index length = x.elements(axis, x.rank());
    return {x.elements(0, axis), length, length, length, length, true, 1, 0, 0, length};
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

  // A group of rows that take turns, stretch by stretch, so that its parameters stay in the first cache.
  struct Group {
    Index start = 0, rows = 0;
    std::array<const float*, most_rows> x{}, dy{};
    std::array<float, most_rows> mean{}, rstd{}, a{}, c{};
  };
  struct Stretch {            // of the piece with this number
    Index number, at, count;  // at: from the beginning of the row
    Index next;               // the place of the following one; of the last one that of the next group's first
  };
  // Of rows as they lie for statistics the whole; elsewhere no longer than what stays near between two uses.
  template <class F>
  void for_each_stretch(bool whole, const F& f) const {
    if (whole && g_.piece_stride == g_.piece) return f(Stretch{0, 0, g_.length, 0});
    for (Index k = 0; k * g_.piece < g_.length; ++k) {
      const Index begin = k * g_.piece_stride, end = begin + std::min(g_.piece, g_.length - k * g_.piece);
      const Index after = (k + 1) * g_.piece < g_.length ? begin + g_.piece_stride : group_rows_ * g_.row_stride;
      for (Index at = begin; at < end; at += stretch_)
        f(Stretch{k, at, std::min(stretch_, end - at), at + stretch_ < end ? at + stretch_ : after});
    }
  }
  // How far behind what is read now lies what is read next; from the last rows nothing does.
  Index ahead(const Group& g, const Stretch& p) const {
    const Index first_of_next = group_rows_ * g_.row_stride;
    return p.next != first_of_next || g.start + g.rows + group_rows_ <= g_.rows ? p.next : p.at;
  }
  bool on_whole_lines(const void* target) const { return reinterpret_cast<uintptr_t>(target) % alignment_bytes == 0; }

  struct Forward {
    const NormalizationKernel& k;
    const Buffers& b;
    const float *gain, *bias;

    Place place(const Group& g, Index r, const Stretch& p) const {
      return place_at(k.y_.type, k.y_.data(b), (g.start + r) * k.g_.row_stride + p.at, k.streamed_);
    }
    LineBefore line(const Group& g, Index r, const Stretch& p) const {
      const Index parameter = k.g_.parameter(g.start + r, p.number);
      return {static_cast<float*>(place(g, r, p).data), g.x[r] + p.at, g.mean[r], g.rstd[r] * gain[parameter],
              bias ? bias[parameter] : 0.0f};
    }
    const float* bias_of(const Stretch& p) const { return bias ? bias + p.at : nullptr; }
    void write(const Group& g) const {
      k.for_each_stretch(false, [&](const Stretch& p) {
        for (Index r = 0; r < g.rows; ++r) {
          if (k.g_.of_elements) {
            loops().normalize(place(g, r, p), g.x[r] + p.at, g.mean[r], g.rstd[r], gain + p.at, bias_of(p), p.count);
            continue;
          }
          const LineBefore l = line(g, r, p);
          const bool fetches = k.fetches_ && g.start + g.rows < k.g_.rows;
          loops().normalize_shared(place(g, r, p), l.x, l.shift, l.factor, 1.0f, l.term, p.count,
                                   fetches ? l.x + k.g_.row_stride : nullptr);
        }
      });
    }
    // The statistics of a stretch of whole groups, and the same one of the rows before.
    void moments_in_turn(const Group& now, const Group& before, const std::array<float, most_rows>& origin,
                         const Stretch& p, float sums[most_rows][2]) const {
      RowsRead read{.x = now.x, .ahead = now.x, .origin = origin};
      RowsWritten written{
          .y = {}, .x = before.x, .mean = before.mean, .rstd = before.rstd, .gain = gain + p.at, .bias = bias_of(p)};
      for (Index r = 0; r < most_rows; ++r) {
        read.x[r] += p.at;
        read.ahead[r] += k.ahead(now, p);
        written.x[r] += p.at;
        written.y[r] = static_cast<float*>(place(before, r, p).data);
      }
      loops().moments_in_turn(read, written, p.count, sums);
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
      const bool beside = before.rows == now.rows && now.rows == group_rows_;
      for_each_stretch(!beside, [&](const Stretch& p) {
        float sums[most_rows][2];
        if (beside && in_turn_)
          f.moments_in_turn(now, before, origin, p, sums);
        else
          for (Index r = 0; r < now.rows; ++r)
            loops().moments(now.x[r] + p.at, origin[r], p.count, sums[r], now.x[r] + ahead(now, p),
                            beside ? f.line(before, r, p) : LineBefore{});
        for (Index r = 0; r < now.rows; ++r)
          for (const size_t i : {0, 1}) totals[r][i] += sums[r][i];
      });
      if (!beside) f.write(before);
      for (Index r = 0; r < now.rows; ++r) finish_statistics(b, now, r, origin[r], totals[r]);
      before = now;
      if (behind) continue;
      f.write(now);
      before.rows = 0;
    }
    f.write(before);
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

    Place place(const Group& g, Index r, const Stretch& p) const {  // not wanted: somewhere
      if (!k.wants_[0]) return {unwanted};
      return place_at(k.x_.type, b.input_gradients[0], (g.start + r) * k.g_.row_stride + p.at, k.streamed_);
    }
    GradientBefore line(const Group& g, Index r, const Stretch& p) const {
      return {static_cast<float*>(place(g, r, p).data),
              g.x[r] + p.at,
              g.dy[r] + p.at,
              g.mean[r],
              g.rstd[r],
              g.a[r],
              g.c[r],
              gain[k.g_.parameter(g.start + r, p.number)]};
    }
    static float* behind(float* sums, Index at) { return sums ? sums + at : nullptr; }
    void write(const Group& g) const {
      if (!k.g_.of_elements && !k.wants_[0]) return;
      k.for_each_stretch(false, [&](const Stretch& p) {
        for (Index r = 0; r < g.rows; ++r) {
          if (k.g_.of_elements)
            loops().normalize_gradient(place(g, r, p), g.x[r] + p.at, g.dy[r] + p.at, g.mean[r], g.rstd[r], gain + p.at,
                                       g.a[r], g.c[r], behind(dscale, p.at), behind(dbias, p.at), p.count);
          else
            loops().normalize_gradient_shared(place(g, r, p), g.x[r] + p.at, g.dy[r] + p.at, g.mean[r], g.rstd[r],
                                              gain[k.g_.parameter(g.start + r, p.number)], g.a[r], g.c[r], p.count);
        }
      });
    }
    void write_in_turn(const Group& g) const {
      GradientRows rows{.dx = {},
                        .x = g.x,
                        .dy = g.dy,
                        .mean = g.mean,
                        .rstd = g.rstd,
                        .a = g.a,
                        .b = g.c,
                        .gain = gain,
                        .dgain = dscale,
                        .dbias = dbias};
      for (Index r = 0; r < most_rows; ++r) rows.dx[r] = static_cast<float*>(place(g, r, Stretch{}).data);
      loops().normalize_gradient_in_turn(rows, k.g_.length);
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
    const bool whole_lines = writes_behind_ && wants_[0] && on_whole_lines(b.input_gradients[0]);
    const bool behind = whole_lines && of_batch_, in_turn = whole_lines && in_turn_ && g_.length > stretch_elements;
    const Index rows = g_.length > stretch_elements ? group_rows_ : 1;
    Group now, before;
    for (now.start = first; now.start < last; now.start += now.rows) {
      now.rows = std::min(rows, last - now.start);
      std::array<std::array<double, 2>, most_rows> totals{};
      for (Index r = 0; r < now.rows; ++r) {
        const Index row = now.start + r;
        now.x[r] = load_row(x_, b, row * g_.row_stride, g_.length, room + r * g_.length);
        now.dy[r] = load_row(dy_, b, row * g_.row_stride, g_.length, other + r * g_.length);
        now.mean[r] = floats(b.workspace, *kept_)[2 * row];
        now.rstd[r] = floats(b.workspace, *kept_)[2 * row + 1];
      }
      const bool beside = before.rows > 0;
      for_each_stretch(g_.of_elements && (in_turn || rows == 1), [&](const Stretch& p) {
        for (Index r = 0; r < now.rows; ++r) {
          float sums[2];
          loops().normalize_sums(now.x[r] + p.at, now.dy[r] + p.at, now.mean[r], now.rstd[r],
                                 g_.of_elements ? gain + p.at : nullptr, p.count, sums, now.x[r] + ahead(now, p),
                                 now.dy[r] + ahead(now, p), beside ? f.line(before, r, p) : GradientBefore{});
          const Index parameter = g_.of_elements ? 0 : g_.parameter(now.start + r, p.number);
          if (!g_.of_elements && dscale) dscale[parameter] += sums[1];
          if (!g_.of_elements && dbias) dbias[parameter] += sums[0];
          for (const size_t i : {0, 1}) totals[r][i] += g_.of_elements ? sums[i] : gain[parameter] * sums[i];
        }
      });
      for (Index r = 0; r < now.rows; ++r) {
        now.a[r] = centred_ ? static_cast<float>(totals[r][0] / static_cast<double>(g_.length)) : 0.0f;
        now.c[r] = static_cast<float>(totals[r][1] / static_cast<double>(g_.length));
      }
      before = now;
      if (behind) continue;
      if (in_turn && now.rows == most_rows)
        f.write_in_turn(now);
      else
        f.write(now);
      before.rows = 0;
    }
    f.write(before);
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
  bool centred_ = true, of_batch_ = false, has_bias_ = false, streamed_ = false;
  bool writes_behind_ = false, in_turn_ = false, fetches_ = false;
  Operand x_, scale_, bias_, y_, dy_, running_[2];
  std::vector<TensorSpec> outputs_;
  std::vector<bool> wants_;
  int parts_ = 1;
  std::optional<size_t> kept_;  // the statistics' place in the workspace, where backward wants them
  size_t scale_at_ = 0, bias_at_ = 0, parts_at_ = 0, part_bytes_ = 0;
  size_t room_at_ = 0, unwanted_at_ = 0, dscale_at_ = 0, dbias_at_ = 0;
  Index group_rows_ = 1, stretch_ = stretch_elements;
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
