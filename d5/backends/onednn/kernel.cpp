// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/kernel.hpp"

#include <algorithm>

namespace d5::onednn {

std::optional<std::string> OnednnKernel::why_not(const KernelSetup& setup) const {
  if (auto reason = cannot(setup)) return reason;
  for (const auto* specs : {&setup.inputs, &setup.outputs})
    for (const TensorSpec& spec : *specs) {
      if (!spec.present) continue;
      if (spec.dtype != DType::f32 && spec.dtype != DType::bf16)
        return fmt::format("its oneDNN kernel computes in f32 and bf16, not in {}", name(spec.dtype));
      if (spec.elements() == 0) return "oneDNN leaves the results of empty tensors undefined";
      if (spec.shape.rank() > DNNL_MAX_NDIMS)
        return fmt::format("{} dimensions; oneDNN has at most {}", spec.shape.rank(), DNNL_MAX_NDIMS);
    }
  if (setup.options.math == Math::winograd && !knows_winograd()) return "only convolutions have a Winograd form";
  try {
    Program program(setup);
    guarded(setup.node.op, [&] { build(program, setup); });
    for (size_t i = 0; i < setup.outputs.size(); ++i)
      if (setup.outputs[i].present && !program.gives(i))
        return fmt::format("its oneDNN kernel does not give output {}", i);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void OnednnKernel::prepare(KernelSetup& setup) {
  program_.emplace(setup);
  guarded(setup.node.op, [&] {
    build(*program_, setup);
    program_->answer(setup);
  });
}

void OnednnKernel::bind(int binding, const Buffers& buffers) {
  guarded("onednn: bind", [&] { program_->bind(binding, buffers); });
}

}  // namespace d5::onednn
