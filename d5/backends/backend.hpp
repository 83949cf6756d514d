// SPDX-License-Identifier: Apache-2.0
// WHO computes it. A backend compiles a graph into an Executable with bound buffers; the steady state neither allocates
// nor copies. Backends are modules opened when first asked for; nobody includes a concrete one.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "d5/core/parameter_set.hpp"
#include "d5/graph/graph.hpp"

namespace d5 {

// Arithmetic that a backend may use. Never a default of the library: a comparison is fair only when it is said.
enum class Math { strict, tf32, bf16, winograd };
enum class Mode { inference, training };
enum class LayoutChoice { plain, fast };  // row-major as ONNX says, or whatever the backend likes best
enum class Fallback { error, reference };

struct CompileOptions {
  Mode mode = Mode::inference;
  int slots = 1;  // sets of activations: micro-batches in flight, double-buffered input
  bool parameter_gradients = true;
  bool input_gradients = false;  // of data inputs: GANs, pipeline stages, and every operator checked alone
  Math math = Math::strict;
  bool sparse_gradients = false;  // rows only, where an operator touches few of them (Gather)
  bool deterministic = false;
  bool keep_denormals = true;
  LayoutChoice layout = LayoutChoice::fast;
  bool time_reorders = false;  // with fast layouts: convert inside forward/backward, or in write/read outside
  Fallback fallback = Fallback::error;
  std::string kernel = "builtin";  // or a user's kernel by its name
  std::string device = "cpu";
  // Gradients of parameters lie in the ParameterSet after backward. False: they may stay where the library made them,
  // as in its users' programs, and only read() finds them.
  bool gradients_in_set = true;
  // Values between inputs and outputs that can be read after a run, with their gradients; the bytes of others are used
  // again, or nodes are fused and they never exist.
  std::vector<std::string> keep = {};
  bool keep_all = false;  // validation: every value of the graph
  // backward may be run several times after one forward, at the price of memory: what it reads stays.
  bool backward_again = false;
  // Of what Executable::bytes counts: more is an OverLimit (backends/memory_limit.hpp), when it is compiled or, where
  // memory is taken as it goes, when it runs. 0: no limit.
  size_t memory_limit = 0;
  // Backward may compute values again instead of keeping them, with as little to compute as brings bytes() down to
  // this. 0: everything is kept.
  size_t recompute_above = 0;
  bool fuse = true;  // false: every node is a step of its own
  // In inference, steps whose values overflow a cache of so many bytes may work on a few samples at a time. 0: never.
  static constexpr size_t cache_of_machine = SIZE_MAX;
  size_t tile_cache = cache_of_machine;

  bool keeps(const std::string& value) const;
};
Math parse_math(std::string_view);
LayoutChoice parse_layout(std::string_view);

struct DeviceName {
  std::string kind;  // "cpu", "cuda"
  int index = 0;
};
DeviceName parse_device(std::string_view);  // "cpu", "cuda", "cuda:1"; UsageError on anything else

using Facts = std::vector<std::pair<std::string, std::string>>;

// A gradient that became final: a dense range of the ParameterSet, or rows of it.
struct Gradient {
  std::string_view parameter;
  ParameterSet::Range range;
  std::span<const Index> rows = {};  // empty: dense
  void* event = nullptr;             // on a device: ordered after this
};

// The one hook for events, breakdown, trace and overlap. Called from any thread; must not block or throw.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void node_begin(const Node&, Pass) {}
  virtual void node_end(const Node&, Pass) {}
  virtual void gradient_ready(const Gradient&) {}
};

class Executable {
 public:
  struct Run {
    int slot = 0;
    bool add_gradients = false;
    Observer* observer = nullptr;
    Position position;  // of the first sample of this slot: keys the random numbers of Dropout
  };
  enum class Role { value, gradient };

  virtual ~Executable() = default;
  virtual void forward(const Run&) = 0;
  // After forward of the same slot, once unless CompileOptions::backward_again. Output gradients were written (seeded).
  virtual void backward(const Run&) = 0;

