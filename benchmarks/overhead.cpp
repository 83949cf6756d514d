// SPDX-License-Identifier: Apache-2.0
// What does d5 add to oneDNN? Each case runs through a d5 Executable and through the same primitives called directly,
// with buffers of their own, on one thread. Slices alternate as d5, direct, direct, d5; both sides are made anew
// several times with other addresses, because placement alone moves times by per cents. Ratios only: other work on the
// machine hits both sides.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <dnnl.hpp>

#include "d5/backends/backend.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/comparison.hpp"

namespace d5 {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

struct OverheadCase {
  std::string op;
  Attributes values;
  Pass pass = Pass::forward;
};

std::vector<OverheadCase> overhead_cases() {
  const auto gemm = [](int64_t m, int64_t n, int64_t k, Pass pass) {
    return OverheadCase{"Gemm", {{"m", m}, {"n", n}, {"k", k}, {"bias", pass == Pass::forward}}, pass};
  };
  const auto conv = [](int64_t n, int64_t c, int64_t size, int64_t k, int64_t filter, int64_t stride, Pass pass) {
    return OverheadCase{"Conv",
                        {{"n", n},
                         {"c", c},
                         {"size", fmt::format("{0}x{0}", size)},
                         {"k", k},
                         {"filter", fmt::format("{0}x{0}", filter)},
                         {"stride", std::to_string(stride)},
                         {"pad", std::to_string(filter / 2)}},
                        pass};
  };
  return {gemm(128, 128, 256, Pass::forward),         gemm(256, 256, 256, Pass::forward),
          gemm(64, 1024, 1024, Pass::forward),        gemm(512, 512, 512, Pass::forward),
          gemm(1024, 1024, 1024, Pass::forward),      gemm(2048, 2048, 2048, Pass::forward),
          gemm(256, 256, 256, Pass::backward),        gemm(1024, 1024, 1024, Pass::backward),
          conv(1, 64, 14, 64, 3, 1, Pass::forward),   conv(1, 64, 56, 64, 3, 1, Pass::forward),
          conv(16, 64, 56, 256, 1, 1, Pass::forward), conv(16, 256, 14, 256, 3, 1, Pass::forward),
          conv(16, 64, 56, 64, 3, 1, Pass::forward),  conv(16, 3, 224, 64, 7, 2, Pass::forward),
          conv(1, 64, 56, 64, 3, 1, Pass::backward),  conv(16, 64, 56, 64, 3, 1, Pass::backward)};
}

// The direct side: what a user of oneDNN writes, with the descriptors that d5 asks for.
class Direct {
 public:
  Direct(const OverheadCase& c, const OperatorCase& one) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    if (c.op == "Gemm")
      c.pass == Pass::forward ? gemm_forward(one) : gemm_backward(one);
    else
      conv(one, c.pass);
  }

