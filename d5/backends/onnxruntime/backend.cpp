// SPDX-License-Identifier: Apache-2.0
// The backend `onnxruntime`: inference by ONNX Runtime on the CPU. Threads are the case's; how much its optimizer may
// do is said by D5_ONNXRUNTIME_OPTIMIZATION = none, basic, extended or all (the default), which --environment can vary.
#include "d5/backends/kernel.hpp"
#include "d5/backends/onnxruntime/executable.hpp"
#include "d5/backends/onnxruntime/library.hpp"
#include "d5/core/parallel.hpp"

namespace d5::onnxruntime {
namespace {

class OnnxRuntimeBackend final : public Backend {
 public:
  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (options.device != "cpu") return fmt::format("onnxruntime runs on the cpu here, not on '{}'", options.device);
    if (options.mode == Mode::training) return "onnxruntime runs inference; it has no gradients here";
    if (options.math != Math::strict) return "onnxruntime computes in the tensors' own type: math is strict";
    if (options.sparse_gradients) return "onnxruntime has no gradients here";
    if (options.memory_limit > 0) return "onnxruntime does not say what memory it takes: no limit can be kept";
    if (options.slots < 1) return fmt::format("{} slots were asked for; at least one is needed", options.slots);
    if (auto reason = why_not_named(graph, options.kernel, "onnxruntime")) return reason;
    return why_not_graph(graph);
  }

  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& parameters,
                                      const CompileOptions& options) override {
    return make_executable(graph, parameters, options);
  }

  Facts facts() const override {
    return {{"library", std::string("ONNX Runtime ") + OrtGetApiBase()->GetVersionString()},
            {"threads", std::to_string(threads())},
            {"optimization", optimization()}};
  }
};

}  // namespace
D5_REGISTER(backends, "onnxruntime", OnnxRuntimeBackend);
}  // namespace d5::onnxruntime
