// SPDX-License-Identifier: Apache-2.0
// bin/d5-overhead-onednn: d5 against oneDNN's primitives.
#include <dnnl.hpp>

#include "d5/core/rng.hpp"
#include "overhead.hpp"

namespace d5 {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

// The direct side: what a user of oneDNN writes, with the descriptors that d5 asks for.
class DirectOnednn final : public Direct {
 public:
  DirectOnednn(const OverheadCase& c, const OperatorCase& one) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    if (c.op == "Gemm")
      c.pass == Pass::forward ? gemm_forward(one) : gemm_backward(one);
    else
      conv(one, c.pass);
  }

  void run() override {
    for (auto& [primitive, arguments] : calls_) primitive.execute(stream_, arguments);
    stream_.wait();
  }
  std::string implementation() const override { return implementation_; }

 private:
  dnnl::memory memory(const Desc& desc) {
    buffers_.push_back(std::make_unique<Buffer>(host_memory(), desc.get_size()));
    const auto elements = static_cast<Index>(desc.get_size() / sizeof(float));
    fill_periodically(Tensor::view(DType::f32, {elements}, buffers_.back()->data()), buffers_.size());
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

  // rows x columns, row-major in memory, or the transpose of what lies there.
  static Desc matrix(Index rows, Index columns, bool transposed = false) {
    return {{rows, columns}, f32, transposed ? Dims{1, rows} : Dims{columns, 1}};
  }

  struct Product {
    Index m, n, k;
    bool trans_a, trans_b;
    explicit Product(const OperatorCase& one)
        : trans_a(one.attributes.flag("transA", false)), trans_b(one.attributes.flag("transB", false)) {
      const Shape &a = one.inputs[0].spec.shape, &b = one.inputs[1].spec.shape;
      m = a[trans_a ? 1 : 0];
      k = a[trans_a ? 0 : 1];
      n = b[trans_b ? 0 : 1];
    }
  };

  void gemm_forward(const OperatorCase& one) {
    const Product s(one);
    const Desc a = matrix(s.m, s.k, s.trans_a), b({s.k, s.n}, f32, Tag::any), y = matrix(s.m, s.n);
    const bool bias = one.inputs.size() > 2 && one.inputs[2].spec.present;
    const dnnl::matmul::primitive_desc desc = bias ? dnnl::matmul::primitive_desc(engine_, a, b, matrix(1, s.n), y)
                                                   : dnnl::matmul::primitive_desc(engine_, a, b, y);
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory(a)}, {DNNL_ARG_WEIGHTS, memory(desc.weights_desc())}, {DNNL_ARG_DST, memory(y)}};
    if (bias) arguments[DNNL_ARG_BIAS] = memory(desc.bias_desc());
    call(desc, std::move(arguments));
  }

  void product(const dnnl::memory& a, const Desc& as_a, const dnnl::memory& b, const Desc& as_b, const Desc& y) {
    const dnnl::matmul::primitive_desc desc(engine_, as_a, as_b, y);
    call(desc, {{DNNL_ARG_SRC, dnnl::memory(as_a, engine_, a.get_data_handle())},
                {DNNL_ARG_WEIGHTS, dnnl::memory(as_b, engine_, b.get_data_handle())},
                {DNNL_ARG_DST, memory(y)}});
  }

  // Gradients of a transposed operand are the transposed product, so that results are row-major.
  void gemm_backward(const OperatorCase& one) {
    const Product s(one);
    const Desc desc_a = matrix(s.m, s.k, s.trans_a), desc_b = matrix(s.k, s.n, s.trans_b), desc_y = matrix(s.m, s.n),
               desc_y_t = matrix(s.n, s.m, true);
    const dnnl::memory a = memory(desc_a), b = memory(desc_b), dy = memory(desc_y);
    if (s.trans_a)
      product(b, desc_b, dy, desc_y_t, matrix(s.k, s.m));
    else
      product(dy, desc_y, b, matrix(s.n, s.k, !s.trans_b), matrix(s.m, s.k));
    if (s.trans_b)
      product(dy, desc_y_t, a, desc_a, matrix(s.n, s.k));
    else
      product(a, matrix(s.k, s.m, !s.trans_a), dy, desc_y, matrix(s.k, s.n));
  }

  void conv(const OperatorCase& one, Pass pass) {
    const Shape &xs = one.inputs[0].spec.shape, &ws = one.inputs[1].spec.shape;
    const bool has_bias = one.inputs.size() > 2 && one.inputs[2].spec.present;
    const auto steps = one.attributes.integers("strides"), pads = one.attributes.integers("pads");
    const Dims none{0, 0};
    Dims strides, before, behind, out;
    for (size_t i = 0; i < 2; ++i) {
      strides.push_back(steps[i]);
      before.push_back(pads[i]);
      out.push_back((xs[2 + i] + pads[i] + pads[2 + i] - ws[2 + i]) / steps[i] + 1);
      behind.push_back((out[i] - 1) * steps[i] + ws[2 + i] - xs[2 + i] - pads[i]);
    }
    const Desc x({xs[0], xs[1], xs[2], xs[3]}, f32, Tag::nhwc), w({ws[0], ws[1], ws[2], ws[3]}, f32, Tag::any),
        y({xs[0], ws[0], out[0], out[1]}, f32, Tag::nhwc);
    const Desc bias = has_bias ? Desc({ws[0]}, f32, Tag::a) : Desc();
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto kind = pass == Pass::forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    using Forward = dnnl::convolution_forward::primitive_desc;
    const Forward forward = has_bias ? Forward(engine_, kind, direct, x, w, bias, y, strides, none, before, behind)
                                     : Forward(engine_, kind, direct, x, w, y, strides, none, before, behind);
    const dnnl::memory weights = memory(forward.weights_desc()), image = memory(x);
    if (pass == Pass::forward) {
      std::unordered_map<int, dnnl::memory> arguments{
          {DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, memory(y)}};
      if (has_bias) arguments[DNNL_ARG_BIAS] = memory(bias);
      return call(forward, std::move(arguments));
    }
    // Backward wants the weights, and gives their gradient, in layouts of its own: both are reordered in each step.
    const dnnl::memory dy = memory(y);
    const dnnl::convolution_backward_data::primitive_desc data(engine_, direct, x, w, y, strides, none, before, behind,
                                                               forward);
    const bool turns = data.weights_desc() != weights.get_desc();
    const dnnl::memory turned = turns ? memory(data.weights_desc()) : weights;
    if (turns) reorder(weights, turned);
    call(data, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, turned}, {DNNL_ARG_DIFF_SRC, memory(x)}});
    using Backward = dnnl::convolution_backward_weights::primitive_desc;
    const Backward gradient = has_bias
                                  ? Backward(engine_, direct, x, w, bias, y, strides, none, before, behind, forward)
                                  : Backward(engine_, direct, x, w, y, strides, none, before, behind, forward);
    const dnnl::memory dw = memory(gradient.diff_weights_desc());
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, image}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}};
    if (has_bias) arguments[DNNL_ARG_DIFF_BIAS] = memory(bias);
    call(gradient, std::move(arguments));
    if (dw.get_desc() != weights.get_desc()) reorder(dw, memory(weights.get_desc()));
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, dnnl::memory>>> calls_;
  std::string implementation_;
};

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  return d5::overhead_main(argc, argv,
                           {"onednn", "d5 against the same oneDNN primitives called directly",
                            [](const d5::OverheadCase& c, const d5::OperatorCase& one) -> std::unique_ptr<d5::Direct> {
                              return std::make_unique<d5::DirectOnednn>(c, one);
                            }});
}