  void run() {
    for (auto& [primitive, arguments] : calls_) primitive.execute(stream_, arguments);
    stream_.wait();
  }
  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::memory memory(const Desc& desc) {
    buffers_.push_back(std::make_unique<Buffer>(host_memory(), desc.get_size()));
    const auto elements = static_cast<Index>(desc.get_size() / sizeof(float));
    fill_uniform(Tensor::view(DType::f32, {elements}, buffers_.back()->data()), Rng(7, buffers_.size()), -1, 1);
    return {desc, engine_, buffers_.back()->data()};
  }
  template <class PrimitiveDesc>
  void call(const PrimitiveDesc& desc, std::unordered_map<int, dnnl::memory> arguments) {
    calls_.emplace_back(dnnl::primitive(desc.get()), std::move(arguments));
    implementation_ += (implementation_.empty() ? "" : " + ") + std::string(desc.impl_info_str());
  }
  void reorder(const dnnl::memory& from, const dnnl::memory& to) {
    const dnnl::reorder::primitive_desc desc(from, to);
    calls_.emplace_back(dnnl::reorder(desc),
                        std::unordered_map<int, dnnl::memory>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    implementation_ += (implementation_.empty() ? "reorder " : " + reorder ") + std::string(desc.impl_info_str());
  }

  void gemm_forward(const OperatorCase& one) {
    const Shape &a = one.inputs[0].spec.shape, &b = one.inputs[1].spec.shape;
    const dnnl::matmul::primitive_desc desc(engine_, {{a[0], a[1]}, f32, Tag::ab}, {{a[1], b[1]}, f32, Tag::any},
                                            {{1, b[1]}, f32, Tag::ab}, {{a[0], b[1]}, f32, Tag::ab});
    call(desc, {{DNNL_ARG_SRC, memory(desc.src_desc())},
                {DNNL_ARG_WEIGHTS, memory(desc.weights_desc())},
                {DNNL_ARG_BIAS, memory(desc.bias_desc())},
                {DNNL_ARG_DST, memory(desc.dst_desc())}});
  }

  void gemm_backward(const OperatorCase& one) {
    const Index m = one.inputs[0].spec.shape[0], k = one.inputs[0].spec.shape[1], n = one.inputs[1].spec.shape[1];
    const dnnl::memory a = memory({{m, k}, f32, Tag::ab}), b = memory({{k, n}, f32, Tag::ab}),
                       dy = memory({{m, n}, f32, Tag::ab});
    const Desc a_t({k, m}, f32, Tag::ba), b_t({n, k}, f32, Tag::ba);
    const dnnl::matmul::primitive_desc da(engine_, dy.get_desc(), b_t, a.get_desc());
    call(da, {{DNNL_ARG_SRC, dy},
              {DNNL_ARG_WEIGHTS, dnnl::memory(b_t, engine_, b.get_data_handle())},
              {DNNL_ARG_DST, memory(a.get_desc())}});
    const dnnl::matmul::primitive_desc db(engine_, a_t, dy.get_desc(), b.get_desc());
    call(db, {{DNNL_ARG_SRC, dnnl::memory(a_t, engine_, a.get_data_handle())},
              {DNNL_ARG_WEIGHTS, dy},
              {DNNL_ARG_DST, memory(b.get_desc())}});
  }

  void conv(const OperatorCase& one, Pass pass) {
    const Shape &xs = one.inputs[0].spec.shape, &ws = one.inputs[1].spec.shape;
    const Index stride = one.attributes.integers("strides")[0], pad = one.attributes.integers("pads")[0];
    const Index out = (xs[2] + 2 * pad - ws[2]) / stride + 1, after = (out - 1) * stride + ws[2] - xs[2] - pad;
    const Dims strides{stride, stride}, none{0, 0}, before{pad, pad}, behind{after, after};
    const Desc x({xs[0], xs[1], xs[2], xs[3]}, f32, Tag::nhwc), w({ws[0], ws[1], ws[2], ws[3]}, f32, Tag::any),
        bias({ws[0]}, f32, Tag::a), y({xs[0], ws[0], out, out}, f32, Tag::nhwc);
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto kind = pass == Pass::forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const dnnl::convolution_forward::primitive_desc forward(engine_, kind, direct, x, w, bias, y, strides, none, before,
                                                            behind);
    const dnnl::memory weights = memory(forward.weights_desc()), image = memory(x);
    if (pass == Pass::forward)
      return call(forward, {{DNNL_ARG_SRC, image},
                            {DNNL_ARG_WEIGHTS, weights},
                            {DNNL_ARG_BIAS, memory(bias)},
                            {DNNL_ARG_DST, memory(y)}});
    // Backward wants the weights, and gives their gradient, in layouts of its own: both are reordered in each step.
    const dnnl::memory dy = memory(y);
    const dnnl::convolution_backward_data::primitive_desc data(engine_, direct, x, w, y, strides, none, before, behind,
                                                               forward);
    const dnnl::memory turned = memory(data.weights_desc());
    if (data.weights_desc() != weights.get_desc()) reorder(weights, turned);
    call(data, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, turned}, {DNNL_ARG_DIFF_SRC, memory(x)}});
    const dnnl::convolution_backward_weights::primitive_desc gradient(engine_, direct, x, w, bias, y, strides, none,
                                                                      before, behind, forward);
    const dnnl::memory dw = memory(gradient.diff_weights_desc());
    call(gradient, {{DNNL_ARG_SRC, image},
                    {DNNL_ARG_DIFF_DST, dy},
                    {DNNL_ARG_DIFF_WEIGHTS, dw},
                    {DNNL_ARG_DIFF_BIAS, memory(bias)}});
    if (dw.get_desc() != weights.get_desc()) reorder(dw, memory(weights.get_desc()));
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, dnnl::memory>>> calls_;
  std::string implementation_;
};

