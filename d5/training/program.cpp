// SPDX-License-Identifier: Apache-2.0
#include "d5/training/program.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/training/generated_loop.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Kind = Program::Operand::Kind;

// A block of each stream and temporary stays in the first cache.
constexpr Index block = 512;

float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

template <class F>
void each(float* to, const float* a, Index n, F f) {
  for (Index i = 0; i < n; ++i) to[i] = f(a[i]);
}
template <class F>
void each(float* to, const float* a, const float* b, Index n, F f) {
  for (Index i = 0; i < n; ++i) to[i] = f(a[i], b[i]);
}

class InterpretedLoop final : public Loop {
 public:
  explicit InterpretedLoop(const Program& program) : program_(program) {}
  std::string_view name() const override { return "interpreted"; }

  void run(float* const* streams, const float* numbers, Index elements) const override {
    // Numbers are spread over a block once, so that every instruction sees arrays alone.
    std::vector<float> memory((program_.numbers.size() + static_cast<size_t>(program_.temporaries)) * block);
    float* temporaries = memory.data() + program_.numbers.size() * block;
    for (size_t i = 0; i < program_.numbers.size(); ++i)
      std::fill_n(memory.data() + i * block, std::min(block, elements), numbers[i]);
    for (Index first = 0; first < elements; first += block) {
      const Index n = std::min(block, elements - first);
      const auto operand = [&](const Program::Operand& o) -> const float* {
        if (o.kind == Kind::stream) return streams[o.index] + first;
        return (o.kind == Kind::number ? memory.data() : temporaries) + o.index * block;
      };
      for (const Program::Instruction& instruction : program_.code)
        execute(instruction.op, temporaries + instruction.target * block, operand(instruction.a),
                instruction.b.kind == Kind::none ? nullptr : operand(instruction.b), n);
      for (const Program::Store& store : program_.stores)
        std::copy_n(operand(store.from), n, streams[store.stream] + first);
    }
  }

 private:
  static void execute(Op op, float* to, const float* a, const float* b, Index n) {
    switch (op) {
      case Op::add: return each(to, a, b, n, [](float x, float y) { return x + y; });
      case Op::subtract: return each(to, a, b, n, [](float x, float y) { return x - y; });
      case Op::multiply: return each(to, a, b, n, [](float x, float y) { return x * y; });
      case Op::divide: return each(to, a, b, n, [](float x, float y) { return x / y; });
      case Op::minimum: return each(to, a, b, n, [](float x, float y) { return x < y ? x : y; });
      case Op::maximum: return each(to, a, b, n, [](float x, float y) { return x > y ? x : y; });
      case Op::square_root: return each(to, a, n, [](float x) { return std::sqrt(x); });
      case Op::absolute: return each(to, a, n, [](float x) { return std::fabs(x); });
      case Op::sign: return each(to, a, n, sign_of);
      default: throw Error("[formula] operation {} is not one of elements", static_cast<int>(op));
    }
  }
  Program program_;
};

}  // namespace

std::vector<int> last_uses(const Formula& formula, std::span<const Wanted> wanted, std::span<const Wanted> known) {
  const std::vector<Formula::Node>& nodes = formula.nodes();
  std::vector<int> result(nodes.size(), -1);
  const int end = static_cast<int>(nodes.size());
  for (const Wanted& w : wanted) result[static_cast<size_t>(w.node)] = end;
  for (int i = end - 1; i >= 0; --i) {
    const Formula::Node& node = nodes[static_cast<size_t>(i)];
    if (result[static_cast<size_t>(i)] < 0 || node.extent != Formula::Extent::element) continue;
    if (std::ranges::find(known, i, &Wanted::node) != known.end()) continue;
    for (const int operand : {node.a, node.b})
      if (operand >= 0) result[static_cast<size_t>(operand)] = std::max(result[static_cast<size_t>(operand)], i);
  }
  return result;
}

int stream_read(const Formula& formula, std::span<const int> stream_of, std::span<const Wanted> known, int index) {
  if (const auto found = std::ranges::find(known, index, &Wanted::node); found != known.end()) return found->stream;
  const Formula::Node& node = formula.nodes()[static_cast<size_t>(index)];
  if (node.op == Op::gradient) return 1;
  return node.op == Op::parameter || node.op == Op::state ? stream_of[static_cast<size_t>(node.index)] : computed_node;
}

Program make_program(const Formula& formula, std::span<const int> stream_of, std::span<const Wanted> wanted,
                     int streams, std::span<const Wanted> known) {
  const std::vector<Formula::Node>& nodes = formula.nodes();
  const int end = static_cast<int>(nodes.size());
  const std::vector<int> last_use = last_uses(formula, wanted, known);
  const auto loaded_from = [&](int node) { return stream_read(formula, stream_of, known, node); };
  Program program;
  program.streams = streams;
  program.reads.resize(static_cast<size_t>(streams));
  std::vector<Program::Operand> place(nodes.size());
  std::vector<int> free;
  const auto operand_of = [&](int index) -> Program::Operand {
    const Formula::Node& node = nodes[static_cast<size_t>(index)];
    if (node.extent != Formula::Extent::element) {
      auto found = std::ranges::find(program.numbers, index);
      if (found == program.numbers.end()) found = program.numbers.insert(found, index);
      return {Kind::number, static_cast<int>(found - program.numbers.begin())};
    }
    const int stream = loaded_from(index);
    if (stream == computed_node) return place[static_cast<size_t>(index)];
    program.reads[static_cast<size_t>(stream)] = true;
    return {Kind::stream, stream};
  };
  for (int i = 0; i < end; ++i) {
    const Formula::Node& node = nodes[static_cast<size_t>(i)];
    if (last_use[static_cast<size_t>(i)] < 0 || node.extent != Formula::Extent::element ||
        loaded_from(i) != computed_node)
      continue;
    Program::Instruction instruction{node.op, -1, operand_of(node.a),
                                     node.b >= 0 ? operand_of(node.b) : Program::Operand{}};
    // An operand that nobody reads any more gives its place; a result may lie where an operand was.
    for (const int operand : {node.a, node.b}) {
      if (operand < 0 || last_use[static_cast<size_t>(operand)] != i) continue;
      const Program::Operand& o = place[static_cast<size_t>(operand)];
      if (o.kind == Kind::temporary && std::ranges::find(free, o.index) == free.end()) free.push_back(o.index);
    }
    if (free.empty()) free.push_back(program.temporaries++);
    instruction.target = free.back();
    free.pop_back();
    place[static_cast<size_t>(i)] = {Kind::temporary, instruction.target};
    program.code.push_back(instruction);
  }
  for (const Wanted& w : wanted) {
    Program::Operand from = operand_of(w.node);
    // A stream that another store overwrites is kept aside first (two states that change places).
    if (from.kind == Kind::stream) {
      const int kept = program.temporaries++;
      program.code.push_back({Op::maximum, kept, from, from});
      from = {Kind::temporary, kept};
    }
    program.stores.push_back({from, w.stream});
  }
  return program;
}

std::unique_ptr<Loop> make_interpreted_loop(const Program& program) {
  return std::make_unique<InterpretedLoop>(program);
}

std::unique_ptr<Loop> make_loop(const Program& program) {
  if (auto generated = make_generated_loop(program, best_instructions())) return generated;
  return make_interpreted_loop(program);
}

}  // namespace d5
