// SPDX-License-Identifier: Apache-2.0
// The backend `onednn`: oneDNN's primitives, API v3, on the CPU.
#include "d5/backends/kernel.hpp"
#include "d5/backends/onednn/engine.hpp"

namespace d5::onednn {
namespace {

class OnednnBackend final : public Backend {
 public:
  OnednnBackend() {
    guarded("onednn", [] { engine(); });
  }

  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (options.deterministic && !has_deterministic_attribute())
      return "this release of oneDNN does not promise deterministic results";
    return why_not_kernels(graph, options, kernel_finder("onednn", options), "onednn");
  }
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& parameters,
                                      const CompileOptions& options) override {
    return compile_kernels(graph, parameters, options, kernel_finder("onednn", options));
  }
  Facts facts() const override { return library_facts(); }
  void synchronize() override {
    guarded("onednn", [] { stream().wait(); });
  }
};

}  // namespace
D5_REGISTER(backends, "onednn", OnednnBackend);
}  // namespace d5::onednn
