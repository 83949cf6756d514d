// SPDX-License-Identifier: Apache-2.0
// The backend `torch`: LibTorch, eager, with its own autograd, on the CPU and on CUDA devices.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>

#include "d5/backends/kernel.hpp"
#include "d5/backends/torch/executable.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/probe.hpp"

namespace d5::libtorch {
namespace {

class TorchBackend final : public Backend {
 public:
  TorchBackend() {
    guarded("torch", [] { start(); });
  }

  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (auto reason = why_no_device(options.device)) return reason;
    if (auto reason = why_not_named(graph, options.kernel, "torch")) return reason;
    const at::Device device = device_of(options.device);
    if (auto reason = why_not_math(options.math, device)) return reason;
    if (!options.keep_denormals) return "torch flushes denormals on the calling thread alone";
    if (options.sparse_gradients) return "torch's gradients are dense here";
    if (options.recompute_above > 0 && options.mode == Mode::training)
      return "torch's autograd keeps what it needs: nothing is computed again";
    if (options.memory_limit > 0 && !device.is_cpu()) return "torch's memory has no limit here but on the cpu";
    if (options.slots < 1) return fmt::format("{} slots were asked for; at least one is needed", options.slots);
    start();
    return guarded("torch", [&] { return why_not_graph(graph, options, device); });
  }

  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& parameters,
                                      const CompileOptions& options) override {
    if (auto reason = why_no_device(options.device)) throw Error("[torch] {}", *reason);
    start();
    device_ = device_of(options.device);
    return guarded("torch", [&] { return make_executable(graph, parameters, options, device_); });
  }

  Facts facts() const override { return library_facts(); }
  Memory& memory(const std::string& device) override { return memory_of(device_of(device)); }
  Memory& staging_memory(const std::string& device) override { return staging_memory_of(device_of(device)); }
  std::unique_ptr<DeviceProbe> probe(const std::string& device) override { return make_probe(device_of(device)); }

  Mark mark() override {
    Mark mark{std::chrono::steady_clock::now()};
    if (device_.is_cpu()) return mark;
    if (events_.size() < marks) events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    c10::Event& event = events_[next_++ % marks];
    event.record(guard().getStream(device_));
    mark.event = &event;
    return mark;
  }

  double seconds(const Mark& from, const Mark& to) override {
    if (!from.event || !to.event) return Backend::seconds(from, to);
    auto& begin = *static_cast<c10::Event*>(from.event);
    auto& end = *static_cast<c10::Event*>(to.event);
    end.synchronize();
    return 1e-3 * begin.elapsedTime(end);
  }

  void synchronize() override {
    if (!device_.is_cpu()) guard().synchronizeStream(guard().getStream(device_));
  }

 private:
  static constexpr size_t marks = 128;
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }

  at::Device device_ = at::kCPU;
  std::deque<c10::Event> events_;  // pointers to them stay valid
  size_t next_ = 0;
};

}  // namespace
D5_REGISTER(backends, "torch", TorchBackend);
}  // namespace d5::libtorch
