// SPDX-License-Identifier: Apache-2.0
#include "d5/training/generated_loop.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "d5/measure/isa.hpp"
#include "d5/training/assembler.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Kind = Program::Operand::Kind;
using Operand = Program::Operand;

// Pages that hold code: written first, then executable and no longer writable.
class Code {
 public:
  explicit Code(const std::vector<uint8_t>& bytes) : size_(bytes.size()) {
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) return;
    std::memcpy(data_, bytes.data(), size_);
    executable_ = mprotect(data_, size_, PROT_READ | PROT_EXEC) == 0;
  }
  ~Code() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  bool executable() const { return executable_; }
  // bytes: of one stream, a multiple of the register's width and not 0. What is made here has no type that clang's
  // sanitizer could look at.
#if defined(__clang__)
  __attribute__((no_sanitize("function")))
#endif
  void
  call(float* const* streams, const float* numbers, int64_t bytes) const {
    std::bit_cast<void (*)(float* const*, const float*, int64_t)>(data_)(streams, numbers, bytes);
  }

 private:
  size_t size_;
  void* data_;
  bool executable_ = false;
};

// Numbers that instructions themselves need stand before the program's table.
constexpr std::array<uint32_t, 4> own_numbers{0x7fffffffu, 0x80000000u, 0x3f800000u, 0};
enum OwnNumber { magnitude_bits, sign_bit, one, zero };
constexpr int first_number = own_numbers.size();

// rdi: streams, rsi: numbers, rdx: bytes. Streams end where rdx is 0, and it counts up to there.
class Generator {
 public:
  Generator(const Program& program, bool wide) : program_(program), wide_(wide), code_(wide) {}

  // Whether registers suffice.
  bool fits() const {
    const int vectors = (wide_ ? 30 : 14) - static_cast<int>(std::ranges::count(program_.reads, true));
    return program_.streams <= static_cast<int>(pointers.size()) && program_.temporaries <= vectors;
  }

  std::vector<uint8_t> generate() {
    for (int i = 0; i < program_.streams; ++i) {  // the last place is rdi itself
      code_.load_pointer(pointers[static_cast<size_t>(i)], Assembler::rdi, 8 * i);
      code_.add_to(pointers[static_cast<size_t>(i)], Assembler::rdx);
    }
    code_.negate(Assembler::rdx);
    const size_t loop = code_.here();
    int loaded = 0;
    register_of_.assign(static_cast<size_t>(program_.streams), -1);
    for (size_t i = 0; i < program_.reads.size(); ++i) {
      if (!program_.reads[i]) continue;
      register_of_[i] = program_.temporaries + loaded++;
      code_.load(register_of_[i], pointers[i], Assembler::rdx);
    }
    for (const Program::Instruction& instruction : program_.code) emit(instruction);
    for (const Program::Store& store : program_.stores) {
      int from = register_of(store.from);
      if (store.from.kind == Kind::number)
        code_.spread(from = scratch(0), Assembler::rsi, first_number + store.from.index);
      code_.store(from, pointers[static_cast<size_t>(store.stream)], Assembler::rdx);
    }
    code_.add_constant(Assembler::rdx, code_.width_bytes());
    code_.jump_back_if_not_zero(loop);
    code_.end();
    return code_.bytes();
  }

 private:
  static constexpr std::array<Assembler::Register, 7> pointers{
      Assembler::rax, Assembler::rcx, Assembler::r8, Assembler::r9, Assembler::r10, Assembler::r11, Assembler::rdi};
  int scratch(int i) const { return wide_ ? 31 - i : 15 - i; }

  int register_of(const Operand& operand) const {
    if (operand.kind == Kind::stream) return register_of_[static_cast<size_t>(operand.index)];
    return operand.kind == Kind::temporary ? operand.index : -1;
  }

  // op with b, which may be a number.
  void packed(Assembler::Packed op, int to, int a, const Operand& b) {
    if (b.kind != Kind::number) return code_.packed(op, to, a, register_of(b));
    number(op, to, a, first_number + b.index);
  }
  void number(Assembler::Packed op, int to, int a, int index) {
    if (wide_) return code_.packed_number(op, to, a, Assembler::rsi, index);
    code_.spread(scratch(0), Assembler::rsi, index);
    code_.packed(op, to, a, scratch(0));
  }

