// SPDX-License-Identifier: Apache-2.0
// Attention in blocks of queries whose scores stay in the caches: their products with the keys, softmax of what each
// query sees, the products with the values. Keys that nobody in a block sees are not computed. The heads of Q that
// share one of K and V are one task, which packs these once. In training forward keeps the weights P for backward, and
// where scores are capped the slope of the cap (d5/operators/attention.cpp has the formulas). All sums are of f32.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/backends/onednn/own/attention_loops.hpp"
#include "d5/backends/onednn/own/attention_view.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {

const AttentionLoops& attention_loops() {
  [[maybe_unused]] const std::string_view isa = loops().isa;
#if defined(__x86_64__)
  if (isa == "avx512") return avx512::attention_table;
  if (isa == "avx2") return avx2::attention_table;
#endif
  return baseline::attention_table;
}

namespace {

constexpr Index block_bytes = 1 << 18;  // of scores: a part of what a core has to itself
constexpr Index most_rows = 96;         // of queries in a block
constexpr Index few_rows = 48;          // where each query sees other keys
constexpr Index rows_together = 32;     // that are converted at once

Index rounded_up(Index n, Index to) { return (n + to - 1) / to * to; }

class AttentionKernel final : public OwnKernel {
  using View = AttentionView;

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    for (size_t i = 0; i < std::min<size_t>(setup.inputs.size(), View::key_counts); ++i)
      if (auto reason = wrong_type(setup.inputs[i])) return reason;
    for (const size_t i : {View::q, View::k, View::v})
      if (setup.inputs[i].elements() == 0) return "its kernel wants at least one query, key and value";
    return {};
  }

  void build(const KernelSetup& setup) override {
    view_ = View(setup);
    const AttentionSizes& s = view_.s;
    panel_ = loops_.panel;
    types_.clear();
    for (size_t i = 0; i < 7; ++i)
      types_.push_back(i < setup.inputs.size() && setup.inputs[i].present ? setup.inputs[i].dtype : DType::f32);
    output_types_.clear();
    for (const TensorSpec& spec : setup.outputs) output_types_.push_back(spec.present ? spec.dtype : DType::f32);
    output_types_.resize(4, DType::f32);
    wants_ = setup.wants_gradient;
    wants_.resize(7, false);
    trains_ = std::ranges::find(wants_, true) != wants_.end();

    // Rows a power of two apart would displace each other.
    row_ = rounded_up(s.keys, panel_);
    if (row_ % 256 == 0) row_ += 16;
    const Index fit = block_bytes / (row_ * static_cast<Index>(sizeof(float)));
    group_ = s.group();
    group_rows_ = group_ * s.queries;
    const Index most = view_.causal || view_.left >= 0 || view_.right >= 0 ? few_rows : most_rows;
    block_ = std::min(group_rows_, std::clamp(fit / loops_.rows * loops_.rows, loops_.rows, most));
    blocks_ = (group_rows_ + block_ - 1) / block_;
    if (group_rows_ % block_ < block_ / 2) block_ = (group_rows_ + blocks_ - 1) / blocks_;  // none is small
    parts_ = threads();
    const Index groups = s.batch * s.kv_heads;
    shares_ = std::min<Index>((parts_ + groups - 1) / groups, blocks_);

    const auto floats_of = [](Index n) { return static_cast<size_t>(n) * sizeof(float); };
    const Index scores = s.batch * s.heads * s.queries * row_;
    if (trains_) {
      weights_at_ = need_workspace(floats_of(scores));
      if (view_.cap > 0) slopes_at_ = need_workspace(floats_of(scores));
    }
    plan_scratch(scores);

    memory_.backward_inputs = std::vector<bool>{true, true, true, false, true, true, true};
    memory_.backward_outputs.emplace();
    // Where one tensor is all three of Q, K and V, only the first of its gradients comes in time to be added to.
    memory_.adds_gradient = {types_[View::q] == DType::f32};
  }

  void run(Pass pass, const Buffers& b) override {
    view_.check_counts(b);
    const Index groups = view_.s.batch * view_.s.kv_heads;
    const auto part = [&](int number) {
      return Part{*this, b, static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(number)};
    };
    if (pass == Pass::forward)
      return for_each_part(parts_, groups * shares_, [&](int number, Index first, Index last) {
        for (Index i = first; i < last; ++i) part(number).forward_group(i / shares_, i % shares_);
      });
    for_each_part(parts_, groups, [&](int number, Index first, Index last) {
      for (Index i = first; i < last; ++i) part(number).backward_group(i);
    });
    if (!wants_[View::mask] || !b.input_gradients[View::mask]) return;
    for_each_part(parts_, view_.mask_rows(), [&](int number, Index first, Index last) {
      for (Index i = first; i < last; ++i) part(number).mask_gradient(i);
    });
  }

