// SPDX-License-Identifier: Apache-2.0
// MatMul by oneDNN's matmul: numpy's rules for stacks of matrices. A vector is a matrix with one row or column. A stack
// of A with a single B is one tall matrix; then B is packed where it is a parameter and only forward runs (see
// gemm.cpp). Gradients of a broadcast operand are summed over its copies.
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

// A stack of row-major matrices: stack sizes (1 where broadcast), rows, columns.
struct Stack {
  Dims sizes;
  Index rows, columns;

  Dims dims() const { return with(sizes, rows, columns); }
  Desc desc(DType type) const { return row_major(type, dims()); }
  // The same bytes seen transposed.
  Desc transposed(DType type) const {
    Dims strides(sizes.size() + 2);
    Index stride = rows * columns;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
    strides[sizes.size()] = 1;
    strides[sizes.size() + 1] = columns;
    return strided(type, with(sizes, columns, rows), strides);
  }
  static Dims with(Dims sizes, Index rows, Index columns) {
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  }
};

struct Operands {
  Stack a, b, y;
};

class OnednnMatMul final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    for (const TensorSpec& spec : setup.inputs)
      if (spec.shape.rank() == 0) return "a scalar is no matrix";
    return {};
  }

  void build(Program& p, const KernelSetup& setup) const override {
    const DType type = setup.outputs[0].dtype;
    const auto [a, b, y] = operands(setup.inputs[0].shape, setup.inputs[1].shape);
    const Desc desc_a = a.desc(type), desc_b = b.desc(type), desc_y = y.desc(type);
    const bool packed = setup.is_parameter[1] && !setup.training() && p.chooses_input(1);
    const dnnl::matmul::primitive_desc forward(engine(), desc_a, packed ? any_layout(type, b.dims()) : desc_b, desc_y,
                                               p.attributes());
    p.add(Pass::forward, forward,
          {reads(DNNL_ARG_SRC, input(0, desc_a)), reads(DNNL_ARG_WEIGHTS, input(1, desc_b, forward.weights_desc())),
           writes(DNNL_ARG_DST, output(0, desc_y))});

    const Operand dy = output_gradient(0, desc_y);
    if (setup.wants_gradient[0])
      add_gradient(p, type, dy, input(1, b.transposed(type)), {y.sizes, a.rows, a.columns}, a, 0);
    if (setup.wants_gradient[1])
      add_gradient(p, type, input(0, a.transposed(type)), dy, {y.sizes, b.rows, b.columns}, b, 1);
  }

 private:
  static void add_gradient(Program& p, DType type, const Operand& left, const Operand& right, const Stack& whole,
                           const Stack& wanted, size_t i) {
    if (whole.sizes == wanted.sizes)
      return add_product(p, Pass::backward, left, right, input_gradient(i, wanted.desc(type)));
    const Operand copies = p.temporary(Pass::backward, whole.desc(DType::f32));
    add_product(p, Pass::backward, left, right, copies);
    add_sum(p, Pass::backward, DType::f32, type, copies, whole.dims(), input_gradient(i, wanted.desc(type)),
            wanted.dims());
  }

  static Operands operands(const Shape& shape_a, const Shape& shape_b) {
    Dims a = dims_of(shape_a), b = dims_of(shape_b);
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
    const Index m = a[a.size() - 2], k = a.back(), n = b.back();
    a.resize(a.size() - 2);
    b.resize(b.size() - 2);
    Index stacked = 1, single = 1;
    for (const Index size : a) stacked *= size;
    for (const Index size : b) single *= size;
    if (single == 1) return {{{}, stacked * m, k}, {{}, k, n}, {{}, stacked * m, n}};
    while (a.size() < b.size()) a.insert(a.begin(), 1);
    while (b.size() < a.size()) b.insert(b.begin(), 1);
    Dims y(a.size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(a[i], b[i]);
    return {{a, m, k}, {b, k, n}, {y, m, n}};
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "MatMul", "builtin", OnednnMatMul);
}  // namespace d5::onednn