  void emit(const Program::Instruction& i) {
    int a = register_of(i.a);
    if (i.a.kind == Kind::number) code_.spread(a = scratch(1), Assembler::rsi, first_number + i.a.index);
    switch (i.op) {
      case Op::add: return packed(Assembler::add, i.target, a, i.b);
      case Op::multiply: return packed(Assembler::multiply, i.target, a, i.b);
      case Op::subtract: return packed(Assembler::subtract, i.target, a, i.b);
      case Op::divide: return packed(Assembler::divide, i.target, a, i.b);
      case Op::minimum: return packed(Assembler::minimum, i.target, a, i.b);
      case Op::maximum: return packed(Assembler::maximum, i.target, a, i.b);
      case Op::square_root: return code_.packed(Assembler::square_root, i.target, a);
      case Op::absolute: return number(Assembler::bit_and, i.target, a, magnitude_bits);
      default: return sign(i.target, a);
    }
  }

  // One with x's sign where x is not 0.
  void sign(int target, int x) {
    code_.spread(scratch(0), Assembler::rsi, zero);
    if (wide_) {
      code_.differs(0, x, scratch(0));
      number(Assembler::bit_and, target, x, sign_bit);
      number(Assembler::bit_or, target, target, one);
      code_.keep_masked(target);
    } else {
      code_.differs(scratch(1), x, scratch(0));
      number(Assembler::bit_and, target, x, sign_bit);
      number(Assembler::bit_or, target, target, one);
      code_.packed(Assembler::bit_and, target, target, scratch(1));
    }
  }

  const Program& program_;
  bool wide_;
  Assembler code_;
  std::vector<int> register_of_;
};

class GeneratedLoop final : public Loop {
 public:
  GeneratedLoop(const Program& program, const std::vector<uint8_t>& code, int width)
      : code_(code), width_(width), program_(program) {}
  bool runs() const { return code_.executable(); }
  std::string_view name() const override { return width_ == 16 ? "avx512" : "avx2"; }

  void run(float* const* streams, const float* numbers, Index elements) const override {
    std::array<float, 64> table;  // on the stack: several threads run one loop
    std::memcpy(table.data(), own_numbers.data(), sizeof own_numbers);
    std::copy_n(numbers, program_.numbers.size(), table.begin() + first_number);
    const Index whole = elements / width_ * width_, rest = elements - whole;
    if (whole > 0) code_.call(streams, table.data(), whole * 4);
    if (rest == 0) return;
    // What is less than a register goes through one of its own.
    alignas(64) std::array<std::array<float, 16>, 8> last{};
    std::array<float*, 8> pointers{};
    for (size_t i = 0; i < static_cast<size_t>(program_.streams); ++i) {
      pointers[i] = last[i].data();
      if (program_.reads[i]) std::copy_n(streams[i] + whole, rest, last[i].begin());
    }
    code_.call(pointers.data(), table.data(), width_ * 4);
    for (const Program::Store& store : program_.stores)
      std::copy_n(last[static_cast<size_t>(store.stream)].begin(), rest, streams[store.stream] + whole);
  }

 private:
  Code code_;
  Index width_;
  Program program_;
};

}  // namespace

Instructions best_instructions() {
#if defined(__x86_64__)
  const Isa& isa = usable_isa();
  if (isa.avx512f && isa.avx512dq) return Instructions::avx512;
  if (isa.avx2) return Instructions::avx2;
#endif
  return Instructions::none;
}

std::unique_ptr<Loop> make_generated_loop(const Program& program, Instructions instructions) {
  if (instructions == Instructions::none || program.stores.empty()) return nullptr;
  const bool wide = instructions == Instructions::avx512;
  Generator generator(program, wide);
  if (!generator.fits() || program.numbers.size() + first_number > 64) return nullptr;
  auto loop = std::make_unique<GeneratedLoop>(program, generator.generate(), wide ? 16 : 8);
  if (!loop->runs()) return nullptr;
  return loop;
}

}  // namespace d5
