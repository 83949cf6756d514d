// SPDX-License-Identifier: Apache-2.0
// Programs of formulas as functions of LibTorch, on the memory of its devices: one call an instruction, over the whole
// arena, so that the number of kernels does not grow with the number of parameters. A number that all parameters share
// is a tensor of no axes; others are spread over the elements of their parameters, and kept for as long as they stay as
// they are. What lies between the pieces keeps its bytes. The loop of "cpu" is for the host's memory behind the
// interface of a device's (D5_TORCH_HOST_AS_DEVICE): tests without one.
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "d5/core/error.hpp"
#include "d5/training/device_loop.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Kind = Program::Operand::Kind;

size_t at_(int i) { return static_cast<size_t>(i); }

class TorchLoop final : public DeviceLoop {
 public:
  TorchLoop(const Program& program, const Memory& memory)
      : program_(program), device_(memory.device()), numbers_(program.numbers.size()) {}

  void run(std::span<float* const> streams, std::span<const Piece> pieces) override {
    if (pieces.empty()) return;
    computing([&] {
      evaluate(streams, pieces);
      for (const Program::Store& store : program_.stores) {
        at::Tensor to = stream(streams, store.stream);
        at::where_out(to, inside_, operand(streams, store.from), to);
      }
    });
  }

  std::vector<double> sums_of_squares(std::span<float* const> streams, std::span<const Piece> pieces) override {
    std::vector<double> sums(pieces.size() * program_.stores.size());
    if (pieces.empty()) return sums;
    computing([&] {
      evaluate(streams, pieces);
      for (size_t s = 0; s < program_.stores.size(); ++s) {
        const at::Tensor wide = operand(streams, program_.stores[s].from).expand({length_}).to(at::kDouble);
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
    std::vector<float> of_pieces;
    at::Tensor value;
  };

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

  at::Tensor stream(std::span<float* const> streams, int number) const {
    return at::for_blob(streams[at_(number)] + first_, {length_})
        .options(floats())
        .target_device(device_)
        .make_tensor();
  }
  at::Tensor operand(std::span<float* const> streams, const Program::Operand& o) const {
    if (o.kind == Kind::stream) return stream(streams, o.index);
    return o.kind == Kind::number ? numbers_[at_(o.index)].value : temporaries_[at_(o.index)];
  }

  void evaluate(std::span<float* const> streams, std::span<const Piece> pieces) {
    look_at(pieces);
    for (size_t n = 0; n < numbers_.size(); ++n) set_number(n, pieces);
    temporaries_.assign(at_(program_.temporaries), at::Tensor());
    for (const Program::Instruction& i : program_.code) {
      const at::Tensor a = operand(streams, i.a);
      const at::Tensor b = i.b.kind == Kind::none ? at::Tensor() : operand(streams, i.b);
      temporaries_[at_(i.target)] = compute(i.op, a, b);
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

  // Which elements belong to which piece; the same in every step, as a rule.
  void look_at(std::span<const Piece> pieces) {
    const auto same = [](const Piece& a, const std::pair<Index, Index>& b) {
      return a.first == b.first && a.count == b.second;
    };
    if (std::ranges::equal(pieces, seen_, same)) return;
    seen_.clear();
    segment_.clear();
    for (const Piece& piece : pieces) seen_.emplace_back(piece.first, piece.count);
    first_ = pieces.front().first;
    length_ = pieces.back().first + pieces.back().count - first_;
    const at::Tensor rows = at::full({length_}, 0, at::kLong), inside = at::full({length_}, false, at::kBool);
    std::vector<int64_t> lengths;
    Index end = first_;
    for (size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].first > end) lengths.push_back(pieces[p].first - end);
      segment_.push_back(lengths.size());
      lengths.push_back(pieces[p].count);
      end = pieces[p].first + pieces[p].count;
      rows.narrow(0, pieces[p].first - first_, pieces[p].count).fill_(static_cast<int64_t>(p));
      inside.narrow(0, pieces[p].first - first_, pieces[p].count).fill_(true);
    }
    rows_ = rows.to(device_);
    inside_ = inside.to(device_);
    lengths_ = at::from_blob(lengths.data(), {static_cast<int64_t>(lengths.size())}, at::kLong).clone().to(device_);
    for (Number& number : numbers_) number = {};
  }

  void set_number(size_t n, std::span<const Piece> pieces) {
    Number& number = numbers_[n];
    std::vector<float> now;
    for (const Piece& piece : pieces) now.push_back(piece.numbers[n]);
    if (number.value.defined() && now == number.of_pieces) return;
    if (std::ranges::all_of(now, [&](float value) { return value == now.front(); })) {
      number.value = at::full({}, now.front(), floats());
    } else {
      const at::Tensor table = at::from_blob(now.data(), {static_cast<int64_t>(now.size())}, at::kFloat);
      number.value = table.to(device_).index_select(0, rows_);
    }
    number.of_pieces = std::move(now);
  }

  Program program_;
  at::Device device_;
  std::vector<Number> numbers_;
  std::vector<at::Tensor> temporaries_;        // of the call under way
  std::vector<std::pair<Index, Index>> seen_;  // pieces that the rest is for: first, count
  Index first_ = 0, length_ = 0;               // from the first piece to the end of the last
  at::Tensor rows_, inside_, lengths_;         // of elements: piece, whether in one; of pieces and gaps: elements
  std::vector<size_t> segment_;                // of pieces: which of the lengths
};

}  // namespace
D5_REGISTER(device_loops, "cuda", TorchLoop);
D5_REGISTER(device_loops, "cpu", TorchLoop);
}  // namespace d5
