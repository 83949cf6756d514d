// SPDX-License-Identifier: Apache-2.0
// The few x86-64 instructions that a generated loop is made of, as bytes. Vector registers are 0 to 31 with AVX-512
// (EVEX form, 64 bytes), 0 to 15 with AVX2 (VEX form, 32 bytes). Intel's manual, volume 2, sections 2.3 and 2.7.
#pragma once

#include <cstdint>
#include <vector>

namespace d5 {

class Assembler {
 public:
  enum Register : uint8_t { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11 };
  enum Packed : uint8_t {  // of floats, two operands
    square_root = 0x51,
    bit_and = 0x54,
    bit_or = 0x56,
    add = 0x58,
    multiply = 0x59,
    subtract = 0x5c,
    minimum = 0x5d,
    divide = 0x5e,
    maximum = 0x5f
  };
  explicit Assembler(bool wide) : wide_(wide) {}

  int width_bytes() const { return wide_ ? 64 : 32; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

  // ---- pointers and the loop
  void load_pointer(Register to, Register base, int displacement) {  // mov to, [base + displacement]
    put({rex(to, rax, base), 0x8b});
    address(to, base, displacement);
  }
  void add_to(Register to, Register from) { put({rex(from, rax, to), 0x01, modrm(3, from, to)}); }
  void negate(Register r) { put({rex(rax, rax, r), 0xf7, modrm(3, 3, r)}); }
  void add_constant(Register r, int value) {
    put({rex(rax, rax, r), 0x81, modrm(3, 0, r)});
    word(value);
  }
  size_t here() const { return bytes_.size(); }
  void jump_back_if_not_zero(size_t to) {
    put({0x0f, 0x85});
    word(static_cast<int>(to) - static_cast<int>(bytes_.size()) - 4);
  }
  void end() { put({0xc5, 0xf8, 0x77, 0xc3}); }  // vzeroupper, ret

  // ---- vectors; an element's address is [base + index]
  void load(int to, Register base, Register index) { memory_operation(0x10, to, base, index); }
  void store(int from, Register base, Register index) { memory_operation(0x11, from, base, index); }
  void packed(Packed op, int to, int a, int b) { operation(1, 0, op, to, a, b); }
  void packed(Packed op, int to, int a) { operation(1, 0, op, to, 0, a); }  // square_root
  // The second operand is one float at [base + 4 number], spread. AVX-512 alone.
  void packed_number(Packed op, int to, int a, Register base, int number) {
    evex(1, 0, to, a, false, base >= 8, true, 0, false);
    bytes_.push_back(op);
    address_compressed(to, base, number);
  }
  void packed_number(Packed op, int to, Register base, int number) { packed_number(op, to, 0, base, number); }
  void spread(int to, Register base, int number) {  // vbroadcastss to, [base + 4 number]
    if (wide_) {
      evex(2, 1, to, 0, false, base >= 8, false, 0, false);
      bytes_.push_back(0x18);
      address_compressed(to, base, number);
    } else {
      vex(2, 1, to, 0, false, base >= 8);
      bytes_.push_back(0x18);
      address(to & 7, base, 4 * number);
    }
  }
  // Lanes of a that differ from b, both comparable: all ones, in a register (AVX2) or in mask 1 (AVX-512).
  void differs(int to, int a, int b) {
    operation(1, 0, 0xc2, wide_ ? 1 : to, a, b);
    bytes_.push_back(0x0c);
  }
  // Lanes outside mask 1 become 0. AVX-512 alone.
  void keep_masked(int r) {
    evex(1, 0, r, 0, (r & 16) != 0, (r & 8) != 0, false, 1, true);
    put({0x28, modrm(3, r & 7, r & 7)});
  }

 private:
  void put(std::initializer_list<int> values) {
    for (const int value : values) bytes_.push_back(static_cast<uint8_t>(value));
  }
  void word(int value) {
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<uint8_t>(static_cast<uint32_t>(value) >> (8 * i)));
  }
  static int rex(int reg, int index, int base) { return 0x48 | (reg >> 3 << 2) | (index >> 3 << 1) | (base >> 3); }
  static int modrm(int mode, int reg, int rm) { return mode << 6 | (reg & 7) << 3 | (rm & 7); }

  void address(int reg, Register base, int displacement) {  // never rsp or r12, which would need a SIB byte
    put({modrm(2, reg, base)});
    word(displacement);
  }
  // EVEX counts a short displacement in operands, here floats; the long form counts bytes.
  void address_compressed(int reg, Register base, int number) { address(reg & 7, base, 4 * number); }

  // map: 1 is 0F, 2 is 0F38. prefix: 0 none, 1 is 66. x and b extend the second operand.
  void evex(int map, int prefix, int reg, int a, bool x, bool b, bool spread_number, int mask, bool zero) {
    put({0x62, (reg & 8 ? 0 : 0x80) | (x ? 0 : 0x40) | (b ? 0 : 0x20) | (reg & 16 ? 0 : 0x10) | map,
         (~a & 15) << 3 | 4 | prefix, (zero ? 0x80 : 0) | 0x40 | (spread_number ? 0x10 : 0) | (a & 16 ? 0 : 8) | mask});
  }
  void vex(int map, int prefix, int reg, int a, bool x, bool b) {
    put({0xc4, (reg & 8 ? 0 : 0x80) | (x ? 0 : 0x40) | (b ? 0 : 0x20) | map, (~a & 15) << 3 | 4 | prefix});
  }
  void operation(int map, int prefix, int opcode, int to, int a, int b) {
    if (wide_)
      evex(map, prefix, to, a, (b & 16) != 0, (b & 8) != 0, false, 0, false);
    else
      vex(map, prefix, to, a, false, (b & 8) != 0);
    put({opcode, modrm(3, to, b)});
  }
  void memory_operation(int opcode, int reg, Register base, Register index) {
    if (wide_)
      evex(1, 0, reg, 0, index >= 8, base >= 8, false, 0, false);
    else
      vex(1, 0, reg, 0, index >= 8, base >= 8);
    put({opcode, modrm(0, reg, 4), (index & 7) << 3 | (base & 7)});  // never rbp or r13 as base
  }

  bool wide_;
  std::vector<uint8_t> bytes_;
};

}  // namespace d5
