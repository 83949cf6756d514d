// SPDX-License-Identifier: Apache-2.0
// MatMul by oneDNN's matmul: numpy's rules for stacks of matrices. A vector is a matrix with one row or column. A stack
// of A with a single B is one tall matrix; then B is packed where it is a parameter and only forward runs (see
// gemm.cpp). Gradients of a broadcast operand are summed over its copies.
// In a network operands may lie transposed, or with the heads of an attention between its rows (0,2,1,3 and 0,3,1,2),
// and the result may be left that way: no Transpose is computed. In inference activations and sums that follow are
// post-ops; in training a bias may follow, and then a Relu or the sum of a residual block.
#include <algorithm>

#include "d5/backends/onednn/epilogue.hpp"
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

// Matrices in memory: stack sizes (1 where broadcast), rows, columns.
struct Stack {
  Dims dims, strides;

  static Stack dense(const Dims& dims, const AxisOrder& order = {}) {
    const Desc desc = ordered(DType::f32, dims, order);
    return {dims, desc.get_strides()};
  }
  Dims sizes() const { return {dims.begin(), dims.end() - 2}; }
  Index rows() const { return dims[dims.size() - 2]; }
  Index columns() const { return dims.back(); }
  Desc desc(DType type) const { return strided(type, dims, strides); }
  // The same bytes seen transposed.
  Stack transposed() const {
    Stack other = *this;
    std::swap(other.dims[dims.size() - 2], other.dims[dims.size() - 1]);
    std::swap(other.strides[dims.size() - 2], other.strides[dims.size() - 1]);
    return other;
  }
  bool is_turned() const { return strides.back() != 1 && strides[strides.size() - 2] == 1 && columns() > 1; }
};

struct Operands {
  Stack a, b, y;
};

bool is_row(const TensorSpec& spec, Index columns) {
  return spec.shape.elements() == columns && spec.shape.rank() > 0 && spec.shape.back() == columns;
}

class OnednnMatMul final : public OnednnKernel {
 public:
  bool fuses(const KernelSetup& setup) const override {
    const size_t last = setup.followers.size() - 1, channel = setup.outputs[0].shape.rank() - 1;
    if (setup.inputs[0].shape.rank() < 2 || setup.inputs[1].shape.rank() < 2) return false;
    if (!Epilogue::takes(setup, last, channel)) return false;
    if (!setup.training()) return true;
    if (std::ranges::any_of(setup.followers, is_relu)) return is_relu(setup.followers[last]) && !residual(setup);
    if (setup.followers[last].node.op != "Add") return false;
    if (last == 0) return bias(setup) || residual(setup);
    return last == 1 && bias(setup) && residual(setup);
  }

