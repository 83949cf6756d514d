// SPDX-License-Identifier: Apache-2.0
// One walk over a broadcast index space, piece by piece, on all threads. Sources are read once, where they lie or as
// tiles of f32 where they are broadcast; every target is a chain of tile functions of them, stored elementwise or
// combined over the axes along which the target is broadcast. A step neither allocates nor copies.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "d5/backends/onednn/own/tensor_access.hpp"

namespace d5::onednn::own {

using Parameters4 = std::array<float, 4>;

// One link of a chain: the function of these sources; `previous` is the result of the link before. Without a function
// it is its source itself.
struct Link {
  static constexpr size_t previous = SIZE_MAX;
  TileFunction function;
  std::vector<size_t> sources;
  Parameters4 parameters{};
};

// What becomes of a combined result, or of the two of a pair: function(first, second), null for first itself. Both may
// be kept, too, in f32; of the second function_of_second, or itself.
struct Finish {
  TileFunction function = nullptr;
  Parameters4 parameters{};
  std::optional<Operand> keep_first = {}, keep_second = {};
  TileFunction function_of_second = nullptr;
};

class Traversal {
 public:
  // Partial results of a reduced target up to this size stay in a core's own caches.
  static constexpr Index most_partials = 1 << 14;

  explicit Traversal(Shape space) : space_(std::move(space)) {}

  // Sources by number. Each is broadcast to the space.
  size_t read(const Operand&);
  size_t constant(float value);
  // target = chain, of the shape of the space.
  void write(const Operand& target, std::vector<Link> chain);
  // target = finish(chain combined over the axes where the target is broadcast).
  void reduce(const Operand& target, std::vector<Link> chain, Reduce, Finish);

  bool empty() const { return targets_.empty(); }
  bool reads(Part, size_t index) const;
  // After prepare(): the one target may lie where this source lies.
  bool works_in_place(Part, size_t index) const;
  void prepare();  // after the last target; reads threads()
  size_t scratch_bytes() const { return part_bytes_ * static_cast<size_t>(parts_); }
  void run(const Buffers&) const;

 private:
  struct Source {
    Operand operand;
    bool is_constant;
    float value;
    std::vector<Index> strides;  // by axis of the collapsed space
    bool flat;                   // element i of the space is element i of the source
    bool fixed;                  // the same tile for every unit
    bool of_row;                 // the same tile for all units of a row
  };
  struct Target {
    Operand operand;
    std::vector<Link> chain;
    bool reduced;
    Reduce how;
    Finish finish;
    std::vector<Index> strides;
    size_t partial = 0;  // offset of its partial results in a part's scratch
    Index elements = 0;
  };
  struct Unit {  // rows of the innermost axis, or a piece of one
    Index row, rows, inner, length;
    Index elements() const { return rows * length; }
  };
  struct Position;  // of a row along the outer axes
  struct Worker;    // one part of the walk

  void collapse();
  bool needs_tiles() const;
  Index units() const;
  Unit unit(Index number) const;
  void run_flat(int part, const Buffers&) const;
  void run_part(int part, const Buffers&) const;
  void run_gathered(int part, const Buffers&) const;
  void join_partials(const Target&, const Buffers&) const;
  char* part_scratch(const Buffers& b, int part) const { return static_cast<char*>(b.scratch) + part_bytes_ * part; }

  Shape space_;
  std::vector<Source> sources_;
  std::vector<Target> targets_;
  std::vector<Index> sizes_;    // collapsed
  Index unit_ = tile_elements;  // elements of a piece of a row at most
  Index rows_ = 1, length_ = 1, rows_per_unit_ = 1, pieces_per_row_ = 1;
  Index group_ = 1;  // rows whose pieces are taken in turn
  bool streamed_ = false;
  bool flat_ = false;      // nothing is broadcast or reduced
  bool gathered_ = false;  // one reduced target, in pieces that have no partner elsewhere
  int parts_ = 1;
  size_t part_bytes_ = 0;
};

}  // namespace d5::onednn::own
