// SPDX-License-Identifier: Apache-2.0
// The part of a formula that is computed for each element, as straight-line code over streams (the parameter, its
// gradient, states) and a table of numbers. A Loop runs it over contiguous elements: by machine code made for it where
// the processor is known (generated_loop.hpp), else instruction by instruction over blocks that stay in the cache.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "d5/core/shape.hpp"
#include "d5/training/formula.hpp"

namespace d5 {

struct Program {
  struct Operand {
    enum class Kind : unsigned char { none, stream, number, temporary } kind = Kind::none;
    int index = -1;
    bool operator==(const Operand&) const = default;
  };
  struct Instruction {
    Formula::Op op;
    int target;  // a temporary
    Operand a, b;
  };
  struct Store {
    Operand from;
    int stream;
  };
  std::vector<Instruction> code;
  std::vector<Store> stores;  // after the code, in this order
  std::vector<int> numbers;   // the table: nodes of the formula
  int temporaries = 0, streams = 0;
  std::vector<bool> reads;  // by stream
};

// A node whose elements are wanted and the stream that takes them; or that lie in it already.
struct Wanted {
  int node, stream;
};
constexpr int computed_node = -1;
// The stream that a node is read from, or computed_node.
int stream_read(const Formula&, std::span<const int> stream_of, std::span<const Wanted> known, int node);
// By node: the last one that reads it on the way to what is wanted, the number of nodes for that itself; -1: nobody.
// What lies in a stream is not computed.
std::vector<int> last_uses(const Formula&, std::span<const Wanted> wanted, std::span<const Wanted> known = {});
// stream_of: the stream of each slot of the formula; the gradient is stream 1.
Program make_program(const Formula&, std::span<const int> stream_of, std::span<const Wanted>, int streams,
                     std::span<const Wanted> known = {});

class Loop {
 public:
  virtual ~Loop() = default;
  virtual std::string_view name() const = 0;  // interpreted, avx2, avx512
  // streams[i] and numbers as the program says; any number of elements.
  virtual void run(float* const* streams, const float* numbers, Index elements) const = 0;
};
std::unique_ptr<Loop> make_interpreted_loop(const Program&);
std::unique_ptr<Loop> make_loop(const Program&);  // the fastest that this processor runs

}  // namespace d5
