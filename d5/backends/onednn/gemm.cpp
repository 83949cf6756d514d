// SPDX-License-Identifier: Apache-2.0
// Gemm by oneDNN's matmul. Transposed operands are views by strides. A row C with alpha = beta = 1 is the bias;
// otherwise alpha is a linear post-op and C, scaled first where beta is not 1, a binary one. B is packed by the library
// where it is a parameter and only forward runs; in training it stays row-major, because the forward product, the
// gradient of A and the gradient of B would each want another packing of the same bytes.
// What follows in inference (activations, sums) are post-ops, in training a Relu may follow.
// One sample and large weights in inference: own/row_products.cpp.
#include "d5/backends/onednn/chosen_kernel.hpp"
#include "d5/backends/onednn/epilogue.hpp"
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/own/row_products.hpp"

namespace d5::onednn {
namespace {

class OnednnGemm final : public OnednnKernel {
 public:
  bool fuses(const KernelSetup& setup) const override {
    if (setup.training()) return setup.followers.size() == 1 && is_relu(setup.followers[0]);
    return Epilogue::takes(setup, setup.followers.size() - 1, 1);
  }

 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const Attributes& a = setup.node.attributes;
    const bool trans_a = a.flag("transA", false), trans_b = a.flag("transB", false);
    const double alpha = a.real("alpha", 1), beta = a.real("beta", 1);
    const Shape &shape_a = setup.inputs[0].shape, &shape_y = setup.outputs[0].shape;
    const DType type = setup.outputs[0].dtype;
    const Index m = shape_y[0], n = shape_y[1], k = shape_a[trans_a ? 0 : 1];
    const Desc desc_a = matrix(type, m, k, trans_a), desc_b = matrix(type, k, n, trans_b), desc_y = matrix(type, m, n);

    const bool packed = setup.is_parameter[1] && !setup.training() && p.chooses_input(1);
    const bool has_c = setup.node.inputs.size() > 2 && setup.inputs[2].present;
    const Epilogue epilogue(setup, 0, 1, desc_y, 1);
    Dims dims_c;
    if (has_c) {
      dims_c = dims_of(setup.inputs[2].shape);
      if (dims_c.size() == 1) dims_c.insert(dims_c.begin(), 1);
    }
    const Desc wanted_b = packed ? any_layout(type, {k, n}) : desc_b;
    std::vector<Argument> arguments;
    const auto primitive = [&] {
      dnnl::primitive_attr attributes = p.attributes();
      const bool is_bias = has_c && alpha == 1 && beta == 1 && dims_c == Dims{1, n};
      if (is_bias || (!has_c && alpha == 1)) {
        attributes.set_post_ops(epilogue.operations());
        epilogue.append_to(arguments);
        if (epilogue.in_place()) p.must_take_the_place_of(*epilogue.in_place());
        if (!is_bias) return dnnl::matmul::primitive_desc(engine(), desc_a, wanted_b, desc_y, attributes);
        const Desc bias = row_major(type, dims_c);
        arguments.push_back(reads(DNNL_ARG_BIAS, input(2, bias)));
        return dnnl::matmul::primitive_desc(engine(), desc_a, wanted_b, bias, desc_y, attributes);
      }
      if (!setup.followers.empty()) throw Error("[gemm] scaled, so that nothing can follow in the same call");
      dnnl::post_ops after;
      if (alpha != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(alpha), 0);
      if (has_c) {
        Operand c = input(2, row_major(type, dims_c));
        if (beta != 1) c = scaled(p, c, dims_c, beta);
        arguments.push_back(reads(DNNL_ARG_ATTR_MULTIPLE_POST_OP(after.len()) | DNNL_ARG_SRC_1, c));
        after.append_binary(dnnl::algorithm::binary_add, c.wanted);
      }
      attributes.set_post_ops(after);
      return dnnl::matmul::primitive_desc(engine(), desc_a, wanted_b, desc_y, attributes);
    }();
    arguments.push_back(reads(DNNL_ARG_SRC, input(0, desc_a)));
    arguments.push_back(reads(DNNL_ARG_WEIGHTS, input(1, desc_b, primitive.weights_desc())));
    arguments.push_back(writes(DNNL_ARG_DST, output(0, desc_y)));
    p.add(Pass::forward, primitive, arguments);

    // Results of matmul are row-major, so a gradient of a transposed operand is computed as the transposed product.
    Operand dy = output_gradient(0, desc_y);
    const auto wants = [&](size_t i) { return i < setup.wants_gradient.size() && setup.wants_gradient[i]; };
    if (!setup.followers.empty() && (wants(0) || wants(1) || wants(2)))
      dy = add_relu_gradient(p, output(0, desc_y), dy);
    Operand dy_t = dy;
    dy_t.plain = dy_t.wanted = matrix(type, n, m, true);
    if (setup.wants_gradient[0]) {
      if (trans_a)
        add_product(p, Pass::backward, input(1, desc_b), dy_t, input_gradient(0, matrix(type, k, m)), alpha);
      else
        add_product(p, Pass::backward, dy, input(1, matrix(type, n, k, !trans_b)),
                    input_gradient(0, matrix(type, m, k)), alpha);
    }
    if (setup.wants_gradient[1]) {
      if (trans_b)
        add_product(p, Pass::backward, dy_t, input(0, desc_a), input_gradient(1, matrix(type, n, k)), alpha);
      else
        add_product(p, Pass::backward, input(0, matrix(type, k, m, !trans_a)), dy,
                    input_gradient(1, matrix(type, k, n)), alpha);
    }
    if (has_c && wants(2))
      add_sum(p, Pass::backward, type, type, dy, {m, n}, input_gradient(2, row_major(type, dims_c)), dims_c, beta);
  }

 private:
  // rows x columns, row-major in memory, or the transpose of what lies there.
  static Desc matrix(DType type, Index rows, Index columns, bool transposed = false) {
    return strided(type, {rows, columns}, transposed ? Dims{1, rows} : Dims{columns, 1});
  }

  // In f32 whatever C is, so that it is rounded only with the result.
  static Operand scaled(Program& p, Operand c, const Dims& dims, double scale) {
    c.wanted = row_major(DType::f32, dims);
    const Operand to = p.temporary(Pass::forward, c.wanted);
    add_scaled(p, Pass::forward, c, to, scale);
    return to;
  }
};

class Gemm final : public ChosenKernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override { return OnednnGemm().why_not(setup); }
  bool fuses(const KernelSetup& setup) const override { return OnednnGemm().fuses(setup); }

 private:
  std::unique_ptr<Kernel> choose(const KernelSetup& setup) const override {
    if (own::suits_row_products(setup)) return own::make_row_products();
    return std::make_unique<OnednnGemm>();
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Gemm", "builtin", Gemm);
}  // namespace d5::onednn
