// SPDX-License-Identifier: Apache-2.0
// Programs of formulas as functions of LibTorch, on the memory of its devices: one call an instruction, over the whole
// arena, so that the number of kernels does not grow with the number of parameters. A kernel that is launched costs the
// host more than these elements cost the device, so few are: what is stored is computed in its place, factors of one
// are left out, a number that all parameters share travels with the launch. Others are spread over the elements of
// their parameters, and kept for as long as they stay as they are. What lies between the pieces keeps its bytes, but
// for what fills up a line. The loop of "cpu" is for the host's memory behind the interface of a device's
// (D5_TORCH_HOST_AS_DEVICE): tests without one.
#include "d5/training/torch/eager_loop.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Kind = Program::Operand::Kind;

constexpr Index line = 16;  // elements: parameters begin at one

size_t at_(int i) { return static_cast<size_t>(i); }

// What is computed with it as an argument of the launch is the same bits: not a quotient, which becomes a product
// there.
bool takes_host_number(Op op) { return op == Op::add || op == Op::subtract || op == Op::multiply; }

class EagerLoop final : public DeviceLoop {
 public:
  static std::unique_ptr<DeviceLoop> make(const Program& program, const Memory& memory) {
    return std::make_unique<EagerLoop>(program, memory);
  }
  EagerLoop(const Program& program, const Memory& memory)
      : program_(program),
        device_(memory.device()),
        numbers_(program.numbers.size()),
        stored_at_once_(program.code.size(), -1),
        is_stored_(at_(program.streams)) {
    for (const Program::Instruction& i : program_.code)
      for (const Program::Operand& o : {i.a, i.b})
        if (o.kind == Kind::number && !takes_host_number(i.op)) numbers_[at_(o.index)].on_device = true;
    for (const Program::Store& store : program_.stores) {
      is_stored_[at_(store.stream)] = true;
      if (store.from.kind == Kind::number) numbers_[at_(store.from.index)].on_device = true;
      if (store.from.kind == Kind::temporary) find_maker(store);
    }
  }

  std::string_view name() const override { return "eager"; }

  void run(std::span<float* const> streams, std::span<const Piece> pieces) override {
    if (pieces.empty()) return;
    computing([&] {
      look_at(streams, pieces);
      evaluate(pieces, !has_gaps_);
      for (const Program::Store& store : program_.stores) {
        at::Tensor& to = streams_[at_(store.stream)];
        const at::Tensor from = operand(store.from);
        if (has_gaps_)
          at::where_out(to, inside_, from, to);
        else if (!from.is_same(to))
          to.copy_(from);
      }
    });
  }

  std::vector<double> sums_of_squares(std::span<float* const> streams, std::span<const Piece> pieces) override {
    std::vector<double> sums(pieces.size() * program_.stores.size());
    if (pieces.empty()) return sums;
    computing([&] {
      look_at(streams, pieces);
      evaluate(pieces, false);
      for (size_t s = 0; s < program_.stores.size(); ++s) {
        const at::Tensor wide = operand(program_.stores[s].from).to(device_, at::kDouble).expand({length_});
        const at::Tensor parts =
            at::segment_reduce(wide.mul(wide), "sum", lengths_, {}, {}, 0, /*unsafe=*/true).to(at::kCPU);
        for (size_t p = 0; p < pieces.size(); ++p)
          sums[p * program_.stores.size() + s] = parts.const_data_ptr<double>()[segment_[p]];
      }
    });
    return sums;
  }

 private:
  struct Number {
    bool on_device = false;  // wanted there even where it is one for all
    std::vector<float> of_pieces;
    at::Tensor value;
  };

  // The instruction that makes what is stored may write there, if nobody reads the old values after it.
  void find_maker(const Program::Store& store) {
    const auto reads = [&](const Program::Operand& o) { return o.kind == Kind::stream && o.index == store.stream; };
    for (size_t i = program_.code.size(); i-- > 0;) {
      if (program_.code[i].target == store.from.index) {
        if (stored_at_once_[i] < 0) stored_at_once_[i] = store.stream;
        return;
      }
      if (reads(program_.code[i].a) || reads(program_.code[i].b)) return;
    }
  }

  template <class F>
  void computing(F f) try {
    const c10::DeviceGuard guard(device_);
    const c10::InferenceMode inference;
    f();
    temporaries_.clear();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error("[optimizer] LibTorch: {}", text.substr(0, text.find('\n')));
  }

  at::TensorOptions floats() const { return at::dtype(at::kFloat).device(device_); }

  const at::Tensor& operand(const Program::Operand& o) const {
    if (o.kind == Kind::stream) return streams_[at_(o.index)];
    return o.kind == Kind::number ? numbers_[at_(o.index)].value : temporaries_[at_(o.index)];
  }
  bool is_one(const Program::Operand& o) const {
    if (o.kind != Kind::number) return false;
    const Number& number = numbers_[at_(o.index)];
    return number.value.dim() == 0 && number.of_pieces.front() == 1;
  }