 private:
  void plan_scratch(Index scores) {
    const AttentionSizes& s = view_.s;
    const Index key_panels = rounded_up(s.keys, panel_), width = std::max(s.size, s.v_size),
                widest = rounded_up(width, panel_);
    ScratchPlan part;
    rows_at_ = part.take_floats(rows_together * width);
    scores_at_ = part.take_floats(block_ * row_);
    columns_at_ = part.take_floats((trains_ || blocks_ > 1 ? key_panels : panel_) * width);
    panels_at_ = part.take_floats(widest * s.keys);
    left_at_ = part.take_floats(block_ * width);
    result_at_ = part.take_floats(block_ * widest);
    if (trains_) {
      right_at_ = part.take_floats(block_ * widest);
      dk_at_ = part.take_floats(s.keys * widest);
      dv_at_ = part.take_floats(s.keys * widest);
    }
    part_bytes_ = part.bytes();
    size_t bytes = part_bytes_ * static_cast<size_t>(parts_);
    all_slopes_at_ = bytes;
    if (wants_[View::mask]) bytes += static_cast<size_t>(scores) * sizeof(float);
    need_scratch(bytes);
  }

  // What one thread does.
  struct Part {
    const AttentionKernel& k;
    const Buffers& b;
    char* scratch;
    const AttentionSizes& s = k.view_.s;
    const AttentionLoops& l = k.loops_;
    const Loops& f = loops();
    const Index panel = k.panel_;

    float* room(size_t at) const { return floats(scratch, at); }

    // ---- keys and values
    struct Group {  // one head of K and V, and the heads of Q that share it
      Index number, sample, kv;
    };
    Group group(Index number) const { return {number, number / s.kv_heads, number % s.kv_heads}; }
    struct Source {  // where rows of K or V come from
      size_t now, past, present;
      Index width;
    };
    Source keys() const { return {View::k, View::past_key, View::present_key, s.size}; }
    Source values() const { return {View::v, View::past_value, View::present_value, s.v_size}; }

    // These rows of one head in runs, those of the past first: f(first row, values, distance, count).
    template <class F>
    void each_run(const Source& from, const Group& g, KeyRange wanted, const F& f) const {
      const DType type = k.types_[from.now];
      if (const Index count = std::min(wanted.last, s.past) - wanted.first; count > 0)
        f(wanted.first, values_at(type, b.inputs[from.past], (g.number * s.past + wanted.first) * from.width),
          from.width, count);
      const Index first = std::max(wanted.first, s.past);
      if (first < wanted.last)
        f(first,
          values_at(type, b.inputs[from.now],
                    s.row(g.sample, g.kv, first - s.past, s.kv_heads, s.keys - s.past, from.width)),
          s.packed ? s.kv_heads * from.width : from.width, wanted.last - first);
    }
    // The same in f32: as they lie, or a few at a time.
    template <class F>
    void each_wide_run(const Source& from, const Group& g, KeyRange wanted, const F& f) const {
      each_run(from, g, wanted, [&](Index first, const Values& values, Index distance, Index count) {
        if (values.type == Element::f32) return f(first, static_cast<const float*>(values.data), distance, count);
        for (Index r = 0; r < count; r += rows_together) {
          const Index rows = std::min(rows_together, count - r);
          for (Index i = 0; i < rows; ++i)
            this->f.convert(values_at(k.types_[from.now], values.data, (r + i) * distance),
                            {room(k.rows_at_) + i * from.width}, from.width);
          f(first + r, static_cast<const float*>(room(k.rows_at_)), from.width, rows);
        }
      });
    }

