// SPDX-License-Identifier: Apache-2.0
// Einsum of two operands as a batch of matrix products. Letters that both operands and the result have number the
// matrices, those of one operand and the result their rows or columns; those of both operands alone are summed over.
//   Y[b, m, n] = A[b, m, k] B[b, k, n]      dA = dY B^T      dB = A^T dY
// Tensors whose axes come in another order are copied first, or afterwards.
#include <algorithm>

#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

struct Letters {
  std::string a, b, y;
};

// Empty where the equation is no product of two operands.
std::optional<Letters> letters_of(std::string text) {
  std::erase(text, ' ');
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || comma > arrow || text.find(',', comma + 1) != std::string::npos) return {};
  Letters l{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), {}};
  if (arrow != std::string::npos) {
    l.y = text.substr(arrow + 2);
  } else {
    for (const char letter : l.a + l.b)
      if (std::ranges::count(l.a + l.b, letter) == 1) l.y += letter;
    std::ranges::sort(l.y);
  }
  return l;
}

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// The axes of a tensor in the order of its matrices: as it lies, and dense.
struct Ordered {
  Desc lies, dense;
  Ordered(DType type, const std::string& letters, const Shape& shape, const std::string& order) {
    const auto steps = shape.strides();
    Dims dims, strides;
    for (const char letter : order) {
      const size_t axis = letters.find(letter);
      dims.push_back(shape[axis]);
      strides.push_back(steps[axis]);
    }
    if (dims.empty()) dims = strides = {1};
    lies = strided(type, dims, strides);
    dense = row_major(type, dims);
  }
  bool is_dense() const { return lies == dense; }
};

Operand seen_as(Operand operand, const Desc& desc) {
  operand.plain = operand.wanted = desc;
  return operand;
}

class OnednnEinsum final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const auto l = letters_of(setup.node.attributes.text("equation", ""));
    if (!l || setup.inputs.size() != 2) return "its kernel takes two operands";
    for (const std::string* one : {&l->a, &l->b})
      for (const char letter : *one) {
        if (letter == '.') return "its kernel wants a letter for each axis";
        if (std::ranges::count(*one, letter) > 1) return "its kernel takes no diagonals";
        if (!has(l->y, letter) && !(has(l->a, letter) && has(l->b, letter)))
          return fmt::format("its kernel does not sum over '{}' of one operand alone", letter);
      }
    return {};
  }

  void build(Program& p, const KernelSetup& setup) const override {
    const Letters l = *letters_of(setup.node.attributes.text("equation", ""));
    const Shape &a = setup.inputs[0].shape, &b = setup.inputs[1].shape, &y = setup.outputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    std::string batch, rows, columns, sums;
    for (const char letter : l.y) (!has(l.b, letter) ? rows : !has(l.a, letter) ? columns : batch) += letter;
    for (const char letter : l.a)
      if (!has(l.y, letter)) sums += letter;
    const auto size = [&](const std::string& letters) {
      dnnl_dim_t product = 1;
      for (const char letter : letters) product *= has(l.a, letter) ? a[l.a.find(letter)] : b[l.b.find(letter)];
      return product;
    };
    const dnnl_dim_t count = size(batch), m = size(rows), n = size(columns), k = size(sums);
    const Ordered left(type, l.a, a, batch + rows + sums), right(type, l.b, b, batch + sums + columns),
        made(type, l.y, y, batch + rows + columns);
    const Desc a_matrices = row_major(type, {count, m, k}), b_matrices = row_major(type, {count, k, n}),
               y_matrices = row_major(type, {count, m, n});

    const auto read = [&](Pass pass, const Operand& from, const Ordered& order, const Desc& matrices) {
      if (order.is_dense()) return seen_as(from, matrices);
      const Operand dense = p.temporary(pass, order.dense);
      p.add_copy(pass, from, dense);
      return seen_as(dense, matrices);
    };
    const auto write = [&](Pass pass, const Operand& to, const Ordered& order, const Desc& matrices, const Operand& x,
                           const Operand& z) {
      if (order.is_dense()) return add_product(p, pass, x, z, seen_as(to, matrices));
      const Operand dense = p.temporary(pass, order.dense);
      add_product(p, pass, x, z, seen_as(dense, matrices));
      p.add_copy(pass, dense, to);
    };

    write(Pass::forward, output(0, made.lies), made, y_matrices,
          read(Pass::forward, input(0, left.lies), left, a_matrices),
          read(Pass::forward, input(1, right.lies), right, b_matrices));

    const auto wanted = [&](size_t i) { return i < setup.wants_gradient.size() && setup.wants_gradient[i]; };
    if (!wanted(0) && !wanted(1)) return;
    const Operand dy = read(Pass::backward, output_gradient(0, made.lies), made, y_matrices);
    if (wanted(0)) {
      const Operand factor = read(Pass::backward, input(1, right.lies), right, b_matrices);
      write(Pass::backward, input_gradient(0, left.lies), left, a_matrices, dy,
            seen_as(factor, strided(type, {count, n, k}, {k * n, 1, n})));
    }
    if (wanted(1)) {
      const Operand factor = read(Pass::backward, input(0, left.lies), left, a_matrices);
      write(Pass::backward, input_gradient(1, right.lies), right, b_matrices,
            seen_as(factor, strided(type, {count, k, m}, {m * k, 1, k})), dy);
    }
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Einsum", "builtin", OnednnEinsum);
}  // namespace d5::onednn