  void evaluate(std::span<const Piece> pieces, bool store_at_once) {
    for (size_t n = 0; n < numbers_.size(); ++n) set_number(n, pieces);
    temporaries_.assign(at_(program_.temporaries), at::Tensor());
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Program::Instruction& now = program_.code[i];
      const int to = store_at_once ? stored_at_once_[i] : -1;
      at::Tensor& target = temporaries_[at_(now.target)];
      // Streams that are stored may change under whoever holds them.
      const bool one_first = is_one(now.a);
      const Program::Operand& other = one_first ? now.b : now.a;
      if (to < 0 && now.op == Op::multiply && (one_first || is_one(now.b)) &&
          !(other.kind == Kind::stream && is_stored_[at_(other.index)])) {
        target = at::Tensor(operand(other));
        continue;
      }
      const at::Tensor a = operand(now.a);
      const at::Tensor b = now.b.kind == Kind::none ? at::Tensor() : operand(now.b);
      if (to < 0) {
        target = compute(now.op, a, b);
      } else {
        target = streams_[at_(to)];
        compute_to(target, now.op, a, b);
      }
    }
  }

  // Of what cannot be compared the second: not at::minimum.
  static at::Tensor compute(Op op, const at::Tensor& a, const at::Tensor& b) {
    switch (op) {
      case Op::add: return at::add(a, b);
      case Op::subtract: return at::sub(a, b);
      case Op::multiply: return at::mul(a, b);
      case Op::divide: return at::div(a, b);
      case Op::minimum: return at::where(at::lt(a, b), a, b);
      case Op::maximum: return at::where(at::gt(a, b), a, b);
      case Op::square_root: return at::sqrt(a);
      case Op::absolute: return at::abs(a);
      case Op::sign: return at::sign(a);
      default: throw Error("[formula] operation {} is not one of elements", static_cast<int>(op));
    }
  }
  static void compute_to(at::Tensor& to, Op op, const at::Tensor& a, const at::Tensor& b) {
    switch (op) {
      case Op::add: at::add_out(to, a, b); return;
      case Op::subtract: at::sub_out(to, a, b); return;
      case Op::multiply: at::mul_out(to, a, b); return;
      case Op::divide: at::div_out(to, a, b); return;
      default: to.copy_(compute(op, a, b));
    }
  }

  // Which elements belong to which piece; the same in every step, as a rule.
  void look_at(std::span<float* const> streams, std::span<const Piece> pieces) {
    look_at(pieces);
    if (std::ranges::equal(streams, seen_streams_)) return;
    seen_streams_.assign(streams.begin(), streams.end());
    streams_.clear();
    for (float* const data : streams)
      streams_.push_back(at::for_blob(data + first_, {length_}).options(floats()).target_device(device_).make_tensor());
  }

  void look_at(std::span<const Piece> pieces) {
    const auto same = [](const Piece& a, const std::pair<Index, Index>& b) {
      return a.first == b.first && a.count == b.second;
    };
    if (std::ranges::equal(pieces, seen_, same)) return;
    seen_.clear();
    seen_streams_.clear();
    segment_.clear();
    has_gaps_ = false;
    for (const Piece& piece : pieces) seen_.emplace_back(piece.first, piece.count);
    first_ = pieces.front().first;
    length_ = pieces.back().first + pieces.back().count - first_;
    const at::Tensor rows = at::full({length_}, 0, at::kLong), inside = at::full({length_}, false, at::kBool);
    std::vector<int64_t> lengths;
    Index end = first_;
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].first > end) lengths.push_back(pieces[p].first - end);
      has_gaps_ |= pieces[p].first - end >= line;
      segment_.push_back(lengths.size());
      lengths.push_back(pieces[p].count);
      end = pieces[p].first + pieces[p].count;
      rows.narrow(0, pieces[p].first - first_, pieces[p].count).fill_(static_cast<int64_t>(p));
      inside.narrow(0, pieces[p].first - first_, pieces[p].count).fill_(true);
    }
    rows_ = rows.to(device_);
    inside_ = inside.to(device_);
    lengths_ = at::from_blob(lengths.data(), {static_cast<int64_t>(lengths.size())}, at::kLong).clone().to(device_);
    for (Number& number : numbers_) number.value = at::Tensor();
  }

  void set_number(size_t n, std::span<const Piece> pieces) {
    Number& number = numbers_[n];
    std::vector<float> now;
    for (const Piece& piece : pieces) now.push_back(piece.numbers[n]);
    if (number.value.defined() && now == number.of_pieces) return;
    if (std::ranges::all_of(now, [&](float value) { return value == now.front(); })) {
      number.value =
          number.on_device ? at::full({}, now.front(), floats()) : at::scalar_tensor(now.front(), at::kFloat);
    } else {
      const at::Tensor table = at::from_blob(now.data(), {static_cast<int64_t>(now.size())}, at::kFloat);
      number.value = table.to(device_).index_select(0, rows_);
    }
    number.of_pieces = std::move(now);
  }

  Program program_;
  at::Device device_;
  std::vector<Number> numbers_;
  std::vector<int> stored_at_once_;            // by instruction: the stream that it may write to, or -1
  std::vector<bool> is_stored_;                // by stream
  std::vector<at::Tensor> temporaries_;        // of the call under way
  std::vector<at::Tensor> streams_;            // from the first piece to the end of the last
  std::vector<float*> seen_streams_;           // that these are of
  bool has_gaps_ = false;                      // more lies between pieces than what fills up a line
  std::vector<std::pair<Index, Index>> seen_;  // pieces that the rest is for: first, count
  Index first_ = 0, length_ = 0;               // from the first piece to the end of the last
  at::Tensor rows_, inside_, lengths_;         // of elements: piece, whether in one; of pieces and gaps: elements
  std::vector<size_t> segment_;                // of pieces: which of the lengths
};

}  // namespace
D5_REGISTER(device_loops, "cpu", EagerLoop);

std::unique_ptr<DeviceLoop> make_eager_loop(const Program& program, const Memory& memory) {
  return EagerLoop::make(program, memory);
}

}  // namespace d5