    // As right factors: as they lie where that is good enough, else packed. Rows a power of two apart displace each
    // other from the caches, which one block of queries does not mind.
    bool lies_well(Index distance, Index width) const {
      return width % l.width == 0 && (k.blocks_ == 1 || distance * static_cast<Index>(sizeof(float)) % 1024 != 0);
    }
    Panels panels(const Source& from, const Group& g) const {
      const Index distance = s.packed ? s.kv_heads * from.width : from.width;
      if (k.types_[from.now] == DType::f32 && s.past == 0 && lies_well(distance, from.width))
        return {
            static_cast<const float*>(b.inputs[from.now]) + s.row(g.sample, g.kv, 0, s.kv_heads, s.keys, from.width),
            panel, distance};
      float* to = room(k.panels_at_);
      each_wide_run(from, g, {0, s.keys}, [&](Index first, const float* rows, Index distance, Index count) {
        l.pack(to + first * panel, s.keys * panel, rows, distance, count, from.width);
      });
      return {to, s.keys * panel, panel};
    }
    static Panels from_row(const Panels& p, Index row) { return {p.data + row * p.row, p.stride, p.row}; }

    // factor * their transpose, panels one behind the other; `wanted` begins with a whole one.
    Panels columns(const Source& from, const Group& g, KeyRange wanted, float factor) const {
      const Index stride = from.width * panel, rest = wanted.last % panel;
      float* to = room(k.columns_at_);
      each_wide_run(from, g, wanted, [&](Index first, const float* rows, Index distance, Index count) {
        for (Index i = 0; i < count;) {
          const Index key = first - wanted.first + i, n = std::min(count - i, panel - key % panel);
          f.transpose_4(reinterpret_cast<uint32_t*>(to + key / panel * stride + key % panel), panel,
                        reinterpret_cast<const uint32_t*>(rows + i * distance), distance, from.width, n, false);
          i += n;
        }
      });
      for (Index r = 0; rest > 0 && r < from.width; ++r)
        f.fill(to + wanted.size() / panel * stride + r * panel + rest, 0.0f, panel - rest);
      if (factor != 1) f.scale({to}, to, factor, 0.0f, rounded_up(wanted.size(), panel) * from.width);
      return {to, stride, panel};
    }

    // ---- queries: rows of a group, of all its heads, one head behind the other
    struct Block {
      Group g;
      Index first, rows;
      KeyRange keys;  // that one of them sees, from a whole panel on
      KeyRange seen[most_rows];
    };
    Index head(const Group& g, Index row) const { return g.kv * k.group_ + row / s.queries; }
    Index query(Index row) const { return row % s.queries; }
    // Where a row's scores begin, `length` of them in a row.
    Index scores(const Group& g, Index row, Index length) const {
      return ((g.sample * s.heads + head(g, row)) * s.queries + query(row)) * length;
    }
    Block block(const Group& g, Index number) const {
      Block one{g, number * k.block_, std::min(k.block_, k.group_rows_ - number * k.block_), {s.keys, 0}, {}};
      for (Index i = 0, from = query(one.first); i < one.rows; ++i, from = from + 1 == s.queries ? 0 : from + 1) {
        const KeyRange seen = one.seen[i] = k.view_.seen(b, g.sample, from);
        if (seen.empty()) continue;
        one.keys = {std::min(one.keys.first, seen.first / panel * panel), std::max(one.keys.last, seen.last)};
      }
      if (one.keys.empty()) one.keys = {};
      if (k.view_.shows) one.keys = {0, s.keys};
      for (Index i = 0; i < one.rows; ++i)
        if (one.seen[i].empty()) one.seen[i] = {one.keys.last, one.keys.last};
      return one;
    }