  void arrange(KernelSetup& setup) const override {
    const AxisOrder heads{0, 2, 1, 3};
    std::vector<AxisOrder> given = setup.input_orders;
    const AxisOrder wish = setup.output_orders[0];
    Kernel::arrange(setup);
    const size_t rank_a = setup.inputs[0].shape.rank(), rank_b = setup.inputs[1].shape.rank();
    for (const size_t i : {0, 1}) {
      const size_t rank = i == 0 ? rank_a : rank_b;
      if (rank < 2 || (i == 0 && rank_b == 2 && rank_a > 2)) continue;  // a tall matrix is row-major
      AxisOrder turned;
      for (size_t axis = 0; axis < rank; ++axis) turned.push_back(axis);
      std::swap(turned[rank - 1], turned[rank - 2]);
      for (const AxisOrder& legal : {turned, heads, AxisOrder{0, 3, 1, 2}})
        if (given[i] == legal) setup.input_orders[i] = legal;
    }
    if (wish == heads && rank_a == 4 && rank_b == 4 && setup.followers.empty()) setup.output_orders[0] = heads;
  }

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    for (const size_t i : {0, 1})
      if (setup.inputs[i].shape.rank() == 0) return "a scalar is no matrix";
    return {};
  }

  void build(Program& p, const KernelSetup& setup) const override {
    const DType type = setup.outputs[0].dtype;
    const auto [a, b, y] = operands(setup);
    const Desc desc_a = a.desc(type), desc_b = b.desc(type), desc_y = y.desc(type);
    const bool packed = setup.is_parameter[1] && !setup.training() && p.chooses_input(1);
    const Epilogue epilogue(setup, 0, setup.outputs[0].shape.rank() - 1, desc_y, y.dims.size() - 1);
    dnnl::primitive_attr attributes = p.attributes();
    attributes.set_post_ops(epilogue.operations());
    const dnnl::matmul::primitive_desc forward(engine(), desc_a, packed ? any_layout(type, b.dims) : desc_b, desc_y,
                                               attributes);
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, desc_a)),
                                    reads(DNNL_ARG_WEIGHTS, input(1, desc_b, forward.weights_desc())),
                                    writes(DNNL_ARG_DST, output(0, desc_y))};
    epilogue.append_to(arguments);
    if (epilogue.in_place()) p.must_take_the_place_of(*epilogue.in_place());
    p.add(Pass::forward, forward, arguments);

    Operand dy = output_gradient(0, desc_y);
    const bool any = std::ranges::find(setup.wants_gradient, true) != setup.wants_gradient.end();
    if (any && !setup.followers.empty() && is_relu(setup.followers.back()))
      dy = add_relu_gradient(p, output(0, desc_y), dy);
    if (setup.wants_gradient[0]) add_gradient(p, type, dy, y, input(1, desc_b), b.transposed(), a, 0, false);
    if (setup.wants_gradient[1]) add_gradient(p, type, dy, y, input(0, desc_a), a.transposed(), b, 1, true);
    if (const auto i = bias(setup); i && setup.wants_gradient[*i])
      add_sum(p, Pass::backward, type, type, dy, y.dims, input_gradient(*i, row_major(type, {y.columns()})), row_of(y));
    if (const auto i = residual(setup); i && setup.wants_gradient[*i]) p.passes_gradient(*i);
  }

 private:
  // In training: the input that is one value per column, a parameter; the one that is like the result.
  static std::optional<size_t> bias(const KernelSetup& setup) {
    if (setup.followers.empty() || setup.followers[0].node.op != "Add" || !setup.training()) return {};
    const size_t other = added(setup.followers[0]);
    if (other >= setup.inputs.size() || !setup.is_parameter[other]) return {};
    return is_row(setup.inputs[other], setup.outputs[0].shape.back()) ? std::optional(other) : std::nullopt;
  }
  static std::optional<size_t> residual(const KernelSetup& setup) {
    if (!setup.training()) return {};
    for (const Follower& follower : setup.followers) {
      if (follower.node.op != "Add") continue;
      const size_t other = added(follower);
      if (other < setup.inputs.size() && !setup.is_parameter[other] &&
          setup.inputs[other].shape == setup.outputs[0].shape)
        return other;
    }
    return {};
  }
  static size_t added(const Follower& follower) {
    return follower.inputs[0] == Follower::result ? follower.inputs[1] : follower.inputs[0];
  }
  static Dims row_of(const Stack& y) {
    Dims dims(y.dims.size(), 1);
    dims.back() = y.columns();
    return dims;
  }

  // The gradient of `wanted`: dy times the other operand transposed, from the left where that is the right operand's.
  // Results of matmul have neighbours in a row, so that of an operand that lies transposed is computed transposed.
  static void add_gradient(Program& p, DType type, const Operand& dy, const Stack& y, const Operand& other_operand,
                           const Stack& other, const Stack& wanted, size_t i, bool from_left) {
    const Dims stack = y.sizes();
    Dims whole = stack;
    whole.insert(whole.end(), {wanted.rows(), wanted.columns()});
    const bool summed = stack != wanted.sizes();
    const bool turned = !summed && wanted.is_turned();
    const auto seen = [&](const Operand& operand, const Stack& as) {
      Operand looked_at = operand;
      looked_at.plain = looked_at.wanted = (turned ? as.transposed() : as).desc(type);
      return looked_at;
    };
    const Operand left = from_left ? seen(other_operand, other) : seen(dy, y);
    const Operand right = from_left ? seen(dy, y) : seen(other_operand, other);
    const Desc place = (turned ? wanted.transposed() : wanted).desc(type);
    const auto multiply = [&](const Operand& to) {
      turned ? add_product(p, Pass::backward, right, left, to) : add_product(p, Pass::backward, left, right, to);
    };
    if (!summed) return multiply(input_gradient(i, place));
    const Operand copies = p.temporary(Pass::backward, row_major(DType::f32, whole));
    multiply(copies);
    add_sum(p, Pass::backward, DType::f32, type, copies, whole, input_gradient(i, wanted.desc(type)), wanted.dims);
  }

  static Operands operands(const KernelSetup& setup) {
    Dims a = dims_of(setup.inputs[0].shape), b = dims_of(setup.inputs[1].shape);
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
    const Index m = a[a.size() - 2], k = a.back(), n = b.back();
    Index stacked = 1, single = 1;
    for (size_t i = 0; i + 2 < a.size(); ++i) stacked *= a[i];
    for (size_t i = 0; i + 2 < b.size(); ++i) single *= b[i];
    if (single == 1 && setup.input_order(0).empty() && (setup.input_order(1).empty() || b.size() == 2) &&
        setup.output_order(0).empty())
      return {Stack::dense({stacked * m, k}), Stack::dense({k, n}, setup.input_order(1)),
              Stack::dense({stacked * m, n})};
    Stack left = Stack::dense(a, setup.input_order(0)), right = Stack::dense(b, setup.input_order(1));
    const auto widen = [](Stack& stack, size_t rank) {
      for (; stack.dims.size() < rank; stack.dims.insert(stack.dims.begin(), 1))
        stack.strides.insert(stack.strides.begin(), stack.dims[0] * stack.strides[0]);
    };
    const size_t rank = std::max(a.size(), b.size());
    widen(left, rank);
    widen(right, rank);
    Dims y(rank);
    for (size_t i = 0; i + 2 < rank; ++i) y[i] = std::max(left.dims[i], right.dims[i]);
    y[rank - 2] = m;
    y[rank - 1] = n;
    return {left, right, Stack::dense(y, setup.output_order(0))};
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "MatMul", "builtin", OnednnMatMul);
}  // namespace d5::onednn