class Wrapped {
 public:
  Wrapped(const OverheadCase& c, const OperatorCase& one, Backend& backend) : pass_(c.pass) {
    CompileOptions options;
    options.mode = c.pass == Pass::backward ? Mode::training : Mode::inference;
    options.input_gradients = c.pass == Pass::backward;
    executable_ = backend.compile(single_node_graph(c.op, one), parameters_, options);
    for (size_t i = 0; i < one.inputs.size(); ++i)
      fill(Executable::Role::value, fmt::format("x{}", i), one.inputs[i].spec);
    if (c.pass == Pass::backward)
      fill(Executable::Role::gradient, "y0", registered<operators>(c.op).make(one.attributes)->infer(one.specs())[0]);
    executable_->forward({});
  }

  void run() { pass_ == Pass::forward ? executable_->forward({}) : executable_->backward({}); }
  std::string implementation() const {  // "forward A; backward B + C": the part of the pass
    const std::string all = executable_->kernels()[0].second;
    const size_t split = all.find("; backward ");
    return pass_ == Pass::forward ? all.substr(8, split == std::string::npos ? split : split - 8)
                                  : all.substr(split + 11);
  }

 private:
  void fill(Executable::Role role, const std::string& name, const TensorSpec& spec) {
    const Tensor tensor(spec.dtype, spec.shape);
    fill_uniform(tensor, Rng(7, stream_of(name)), -1, 1);
    executable_->write(role, name, tensor);
  }
  Pass pass_;
  ParameterSet parameters_;
  std::unique_ptr<Executable> executable_;
};

// The median of single iterations, so that being interrupted now and then does not count.
template <class Side>
double seconds_per_iteration(Side& side, int64_t iterations) {
  if (iterations > 1) side.run();  // unrecorded: the other side's data is in the caches
  std::vector<double> seconds;
  for (int64_t i = 0; i < iterations; ++i) {
    const double begin = now_seconds();
    side.run();
    seconds.push_back(now_seconds() - begin);
  }
  return median(std::move(seconds));
}

std::string label(const OverheadCase& c) {
  std::string text = c.op + (c.pass == Pass::forward ? " forward" : " backward");
  for (const char* name : {"m", "n", "k", "c", "size", "filter", "stride"})
    if (c.values.has(name)) text += fmt::format(" {} {}", name, to_string(c.values.values().at(name)));
  return text;
}

struct Measured {
  Comparison comparison;
  double seconds, flops;
};