    // Rows of Q, of Y or of their gradients.
    struct Rows {
      DType type;
      void* data;
      Index width;
    };
    Index place(const Block& one, Index i, Index width) const {
      return s.row(one.g.sample, head(one.g, one.first + i), query(one.first + i), s.heads, s.queries, width);
    }
    // How far apart they lie, where they are equally far from each other.
    std::optional<Index> distance(const Block& one, Index width) const {
      if (!s.packed || s.queries == 1) return width;
      if (query(one.first) + one.rows <= s.queries) return s.heads * width;
      return {};
    }
    LeftFactor left(const Block& one, const Rows& from) const {
      const auto apart = distance(one, from.width);
      if (from.type == DType::f32 && apart)
        return {static_cast<const float*>(from.data) + place(one, 0, from.width), *apart, 1};
      float* to = room(k.left_at_);
      for (Index i = 0; i < one.rows; ++i)
        f.convert(values_at(from.type, from.data, place(one, i, from.width)), {to + i * from.width}, from.width);
      return {to, from.width, 1};
    }
    Panels right(const LeftFactor& rows, Index count, Index width) const {
      if (width % l.width == 0) return {rows.data, panel, rows.row};
      float* to = room(k.right_at_);
      l.pack(to, count * panel, rows.data, rows.row, count, width);
      return {to, count * panel, panel};
    }
    // a times the panels, to rows of Y or of a gradient.
    void multiply(const Block& one, const LeftFactor& a, const Panels& p, const Rows& to, bool adds) const {
      const auto apart = distance(one, to.width);
      if (to.type == DType::f32 && apart && to.width % l.width == 0)
        return l.product(a, p, static_cast<float*>(to.data) + place(one, 0, to.width), *apart, one.rows, to.width,
                         one.keys.size(), adds);
      const Index row = rounded_up(to.width, panel);
      float* y = room(k.result_at_);
      l.product(a, p, y, row, one.rows, to.width, one.keys.size(), false);
      for (Index i = 0; i < one.rows; ++i) give(to.type, to.data, place(one, i, to.width), y + i * row, to.width, adds);
    }
    void give(DType type, void* to, Index offset, float* x, Index n, bool adds) const {
      if (adds)
        f.merge[static_cast<size_t>(Reduce::sum)](static_cast<float*>(to) + offset, x, n);
      else
        f.convert({x}, place_at(type, to, offset), n);
    }

    // ---- forward
    void forward_group(Index number, Index share) const {
      const Group g = group(number);
      if (share == 0) {
        join(keys(), g);
        join(values(), g);
      }
      const Panels v = panels(values(), g);
      std::optional<Panels> all;
      if (k.blocks_ > 1) all = columns(keys(), g, {0, s.keys}, k.view_.scale);
      for (Index i = share; i < k.blocks_; i += k.shares_) forward_block(block(g, i), all, v);
    }

    void join(const Source& from, const Group& g) const {
      if (from.present >= b.outputs.size() || !b.outputs[from.present]) return;
      const Index bytes = tile_type_bytes(k.types_[from.now]);
      char* to = static_cast<char*>(b.outputs[from.present]) + g.number * s.keys * from.width * bytes;
      each_run(from, g, {0, s.keys}, [&](Index first, const Values& rows, Index distance, Index count) {
        for (Index i = 0; i < count; ++i)
          std::memcpy(to + (first + i) * from.width * bytes, static_cast<const char*>(rows.data) + i * distance * bytes,
                      static_cast<size_t>(from.width * bytes));
      });
    }

    // Columns of all keys, or none: then they are made for one panel after the other.
    void forward_block(const Block& one, const std::optional<Panels>& all, const Panels& v) const {
      const Index at = scores(one.g, one.first, k.row_), row = k.row_;
      float* x = k.trains_ ? floats(b.workspace, k.weights_at_) + at : room(k.scores_at_);
      const LeftFactor q = left(one, {k.types_[View::q], b.inputs[View::q], s.size});
      if (all)
        l.product(q, {all->data + one.keys.first * s.size, all->stride, panel}, x + one.keys.first, row, one.rows,
                  one.keys.size(), s.size, false);
      for (Index key = one.keys.first; key < one.keys.last && !all; key += panel) {
        const KeyRange some{key, std::min(key + panel, one.keys.last)};
        l.product(q, columns(keys(), one.g, some, k.view_.scale), x + key, row, one.rows, some.size(), s.size, false);
      }
      if (k.view_.shows || k.view_.masked || k.view_.cap > 0)
        for (Index i = 0; i < one.rows; ++i) mask(one, i, x + i * row);
      l.softmax({x, row, one.rows, one.keys, one.seen});
      for (Index i = 0; i < one.rows; ++i) show(one, i, x + i * row, 3);
      multiply(one, {x + one.keys.first, row, 1}, from_row(v, one.keys.first),
               {k.output_types_[View::y], b.outputs[View::y], s.v_size}, false);
    }