  // A value or gradient by name, canonical (row-major, host). These convert where the native layout differs, and are
  // never part of a timed step. Error for a name that the plan does not keep.
  virtual void write(Role, const std::string& name, const Tensor& canonical, int slot = 0) = 0;
  virtual Tensor read(Role, const std::string& name, int slot = 0) = 0;
  // The same for inputs and outputs that may be no tensors (sequences, optionals); a backend without those has tensors.
  virtual void write_value(const std::string& name, const GraphValue& value, int slot = 0) {
    write(Role::value, name, value.as_tensor(), slot);
  }
  virtual GraphValue read_value(const std::string& name, int slot = 0) { return read(Role::value, name, slot); }
  // The bound buffer itself, no copy; absent where its layout is not canonical.
  virtual Tensor view(Role, const std::string& name, int slot = 0) = 0;

  virtual size_t bytes() const = 0;   // activations, gradients and workspace that this executable owns
  virtual Facts kernels() const = 0;  // node -> the implementation that was chosen, as the library names it
  // Which kernel ran over an end of which buffer since the executable was made; empty: none, or nobody watches.
  virtual std::string overrun() const { return {}; }
  // Why results of this pass are rounded to the tensors' own type (where that is narrower than f32) before they are
  // final: a library that adds in bf16. A check then counts roundings of that type. Empty: f32 or wider up to the end.
  virtual std::string narrow_arithmetic(Pass) const { return ""; }
  // Of bytes(): what kernels need beside their tensors. Empty: nobody knows.
  virtual std::optional<size_t> workspace_bytes() const { return {}; }
};

// A point in time on the backend's own clock: device events on a GPU. The backend owns the event; the last hundred
// marks are valid.
struct Mark {
  std::chrono::steady_clock::time_point host;
  void* event = nullptr;
};

// What a device gives right now, seen through the backend's own copies and products; the host's is Probe in
// measure/roofline.hpp.
class DeviceProbe {
 public:
  virtual ~DeviceProbe() = default;
  virtual double peak_flops(DType, Math) = 0;  // 0 where no peak is known
  virtual double bandwidth(double working_set_bytes) = 0;
  virtual void flush() = 0;  // empties the device's caches of the case
  virtual double cache_bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::optional<std::string> why_not(const Graph&, const CompileOptions&) const = 0;  // empty: it can
  virtual std::unique_ptr<Executable> compile(const Graph&, ParameterSet&, const CompileOptions&) = 0;
  virtual Facts facts() const = 0;  // library, version, ISA, threads, ...
  virtual Memory& memory(const std::string& /*device*/) { return host_memory(); }
  // Of the host, from where copies to the device are fastest: where batches are made.
  virtual Memory& staging_memory(const std::string& /*device*/) { return host_memory(); }
  virtual std::unique_ptr<DeviceProbe> probe(const std::string& /*device*/) { return nullptr; }  // null: the host's
  // On the clock of the device that the last compile() was for.
  virtual Mark mark() { return {std::chrono::steady_clock::now()}; }
  virtual double seconds(const Mark& from, const Mark& to) {
    return std::chrono::duration<double>(to.host - from.host).count();
  }
  virtual void synchronize() {}
};

struct backends {
  static constexpr const char* kind = "backend";
  struct Entry {
    std::function<std::unique_ptr<Backend>()> make;
  };
  template <class T>
  static Entry entry() {
    return {[]() -> std::unique_ptr<Backend> { return std::make_unique<T>(); }};
  }
};

struct BackendStatus {
  std::string name;
  bool available = false;
  std::string reason;    // why it is off, or what it is
  std::string module;    // path of its file; empty for built-in ones
  bool foreign = false;  // a worker in another language, which takes seconds to start
};
// Where backends come from beside modules and this process: the workers in other languages (runner/workers).
struct backend_sources {
  static constexpr const char* kind = "source of backends";
  struct Entry {
    std::function<std::vector<BackendStatus>()> statuses;
    std::function<std::unique_ptr<Backend>(const std::string& name)> open;
  };
  template <class T>
  static Entry entry() {
    return {&T::statuses, &T::open};
  }
};
// Every backend this build knows of, without opening any.
std::vector<BackendStatus> backend_statuses();
// Opens the module if needed. UsageError on an unknown name, Error with the reason where it is off.
std::unique_ptr<Backend> open_backend(const std::string& name);

}  // namespace d5
