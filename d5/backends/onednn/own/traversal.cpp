// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/traversal.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "d5/core/parallel.hpp"

namespace d5::onednn::own {
namespace {

constexpr size_t most_axes = 16, most_sources = 32, most_inputs = 4;
constexpr Index long_elements = 1 << 14;                     // of a piece that needs no tile
constexpr Index shared_elements = 1 << 11, shared_rows = 8;  // of pieces that rows share, and rows that do
constexpr Index rows_at_once = 8;                            // of rows that are combined element by element

float start_of(Reduce how) {
  switch (how) {
    case Reduce::sum:
    case Reduce::sum_of_magnitudes:
    case Reduce::sum_of_squares: return 0;
    case Reduce::product:
    case Reduce::product_zeros: return 1;
    case Reduce::min:
    case Reduce::min_ties: return INFINITY;
    default: return -INFINITY;
  }
}

// The results of a reduction on the way; the second number of each only where they are pairs.
struct Sums {
  Reduce how;
  float *first, *second;

  void clear(Index n) const {
    std::fill_n(first, n, start_of(how));
    if (second) std::fill_n(second, n, 0.0f);
  }
  // Element by element, of so many rows.
  void add(Index at, const float* x, Index n, Index stride = 0, Index rows = 1) const {
    if (!second) return loops().merge_rows[static_cast<size_t>(how)](first + at, x, stride, rows, n);
    loops().merge_pairs[pair_index(how)](first + at, second + at, x, stride, rows, n);
  }
  // All n into one.
  void add_all(Index at, const float* x, Index n) const {
    float pair[2];
    if (second) {
      loops().reduce_pair[pair_index(how)](x, n, pair);
      return join(at, pair[0], pair[1]);
    }
    pair[0] = loops().reduce[static_cast<size_t>(how)](x, n);
    if (start_of(how) == 0)
      first[at] += pair[0];
    else
      loops().merge[static_cast<size_t>(how)](first + at, pair, 1);
  }
  void join(Index at, float other, float more) const {
    float &mine = first[at], &mores = second[at];
    if (how == Reduce::product_zeros) {
      mine *= other;
      mores += more;
    } else if (how == Reduce::log_sum_exp) {
      const float now = mine > other || mine != mine ? mine : other;
      const auto share = [now](float top, float sum) {
        return sum == 0 ? 0 : top == now ? sum : sum * std::exp(top - now);
      };
      mores = share(mine, mores) + share(other, more);
      mine = now;
    } else if (other == mine) {
      mores += more;
    } else if (other != other || (how == Reduce::max_ties ? other > mine : other < mine)) {
      mine = other;
      mores = more;
    }
  }
  // Stores n results; `at` is where they are here, `offset` where they go.
  void finish(const Finish& f, const Operand& target, const Buffers& b, Index at, Index offset, Index n,
              bool streamed) const {
    if (f.keep_first) store(DType::f32, f.keep_first->data(b), offset, first + at, n);
    const Values in[2] = {{first + at}, {second ? second + at : nullptr}};
    if (f.keep_second) {
      const Place kept = place_at(DType::f32, f.keep_second->data(b), offset);
      const auto& function = f.function_of_second;
      function ? function(in + 1, kept, n, f.parameters.data()) : loops().convert(in[1], kept, n);
    }
    const Place to = place_at(target.type, target.data(b), offset, streamed);
    f.function ? f.function(in, to, n, f.parameters.data()) : loops().convert(in[0], to, n);
  }
};

}  // namespace

struct Traversal::Position {
  const std::vector<Index>& sizes;
  std::array<Index, most_axes> at{};

