// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear and DequantizeLinear of f32, with a scale for the whole tensor or for each slice of an axis: rows of
// neighbours that share a scale.
#include <limits>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"

namespace d5::onednn::own {
namespace {

// The tensor as slices of one scale each: rows x length.
struct Rows {
  Index count = 1, length = 1, scales = 1;
  Rows() = default;
  Rows(const Shape& x, const Shape& scale, Index axis) {
    if (scale.elements() == 1) {
      count = std::max<Index>(1, x.elements() / 4096);  // parts of it for threads
      while (x.elements() % count != 0) --count;
      length = x.elements() / count;
      return;
    }
    const size_t at = valid_axis(axis, x.rank(), "[quantize]");
    scales = x[at];
    count = x.elements(0, at + 1);
    length = x.elements(at + 1, x.rank());
  }
};

// Nearest, ties to even, of |value| < 2^22, in a way that every processor has in vectors.
inline float rounded(float value) {
  constexpr float shift = 0x1.8p23f;
  return (value + shift) - shift;
}

template <class T>
void quantize_row(const float* x, float scale, float zero, T* y, Index n) {
  const float low = static_cast<float>(std::numeric_limits<T>::min()) - zero,
              high = static_cast<float>(std::numeric_limits<T>::max()) - zero;
  for (Index i = 0; i < n; ++i) {
    const float quotient = x[i] / scale;
    const float bounded = quotient < low ? low : quotient > high ? high : quotient == quotient ? quotient : 0.0f;
    y[i] = static_cast<T>(static_cast<int>(rounded(bounded) + zero));
  }
}

template <class T>
void dequantize_row(const T* x, float scale, double zero, float* y, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) - zero) * scale;
}

template <class F>
void with_type(DType type, F&& f) {
  switch (type) {
    case DType::u8: return f(uint8_t{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::u16: return f(uint16_t{});
    default: return f(int32_t{});
  }
}

class QuantizeKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const bool narrows = setup.node.op == "QuantizeLinear";
    const TensorSpec &wide = narrows ? setup.inputs[0] : setup.outputs[0],
                     &few = narrows ? setup.outputs[0] : setup.inputs[0];
    for (const TensorSpec& spec : {wide, setup.inputs[1]})
      if (spec.dtype != DType::f32) return fmt::format("its kernel computes in f32, not in {}", name(spec.dtype));
    const DType type = few.dtype;
    const bool known = type == DType::u8 || type == DType::i8 || type == DType::i16 || type == DType::u16;
    if (!known && (narrows || type != DType::i32)) return fmt::format("its kernel does not convert {}", name(type));
    if (setup.node.attributes.integer("block_size", 0) != 0)
      return "its kernel has scales by tensor or axis, no blocks";
    if (setup.node.attributes.has("precision")) return "its kernel divides in f32";
    return {};
  }

  void build(const KernelSetup& setup) override {
    narrows_ = setup.node.op == "QuantizeLinear";
    type_ = narrows_ ? setup.outputs[0].dtype : setup.inputs[0].dtype;
    has_zero_ = setup.inputs.size() > 2 && setup.inputs[2].present;
    rows_ = Rows(setup.inputs[0].shape, setup.inputs[1].shape, setup.node.attributes.integer("axis", 1));
    parts_ = threads();
  }

  void run(Pass, const Buffers& b) override {
    const auto* scales = static_cast<const float*>(b.inputs[1]);
    with_type(type_, [&]<class T>(T) {
      const auto* zeros = has_zero_ ? static_cast<const T*>(b.inputs[2]) : nullptr;
      for_each_part(parts_, rows_.count, [&](int, Index first, Index last) {
        for (Index row = first; row < last; ++row) {
          const Index at = row % rows_.scales, start = row * rows_.length;
          const T zero = zeros ? zeros[at] : T{};
          if (!narrows_)
            dequantize_row(static_cast<const T*>(b.inputs[0]) + start, scales[at], static_cast<double>(zero),
                           static_cast<float*>(b.outputs[0]) + start, rows_.length);
          else if constexpr (sizeof(T) < 4)
            quantize_row(static_cast<const float*>(b.inputs[0]) + start, scales[at], static_cast<float>(zero),
                         static_cast<T*>(b.outputs[0]) + start, rows_.length);
        }
      });
    });
  }

 private:
  Rows rows_;
  DType type_ = DType::u8;
  bool narrows_ = true, has_zero_ = false;
  int parts_ = 1;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "QuantizeLinear", "builtin", QuantizeKernel);
D5_REGISTER_KERNEL(onednn, "DequantizeLinear", "builtin", QuantizeKernel);
}  // namespace d5::onednn::own