    // The products of one query become its scores.
    void mask(const Block& one, Index i, float* x) const {
      const View& view = k.view_;
      const KeyRange seen = one.seen[i];
      float cap = view.cap;
      float* slope = nullptr;
      if (k.trains_ && cap > 0) slope = floats(b.workspace, k.slopes_at_) + scores(one.g, one.first + i, k.row_);
      show(one, i, x, 0);
      if (view.shows && view.mode == 1 && cap > 0) {
        l.mask_scores(x, {nullptr}, cap, slope, s.keys);
        cap = 0;
      }
      show(one, i, x, 1);
      l.mask_scores(x + seen.first,
                    view.mask_row(b, k.types_[View::mask], one.g.sample, head(one.g, one.first + i),
                                  query(one.first + i), seen.first),
                    cap, cap > 0 && slope ? slope + seen.first : nullptr, seen.size());
      if (!view.shows || view.mode != 2) return;
      f.fill(x, -INFINITY, seen.first);
      f.fill(x + seen.last, -INFINITY, s.keys - seen.last);
      show(one, i, x, 2);
    }
    void show(const Block& one, Index i, const float* x, Index mode) const {
      if (!k.view_.shows || k.view_.mode != mode) return;
      f.convert({x},
                place_at(k.output_types_[View::shown], b.outputs[View::shown], scores(one.g, one.first + i, s.keys)),
                s.keys);
    }

    // ---- backward
    // Gradients of the rows of one head of K or V: in their place, or beside it.
    struct Sums {
      float* data;  // null: nobody wants them
      Index row, width;
      bool in_place, adds;
    };
    Sums sums(const Source& of, const Group& g, float* beside) const {
      if (!gradient(of.now) && !gradient(of.past)) return {};
      if (k.types_[of.now] != DType::f32 || s.past > 0 || of.width % l.width != 0 || present_gradient(of))
        return {beside, rounded_up(of.width, panel), of.width, false, false};
      return {static_cast<float*>(gradient(of.now)) + s.row(g.sample, g.kv, 0, s.kv_heads, s.keys, of.width),
              s.packed ? s.kv_heads * of.width : of.width, of.width, true, adds(of.now)};
    }
    // Before the first block, which gives the sums of these keys.
    void begin(Sums& sums, KeyRange of) const {
      if (!sums.data || sums.adds || of.size() == s.keys) return;
      for (Index i = 0; i < s.keys; ++i) f.fill(sums.data + i * sums.row, 0.0f, sums.width);
      sums.adds = true;
    }
    void add(Sums& sums, const float* scores, const Panels& p, const Block& one) const {
      if (!sums.data) return;
      l.product({scores + one.keys.first, 1, k.row_}, p, sums.data + one.keys.first * sums.row, sums.row,
                one.keys.size(), sums.width, one.rows, sums.adds);
      sums.adds = true;
    }

    // The last block first: under causality it sees all keys.
    void backward_group(Index number) const {
      const Group g = group(number);
      Sums dk = sums(keys(), g, room(k.dk_at_)), dv = sums(values(), g, room(k.dv_at_));
      const Panels key = panels(keys(), g), v = columns(values(), g, {0, s.keys}, 1);
      for (Index i = k.blocks_; i-- > 0;) {
        Block one = block(g, i);
        if (!b.output_gradients[View::y]) one.keys = {};
        if (i == k.blocks_ - 1) {
          begin(dk, one.keys);
          begin(dv, one.keys);
        }
        backward_block(one, key, v, dk, dv);
      }
      give_rows(keys(), g, dk);
      give_rows(values(), g, dv);
    }

    void backward_block(const Block& one, const Panels& key, const Panels& v, Sums& dk, Sums& dv) const {
      const Index at = scores(one.g, one.first, k.row_), row = k.row_;
      float* ds = room(k.scores_at_);
      if (!one.keys.empty()) {
        const float* p = floats(b.workspace, k.weights_at_) + at;
        const LeftFactor dy = left(one, {k.output_types_[View::y], b.output_gradients[View::y], s.v_size});
        l.product(dy, {v.data + one.keys.first * s.v_size, v.stride, panel}, ds + one.keys.first, row, one.rows,
                  one.keys.size(), s.v_size, false);
        l.softmax_gradient({ds, row, one.rows, one.keys, one.seen}, p, k.view_.scale);
        add(dv, p, right(dy, one.rows, s.v_size), one);  // the weights have come from memory, row by row
        for (Index i = 0; i < one.rows && (gradient(View::mask) || k.view_.cap > 0); ++i)
          unmask(one.keys, one.seen[i], ds + i * row, at + i * row);
        const LeftFactor q = left(one, {k.types_[View::q], b.inputs[View::q], s.size});
        add(dk, ds, right(q, one.rows, s.size), one);
      }
      if (gradient(View::q))
        multiply(one, {ds + one.keys.first, row, 1}, from_row(key, one.keys.first),
                 {k.types_[View::q], gradient(View::q), s.size}, adds(View::q));
    }
    // Gradients of one query's scores become those of its products. `at`: where they lie among all scores.
    void unmask(KeyRange keys, KeyRange seen, float* ds, Index at) const {
      if (gradient(View::mask))
        std::memcpy(floats(b.scratch, k.all_slopes_at_) + at + keys.first, ds + keys.first,
                    static_cast<size_t>(keys.size()) * sizeof(float));
      if (k.view_.cap == 0) return;
      const Values in[2] = {{ds + seen.first}, {floats(b.workspace, k.slopes_at_) + at + seen.first}};
      k.product_->value(in, {ds + seen.first}, seen.size(), k.none_);
    }