  void set_row(Index row) {
    for (size_t axis = sizes.size() - 1; axis-- > 0; row /= sizes[axis]) at[axis] = row % sizes[axis];
  }
  // The axes where `strides` are zero count `reduced`, the others `kept`.
  void set(Index kept, Index reduced, const std::vector<Index>& strides) {
    for (size_t axis = sizes.size() - 1; axis-- > 0;) {
      Index& rest = strides[axis] != 0 ? kept : reduced;
      at[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
  }
  void next() {
    for (size_t axis = sizes.size() - 1; axis-- > 0;) {
      if (++at[axis] < sizes[axis]) return;
      at[axis] = 0;
    }
  }
  Index offset(const std::vector<Index>& strides) const {
    Index sum = 0;
    for (size_t axis = 0; axis + 1 < sizes.size(); ++axis) sum += at[axis] * strides[axis];
    return sum;
  }
};

// What one thread does: it finds sources, or makes tiles of them, and runs chains.
struct Traversal::Worker {
  const Traversal& t;
  const Buffers& buffers;
  char* scratch;
  std::array<Values, most_sources> tiles{};
  std::array<bool, most_sources> ready{};
  Index row = -1;  // the last one loaded

  float* buffer(size_t s) const { return reinterpret_cast<float*>(scratch + s * tile_bytes); }
  float* result() const { return buffer(t.sources_.size()); }
  float* partial(const Target& target) const { return reinterpret_cast<float*>(scratch + target.partial); }
  Sums sums(const Target& target) const {
    return {target.how, partial(target), is_pair(target.how) ? partial(target) + target.elements : nullptr};
  }

  void load_sources(const Position& position, const Unit& u) {
    const bool same_row = u.row == row;
    row = u.row;
    for (size_t s = 0; s < t.sources_.size(); ++s) {
      if (ready[s] || (same_row && t.sources_[s].of_row)) continue;
      tiles[s] = load_source(s, position, u);
      ready[s] = t.sources_[s].fixed;
    }
  }

  Values load_source(size_t s, const Position& position, const Unit& u) const {
    const Source& source = t.sources_[s];
    float* to = buffer(s);
    if (source.is_constant) {
      loops().fill(to, source.value, tile_elements);
      return {to};
    }
    const void* base = source.operand.data(buffers);
    const DType type = source.operand.type;
    const Index step = source.strides.back(), offset = position.offset(source.strides) + u.inner * step;
    if (step != 0 && (u.rows == 1 || source.flat)) return values_at(type, base, offset);
    Position at = position;
    for (Index r = 0; r < u.rows; ++r, at.next()) {
      const Index from = at.offset(source.strides) + u.inner * step;
      if (step != 0)
        loops().convert(values_at(type, base, from), {to + r * u.length}, u.length);
      else
        loops().fill(to + r * u.length, load_one(type, base, from), u.length);
    }
    return {to};
  }

  // The chain on n elements; the last link writes to `last`, unless it is a source as it is.
  Values run_chain(const Target& target, const Place& last, Index n) const {
    Values in[most_inputs], previous{};
    for (const Link& link : target.chain) {
      if (!link.function) {
        previous = tiles[link.sources[0]];
        continue;
      }
      for (size_t k = 0; k < link.sources.size(); ++k)
        in[k] = link.sources[k] == Link::previous ? previous : tiles[link.sources[k]];
      const Place out = &link == &target.chain.back() ? last : Place{result()};
      link.function(in, out, n, link.parameters.data());
      previous = {out.data, out.type};
    }
    return previous;
  }

  const float* floats_of(const Target& target, Index n) const {
    const Values found = run_chain(target, {result()}, n);
    if (found.type == Element::f32) return static_cast<const float*>(found.data);
    loops().convert(found, {result()}, n);
    return result();
  }

  void write(const Target& target, Index offset, Index n) const {
    const Place to = place_at(target.operand.type, target.operand.data(buffers), offset, t.streamed_);
    const Values found = run_chain(target, to, n);
    if (found.data != to.data) loops().convert(found, to, n);
  }
};

size_t Traversal::read(const Operand& operand) {
  for (size_t s = 0; s < sources_.size(); ++s)
    if (!sources_[s].is_constant && sources_[s].operand.part == operand.part &&
        sources_[s].operand.index == operand.index)
      return s;
  sources_.push_back({operand, false, 0, broadcast_strides(operand.shape, space_), false, false, false});
  return sources_.size() - 1;
}

bool Traversal::reads(Part part, size_t index) const {
  return std::ranges::any_of(
      sources_, [&](const Source& s) { return !s.is_constant && s.operand.part == part && s.operand.index == index; });
}

// A tile is read before its place is written, and only once.
bool Traversal::works_in_place(Part part, size_t index) const {
  if (targets_.size() != 1 || targets_[0].reduced) return false;
  return std::ranges::any_of(sources_, [&](const Source& s) {
    return !s.is_constant && s.operand.part == part && s.operand.index == index && s.flat &&
           s.operand.type == targets_[0].operand.type;
  });
}

size_t Traversal::constant(float value) {
  sources_.push_back({{}, true, value, std::vector<Index>(space_.rank(), 0), false, true, false});
  return sources_.size() - 1;
}

void Traversal::write(const Operand& target, std::vector<Link> chain) {
  targets_.push_back({target, std::move(chain), false, Reduce::sum, {}, space_.strides()});
}

void Traversal::reduce(const Operand& target, std::vector<Link> chain, Reduce how, Finish finish) {
  targets_.push_back({target, std::move(chain), true, how, std::move(finish), broadcast_strides(target.shape, space_)});
  targets_.back().elements = target.shape.elements();
}

// Axes of one element go, neighbours that every tensor walks through in one stride become one.
void Traversal::collapse() {
  std::vector<std::vector<Index>*> all;
  for (Source& s : sources_) all.push_back(&s.strides);
  for (Target& t : targets_) all.push_back(&t.strides);
  sizes_ = space_.sizes();
  for (size_t axis = sizes_.size(); axis-- > 0;) {
    const bool merges = axis + 1 < sizes_.size() && std::ranges::all_of(all, [&](const auto* strides) {
                          return (*strides)[axis] == (*strides)[axis + 1] * sizes_[axis + 1];
                        });
    if (merges) sizes_[axis + 1] *= sizes_[axis];
    if (!merges && sizes_[axis] != 1) continue;
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(axis));
    for (auto* strides : all) strides->erase(strides->begin() + static_cast<std::ptrdiff_t>(axis));
  }
  if (!sizes_.empty()) return;
  sizes_.push_back(1);
  for (auto* strides : all) strides->push_back(1);
}

void Traversal::prepare() {
  if (sources_.size() > most_sources || space_.rank() > most_axes)
    throw Error("[onednn] {} sources over {} axes; at most {} over {}", sources_.size(), space_.rank(), most_sources,
                most_axes);
  parts_ = threads();
  double bytes = 0;
  for (const Source& s : sources_)
    if (!s.is_constant) bytes += static_cast<double>(s.operand.shape.elements() * tile_type_bytes(s.operand.type));
  for (const Target& t : targets_)
    bytes += static_cast<double>(t.operand.shape.elements() * tile_type_bytes(t.operand.type));
  streamed_ = exceeds_caches(bytes);
  collapse();
  const auto flat = Shape(sizes_).strides();
  for (Source& s : sources_) s.flat = !s.is_constant && s.strides == flat;
  length_ = sizes_.back();
  rows_ = 1;
  for (size_t axis = 0; axis + 1 < sizes_.size(); ++axis) rows_ *= sizes_[axis];
  unit_ = needs_tiles() ? tile_elements : long_elements;
  rows_per_unit_ = std::max<Index>(1, tile_elements / std::max<Index>(1, length_));
  const bool as_they_lie = std::ranges::all_of(sources_, [](const Source& s) { return s.flat; });
  if (!needs_tiles() && as_they_lie && length_ <= unit_) rows_per_unit_ = std::max(rows_per_unit_, rows_at_once);
  // What all rows share (a bias) stays in the first cache while its piece meets several of them.
  const bool writes = std::ranges::none_of(targets_, [](const Target& t) { return t.reduced; });
  const bool shares = std::ranges::any_of(sources_, [](const Source& s) {
    return !s.is_constant && s.strides.size() > 1 && s.strides.back() != 0 && s.strides[s.strides.size() - 2] == 0;
  });
  group_ = streamed_ && writes && shares && length_ >= 2 * shared_elements ? shared_rows : 1;
  if (group_ > 1) unit_ = std::min(unit_, shared_elements);
  pieces_per_row_ = (length_ + unit_ - 1) / unit_;

  gathered_ = targets_.size() == 1 && targets_[0].reduced && targets_[0].elements > most_partials;
  for (Source& s : sources_) {
    if (s.is_constant) continue;
    const bool outer = std::all_of(s.strides.begin(), s.strides.end() - 1, [](Index i) { return i == 0; });
    s.fixed = !gathered_ && outer && (pieces_per_row_ <= 1 || s.strides.back() == 0);
    s.of_row = !gathered_ && pieces_per_row_ > 1 && s.strides.back() == 0;
  }
  flat_ = std::ranges::all_of(sources_, [](const Source& s) { return s.flat || s.is_constant; }) &&
          std::ranges::none_of(targets_, [](const Target& t) { return t.reduced; });
  part_bytes_ = (sources_.size() + 1) * tile_bytes;
  for (Target& t : targets_) {
    if (!t.reduced) continue;
    t.partial = part_bytes_;
    if (gathered_) t.elements = std::max(unit_, tile_elements);  // of a unit
    part_bytes_ += aligned_bytes((is_pair(t.how) ? 2 : 1) * static_cast<size_t>(t.elements) * sizeof(float));
  }
}

// Whether anything must be converted, repeated or kept between functions. Several targets share what they read while it
// is in the first cache.
bool Traversal::needs_tiles() const {
  if (targets_.size() > 1) return true;
  for (const Source& s : sources_)
    if (s.is_constant || s.strides.back() == 0) return true;
  const Target& t = targets_[0];
  const auto functions = std::ranges::count_if(t.chain, [](const Link& link) { return link.function != nullptr; });
  const bool wide = sources_[t.chain[0].sources[0]].operand.type == DType::f32;
  return t.reduced ? functions > 0 || !wide : functions > 1;
}

Index Traversal::units() const {
  if (flat_) return (space_.elements() + unit_ - 1) / unit_;
  if (length_ == 0 || rows_ == 0) return 0;
  return pieces_per_row_ > 1 ? rows_ * pieces_per_row_ : (rows_ + rows_per_unit_ - 1) / rows_per_unit_;
}

Traversal::Unit Traversal::unit(Index number) const {
  if (pieces_per_row_ > 1) {
    const Index first = number / (group_ * pieces_per_row_) * group_, rows = std::min(group_, rows_ - first);
    const Index place = number - first * pieces_per_row_, inner = place / rows * unit_;
    return {first + place % rows, 1, inner, std::min(unit_, length_ - inner)};
  }
  const Index row = number * rows_per_unit_;
  return {row, std::min(rows_per_unit_, rows_ - row), 0, length_};
}

void Traversal::run_part(int part, const Buffers& buffers) const {
  const auto of_row = [](const Target& t) {  // one result for each element of a row, whichever row it is
    return t.strides.back() != 0 && std::all_of(t.strides.begin(), t.strides.end() - 1, [](Index i) { return i == 0; });
  };
  Worker worker{*this, buffers, part_scratch(buffers, part)};
  for (const Target& t : targets_)
    if (t.reduced) worker.sums(t).clear(t.elements);
  const Index count = units(), first = count * part / parts_, last = count * (part + 1) / parts_;
  Position position{sizes_};
  Index row = -1;
  for (Index number = first; number < last; ++number) {
    const Unit u = unit(number);
    if (u.row != row) position.set_row(u.row);
    row = u.row;
    worker.load_sources(position, u);
    for (const Target& t : targets_) {
      if (!t.reduced) {
        worker.write(t, u.row * length_ + u.inner, u.elements());
        continue;
      }
      const float* values = worker.floats_of(t, u.elements());
      const Sums sums = worker.sums(t);
      if (of_row(t)) {
        sums.add(u.inner, values, u.length, u.length, u.rows);
        continue;
      }
      const auto add = [&](const Position& at, const float* of_row) {
        const Index offset = at.offset(t.strides);
        if (t.strides.back() == 0)
          sums.add_all(offset, of_row, u.length);
        else
          sums.add(offset + u.inner, of_row, u.length);
      };
      add(position, values);
      if (u.rows == 1) continue;
      Position at = position;
      for (Index r = 1; r < u.rows; ++r) {
        at.next();
        add(at, values + r * u.length);
      }
    }
  }
  if (streamed_) loops().fence();
}

// Every tensor is walked through as it lies: nothing is left but chains of tiles.
void Traversal::run_flat(int part, const Buffers& buffers) const {
  Worker worker{*this, buffers, part_scratch(buffers, part)};
  const Index count = units(), first = count * part / parts_, last = count * (part + 1) / parts_;
  const Index total = space_.elements();
  std::array<const void*, most_sources> bases{};
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (sources_[s].is_constant) worker.tiles[s] = worker.load_source(s, Position{sizes_}, {});
    if (!sources_[s].is_constant) bases[s] = sources_[s].operand.data(buffers);
  }
  for (Index number = first; number < last; ++number) {
    const Index offset = number * unit_, n = std::min(unit_, total - offset);
    for (size_t s = 0; s < sources_.size(); ++s)
      if (bases[s]) worker.tiles[s] = values_at(sources_[s].operand.type, bases[s], offset);
    for (const Target& t : targets_) worker.write(t, offset, n);
  }
  if (streamed_) loops().fence();
}

// One reduced target: a unit is a piece of it that needs no partner, because partial results of the whole would not fit
// the caches or because there are enough pieces for all threads.
void Traversal::run_gathered(int part, const Buffers& buffers) const {
  const Target& t = targets_[0];
  Worker worker{*this, buffers, part_scratch(buffers, part)};
  const Sums sums = worker.sums(t);
  Index kept = 1, reduced = 1;
  for (size_t axis = 0; axis + 1 < sizes_.size(); ++axis) (t.strides[axis] != 0 ? kept : reduced) *= sizes_[axis];
  const bool across = t.strides.back() != 0;  // the innermost axis is kept
  // Where nothing else is combined into theirs: rows that fit a tile at once.
  const Index rows = !across && reduced == 1 ? rows_per_unit_ : 1;
  // Across: rows at equal distances, as they lie.
  const size_t next_axis = sizes_.size() > 1 ? sizes_.size() - 2 : 0;
  const bool together = across && sizes_.size() > 1 && t.strides[next_axis] == 0 && !needs_tiles();
  const Index pieces = across ? pieces_per_row_ : 1;
  const Index count = (kept + rows - 1) / rows * pieces;
  Position position{sizes_};
  const Index first = count * part / parts_, last = count * (part + 1) / parts_;
  for (Index number = first; number < last; ++number) {
    const Index row = number / pieces * rows, inner = number % pieces * unit_;
    const Index taken = std::min(rows, kept - row), results = across ? std::min(unit_, length_ - inner) : taken;
    sums.clear(results);
    for (Index r = 0, step = 1; r < reduced; r += step) {
      position.set(row, r, t.strides);
      if (together) step = std::min(rows_at_once, sizes_[next_axis] - position.at[next_axis]);
      for (Index piece = 0; piece < (across ? 1 : pieces_per_row_); ++piece) {
        const Index start = across ? inner : piece * unit_;
        const Unit u{row, taken, start, std::min(unit_, length_ - start)};
        worker.load_sources(position, u);
        const float* values = worker.floats_of(t, u.elements());
        if (across)
          sums.add(0, values, u.length, together ? sources_[0].strides[next_axis] : 0, step);
        else
          for (Index k = 0; k < taken; ++k) sums.add_all(k, values + k * u.length, u.length);
      }
    }
    sums.finish(t.finish, t.operand, buffers, 0, across ? row * length_ + inner : row, results, streamed_);
  }
  if (streamed_) loops().fence();
}

void Traversal::join_partials(const Target& t, const Buffers& buffers) const {
  const auto body = [&](Index first, Index last) {
    const Worker own{*this, buffers, part_scratch(buffers, 0)};
    const Sums total = own.sums(t);
    for (Index at = first; at < last; at += tile_elements) {
      const Index n = std::min(tile_elements, last - at);
      for (int part = 1; part < parts_; ++part) {
        const Worker other{*this, buffers, part_scratch(buffers, part)};
        const Sums more = other.sums(t);
        if (total.second)
          for (Index i = at; i < at + n; ++i) total.join(i, more.first[i], more.second[i]);
        else
          loops().merge[static_cast<size_t>(total.how)](total.first + at, more.first + at, n);
      }
      total.finish(t.finish, t.operand, buffers, at, at, n, false);
    }
  };
  parallel_for(t.elements, tile_elements, std::ref(body));
}

void Traversal::run(const Buffers& buffers) const {
  const auto walk = gathered_ ? &Traversal::run_gathered : flat_ ? &Traversal::run_flat : &Traversal::run_part;
  const auto body = [&](Index first, Index last) {
    for (Index part = first; part < last; ++part) (this->*walk)(static_cast<int>(part), buffers);
  };
  // Little work is done on one thread; the parts are the same ones.
  const bool small = units() < 4 && !gathered_;
  parallel_for(parts_, small ? parts_ : 1, std::ref(body));
  if (gathered_) return;
  for (const Target& t : targets_)
    if (t.reduced) join_partials(t, buffers);
}

}  // namespace d5::onednn::own
