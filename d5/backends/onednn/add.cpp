// SPDX-License-Identifier: Apache-2.0
// Add by oneDNN's binary primitive, with broadcasting; a gradient is the sum over the copies of its operand.
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

class OnednnAdd final : public OnednnKernel {
 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const DType type = setup.outputs[0].dtype;
    const Dims whole = dims_of(setup.outputs[0].shape);
    const std::array<Dims, 2> dims{aligned(setup.inputs[0].shape, whole.size()),
                                   aligned(setup.inputs[1].shape, whole.size())};
    const Desc y = row_major(type, whole);
    // Addition commutes: the operand that is not repeated comes first.
    const size_t first = dims[0] == whole ? 0 : 1, second = 1 - first;
    const Desc a = row_major(type, dims[first]), b = row_major(type, dims[second]);
    const dnnl::binary::primitive_desc forward(engine(), dnnl::algorithm::binary_add, a, b, y, p.attributes());
    p.add(Pass::forward, forward,
          {reads(DNNL_ARG_SRC_0, input(first, a)), reads(DNNL_ARG_SRC_1, input(second, b)),
           writes(DNNL_ARG_DST, output(0, y))});
    for (const size_t i : {0, 1}) {
      if (!setup.wants_gradient[i]) continue;
      const Operand dx = input_gradient(i, row_major(type, dims[i]));
      add_sum(p, Pass::backward, type, type, output_gradient(0, y), whole, dx, dims[i]);
    }
  }

 private:
  static Dims aligned(const Shape& shape, size_t rank) {
    Dims dims = dims_of(shape);
    dims.insert(dims.begin(), rank - dims.size(), 1);
    return dims;
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Add", "builtin", OnednnAdd);
}  // namespace d5::onednn