    void* gradient(size_t input) const { return input < b.input_gradients.size() ? b.input_gradients[input] : nullptr; }
    bool adds(size_t input) const { return input < b.adds.size() && b.adds[input]; }
    const void* present_gradient(const Source& of) const {
      return of.present < b.output_gradients.size() ? b.output_gradients[of.present] : nullptr;
    }
    // Also what reaches them as a part of the present ones.
    void give_rows(const Source& of, const Group& g, const Sums& sums) const {
      if (!sums.data || sums.in_place) return;
      const DType type = k.types_[of.now];
      for (Index i = 0; i < s.keys; ++i) {
        const size_t input = i < s.past ? of.past : of.now;
        if (!gradient(input)) continue;
        float* x = sums.data + i * sums.row;
        if (const void* more = present_gradient(of))
          f.merge[static_cast<size_t>(Reduce::sum)](
              x, load(type, more, (g.number * s.keys + i) * of.width, of.width, room(k.rows_at_)), of.width);
        give(type, gradient(input),
             i < s.past ? (g.number * s.past + i) * of.width
                        : s.row(g.sample, g.kv, i - s.past, s.kv_heads, s.keys - s.past, of.width),
             x, of.width, adds(input));
      }
    }

    // Row `number` of the mask: the sum over all queries that have it.
    void mask_gradient(Index number) const {
      const View& view = k.view_;
      float* sum = room(k.scores_at_);
      f.fill(sum, 0.0f, view.mask_keys);
      const Index all[3] = {s.batch, s.heads, s.queries};
      Index first[3], last[3], rest = number;
      for (size_t axis = 3; axis-- > 0; rest /= view.mask_sizes[axis]) {
        first[axis] = view.mask_sizes[axis] == 1 ? 0 : rest % view.mask_sizes[axis];
        last[axis] = view.mask_sizes[axis] == 1 ? all[axis] : first[axis] + 1;
      }
      for (Index sample = first[0]; sample < last[0] && b.output_gradients[View::y]; ++sample)
        for (Index head = first[1]; head < last[1]; ++head)
          for (Index query = first[2]; query < last[2]; ++query) {
            const KeyRange seen = view.seen(b, sample, query);
            const float* ds = floats(b.scratch, k.all_slopes_at_) +
                              ((sample * s.heads + head) * s.queries + query) * k.row_ + seen.first;
            f.merge[static_cast<size_t>(Reduce::sum)](sum + seen.first, ds, seen.size());
          }
      f.scale(place_at(k.types_[View::mask], gradient(View::mask), number * view.mask_keys), sum, 1.0f / view.scale,
              0.0f, view.mask_keys);
    }
  };

  const AttentionLoops& loops_ = attention_loops();
  AttentionView view_;
  std::vector<DType> types_, output_types_;
  std::vector<bool> wants_;
  bool trains_ = false;  // something wants a gradient
  int parts_ = 1;
  Index panel_ = 1, row_ = 1;                                               // of scores
  Index group_ = 1, group_rows_ = 1, block_ = 1, blocks_ = 1, shares_ = 1;  // of queries; shares: tasks of one group
  size_t weights_at_ = 0, slopes_at_ = 0;                                   // in the workspace
  size_t part_bytes_ = 0, rows_at_ = 0, scores_at_ = 0, columns_at_ = 0, panels_at_ = 0, left_at_ = 0, right_at_ = 0,
         result_at_ = 0, dk_at_ = 0, dv_at_ = 0, all_slopes_at_ = 0;
  const TileFunctions* product_ = &functions("product");
  const float none_[4] = {};
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Attention", "builtin", AttentionKernel);
}  // namespace d5::onednn::own