Measured measure(const OverheadCase& c, Backend& backend, int repetitions, int blocks, double slice_seconds) {
  const OperatorEntry& entry = registered<operators>(c.op);
  const OperatorCase one = entry.describe(complete_values(c.op, entry, c.values), DType::f32);
  const Rng rng(11, stream_of(label(c)));
  std::vector<std::unique_ptr<Buffer>> shifts;  // kept, so that each repetition gets other addresses
  std::vector<PairedSlices> slices;
  std::vector<double> seconds;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    shifts.push_back(std::make_unique<Buffer>(host_memory(), 64 * (1 + rng.below(repetition, 4096))));
    std::unique_ptr<Wrapped> wrapped;
    std::unique_ptr<Direct> direct;
    if (repetition % 2) wrapped = std::make_unique<Wrapped>(c, one, backend);
    direct = std::make_unique<Direct>(c, one);
    if (!wrapped) wrapped = std::make_unique<Wrapped>(c, one, backend);
    if (wrapped->implementation() != direct->implementation())
      throw Error("[overhead] {}: d5 runs '{}', the direct side '{}'", label(c), wrapped->implementation(),
                  direct->implementation());
    wrapped->run();
    const double once = seconds_per_iteration(*direct, 3);
    const auto iterations = std::max<int64_t>(1, static_cast<int64_t>(slice_seconds / once));
    for (int block = 0; block < blocks; ++block) {
      const double a1 = seconds_per_iteration(*wrapped, iterations), b1 = seconds_per_iteration(*direct, iterations);
      const double b2 = seconds_per_iteration(*direct, iterations), a2 = seconds_per_iteration(*wrapped, iterations);
      slices.push_back({repetition, block, std::log((a1 + a2) / (b1 + b2))});
      seconds.push_back((a1 + a2) / 2);
    }
  }
  return {compare_paired(slices), median(seconds), entry.make(one.attributes)->cost(one.specs(), c.pass).flops};
}

int run(int repetitions, int blocks, double slice_seconds) {
  set_threads(1);
  const auto backend = open_backend("onednn");  // first: it holds the library to an ISA that works
  fmt::print(
      "d5 against the same oneDNN primitives called directly, f32, 1 thread; ratio = time of d5 / direct time\n");
  for (const auto& [name, value] : backend->facts()) fmt::print("{}: {}; ", name, value);
  fmt::print("\n\n{:<62} {:>10} {:>8}  {:>6}  {}\n", "case", "d5, ms", "GFLOP/s", "ratio", "95 % CI");
  std::vector<double> ratios;
  double worst = 0, worst_low = 0;
  std::string worst_case;
  for (const OverheadCase& c : overhead_cases()) {
    const Measured m = measure(c, *backend, repetitions, blocks, slice_seconds);
    const auto& interval = m.comparison.interval;
    fmt::print("{:<62} {:>10.4f} {:>8.1f}  {:>6.4f}  {}\n", label(c), m.seconds * 1e3, m.flops / m.seconds * 1e-9,
               m.comparison.ratio, interval ? fmt::format("{:.4f} .. {:.4f}", interval->low, interval->high) : "-");
    std::fflush(stdout);
    ratios.push_back(m.comparison.ratio);
    if (m.comparison.ratio > worst) {
      worst = m.comparison.ratio;
      worst_case = label(c);
    }
    worst_low = std::max(worst_low, interval ? interval->low : m.comparison.ratio);
  }
  const double middle = median(ratios);
  const bool passed = middle <= 1.005 && worst_low <= 1.03;
  fmt::print("\nmedian ratio {:.4f} (at most 1.005 is wanted), worst {:.4f} in {} (at most 1.03{})\n{}\n", middle,
             worst, worst_case, worst > 1.03 && worst_low <= 1.03 ? "; its interval reaches below that: unclear" : "",
             passed ? "passed" : "failed");
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  CLI::App app{"What d5 adds to oneDNN: d5 executables against the same primitives called directly, in one process"};
  int repetitions = 8, blocks = 7;
  double slice = 0.005;
  app.add_option("--repetitions", repetitions, "times that both sides are made anew")->check(CLI::Range(6, 1000));
  app.add_option("--blocks", blocks, "d5-direct-direct-d5 blocks in each")->check(CLI::Range(1, 1000));
  app.add_option("--slice", slice, "seconds of one slice, at least one iteration")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return d5::run(repetitions, blocks, slice);
  } catch (const std::exception& error) {
    fmt::print(stderr, "d5-overhead: {}\n", error.what());
    return 1;
  }
}
