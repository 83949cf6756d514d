// SPDX-License-Identifier: Apache-2.0
// Products of quantised tensors by oneDNN's products of 8-bit integers: MatMulInteger, QLinearMatMul and, an image at a
// time unfolded into columns as in conv_im2col.cpp, ConvInteger and QLinearConv. With R the factor of rows (A, or the
// weights of a convolution) and C that of columns (B, or the image):
//   sum = (R - z_r) (C - z_c), exact in i32        y = saturate(round(sum s_r s_c / s_y) + z_y), the factor in f32
// The library wants a signed C: an unsigned one is moved by 128, and its zero point with it. It takes one zero point of
// each factor; what a list of them changes is added to the sums.
#include <algorithm>
#include <limits>

#include "d5/backends/onednn/engine.hpp"
#include "d5/backends/onednn/window.hpp"
#include "d5/core/parallel.hpp"

namespace d5::onednn {
namespace {

bool is_eight_bits(const TensorSpec& spec) { return spec.dtype == DType::i8 || spec.dtype == DType::u8; }
bool present(const KernelSetup& setup, size_t i) { return i < setup.inputs.size() && setup.inputs[i].present; }

int read(DType type, const void* from, Index at) {
  return type == DType::u8 ? static_cast<const uint8_t*>(from)[at] : static_cast<const int8_t*>(from)[at];
}

class IntegerProduct : public Kernel {
 public:
  void bind(int binding, const Buffers& buffers) final {
    bound_.resize(std::max(bound_.size(), static_cast<size_t>(binding) + 1));
    bound_[static_cast<size_t>(binding)] = buffers;
  }
  void forward(int binding) final { run(bound_[static_cast<size_t>(binding)]); }
  std::string implementation() const final { return "dnnl_gemm_s8s8s32, dnnl_gemm_u8s8s32"; }
  size_t scratch_bytes() const final { return scratch_bytes_; }

 protected:
  // Which inputs belong to a factor, and how many scales and zero points it may have.
  struct Factor {
    size_t values, scale, zero;
    Index many = 1;
    DType type = DType::u8;
    Index zeros = 0, scales = 1;
  };

  virtual void run(const Buffers&) = 0;

  static std::optional<std::string> cannot(const KernelSetup& setup, bool requantised, const Factor& rows,
                                           const Factor& columns) {
    // Without VNNI the library sums pairs of products in 16 bits.
    const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
    if ((isa & dnnl_cpu_isa_avx512_core_vnni) != dnnl_cpu_isa_avx512_core_vnni)
      return "oneDNN's products of 8 bits are exact on processors with AVX-512 VNNI alone";
    if (setup.options.math == Math::winograd) return "products of integers have no Winograd form";
    for (const Factor* factor : {&rows, &columns}) {
      if (!is_eight_bits(setup.inputs[factor->values]))
        return fmt::format("its kernel multiplies i8 and u8, not {}", name(setup.inputs[factor->values].dtype));
      for (const size_t i : {factor->zero, factor->scale}) {
        if (!present(setup, i) || (i == factor->scale && !requantised)) continue;
        const TensorSpec& spec = setup.inputs[i];
        if (spec.elements() != 1 && (spec.shape.rank() != 1 || spec.elements() != factor->many))
          return "its kernel has one scale and zero point, or a list for rows of A, columns of B, output channels";
        if (i == factor->scale && spec.dtype != DType::f32)
          return fmt::format("its kernel has scales of f32, not {}", name(spec.dtype));
        if (i == factor->zero && spec.dtype != setup.inputs[factor->values].dtype)
          return fmt::format("its kernel has zero points of the type of what they move, not {}", name(spec.dtype));
      }
    }
    if (requantised && (!is_eight_bits(setup.outputs[0]) || setup.inputs[6].dtype != DType::f32))
      return "its kernel makes i8 and u8 by scales of f32";
    for (const TensorSpec& spec : setup.inputs)
      if (spec.present && spec.elements() == 0) return "oneDNN leaves the results of empty tensors undefined";
    if (setup.outputs[0].elements() == 0) return "oneDNN leaves the results of empty tensors undefined";
    return {};
  }

  void describe(const KernelSetup& setup, bool requantised, Factor rows, Factor columns) {
    for (Factor* factor : {&rows, &columns}) {
      factor->type = setup.inputs[factor->values].dtype;
      factor->zeros = present(setup, factor->zero) ? setup.inputs[factor->zero].elements() : 0;
      factor->scales = requantised ? setup.inputs[factor->scale].elements() : 1;
    }
    rows_ = rows;
    columns_ = columns;
    output_ = setup.outputs[0].dtype;
    scratch_bytes_ = 0;
  }

  size_t need_scratch(size_t bytes) {
    const size_t offset = scratch_bytes_;
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }

  // 128 where the columns are moved to signed numbers.
  int moved() const { return columns_.type == DType::u8 ? 128 : 0; }
  static int zero(const Factor& factor, const Buffers& b, Index i) {
    return factor.zeros == 0 ? 0 : read(factor.type, b.inputs[factor.zero], factor.zeros == 1 ? 0 : i);
  }

  struct Sizes {
    Index m, n, k;
  };

  // The sums of one matrix; its rows are `first` and later ones of those that have scales and zero points of their own.
  void multiply(const Buffers& b, const Sizes& s, Index first, const void* rows, const int8_t* columns,
                int32_t* sums) const {
    const bool many_rows = rows_.zeros > 1, many_columns = columns_.zeros > 1;
    const int row_zero = many_rows ? 0 : zero(rows_, b, 0);
    const int column_zero = many_columns ? 0 : zero(columns_, b, 0) - moved();
    const int32_t nothing = 0;
    const auto z = static_cast<int8_t>(column_zero);
    check(rows_.type == DType::u8
              ? dnnl_gemm_u8s8s32('N', 'N', 'F', s.m, s.n, s.k, 1, static_cast<const uint8_t*>(rows), s.k,
                                  static_cast<uint8_t>(row_zero), columns, s.n, z, 0, sums, s.n, &nothing)
              : dnnl_gemm_s8s8s32('N', 'N', 'F', s.m, s.n, s.k, 1, static_cast<const int8_t*>(rows), s.k,
                                  static_cast<int8_t>(row_zero), columns, s.n, z, 0, sums, s.n, &nothing),
          "onednn: product of integers");
    if (!many_rows && !many_columns) return;
    parallel_for(s.m, 1, [&](Index from, Index to) {
      for (Index i = from; i < to; ++i) {
        const int own_zero = many_rows ? zero(rows_, b, (first + i) % rows_.zeros) : 0;
        int32_t row_sum = 0;
        for (Index p = 0; many_columns && p < s.k; ++p) row_sum += read(rows_.type, rows, i * s.k + p) - row_zero;
        for (Index j = 0; j < s.n; ++j) {
          const int other_zero = many_columns ? zero(columns_, b, j) - moved() : 0;
          int32_t change = -other_zero * row_sum;
          if (own_zero != 0) {
            int32_t column_sum = 0;
            for (Index p = 0; p < s.k; ++p) column_sum += columns[p * s.n + j] - column_zero - other_zero;
            change -= own_zero * column_sum;
          }
          sums[i * s.n + j] += change;
        }
      }
    });
  }

  // Sums of rows `first` and later ones as numbers of 8 bits.
  void requantise(const Buffers& b, const Sizes& s, Index first, const int32_t* sums, void* y) const {
    output_ == DType::u8 ? store(b, s, first, sums, static_cast<uint8_t*>(y))
                         : store(b, s, first, sums, static_cast<int8_t*>(y));
  }

  Factor rows_{}, columns_{};

 private:
  template <class T>
  void store(const Buffers& b, const Sizes& s, Index first, const int32_t* sums, T* y) const {
    const auto* row_scales = static_cast<const float*>(b.inputs[rows_.scale]);
    const auto* column_scales = static_cast<const float*>(b.inputs[columns_.scale]);
    const float scale = *static_cast<const float*>(b.inputs[6]);
    const double z = read(output_, b.inputs[7], 0);
    constexpr double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max(), far = 1e9;
    constexpr double nearest = 0x1.8p52;  // added and subtracted: the nearest integer, ties to even
    parallel_for(s.m, std::max<Index>(1, (1 << 14) / s.n), [&](Index from, Index to) {
      for (Index i = from; i < to; ++i) {
        const float row_scale = row_scales[rows_.scales == 1 ? 0 : (first + i) % rows_.scales];
        for (Index j = 0; j < s.n; ++j) {
          const float product = row_scale * column_scales[columns_.scales == 1 ? 0 : j];
          const double value = std::clamp(sums[i * s.n + j] * static_cast<double>(product / scale), -far, far);
          y[i * s.n + j] = static_cast<T>(std::clamp(value + nearest - nearest + z, low, high));
        }
      }
    });
  }

  DType output_ = DType::i32;
  size_t scratch_bytes_ = 0;
  std::vector<Buffers> bound_;
};

template <bool quantised>
class IntegerMatMul final : public IntegerProduct {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    const auto [a, b] = factors(setup);
    if (setup.inputs[a.values].shape.rank() < 2 || setup.inputs[b.values].shape.rank() < 2)
      return "its kernel multiplies matrices";
    return cannot(setup, quantised, a, b);
  }

  void prepare(KernelSetup& setup) override {
    const auto [a, b] = factors(setup);
    describe(setup, quantised, a, b);
    const Shape &left = setup.inputs[a.values].shape, &right = setup.inputs[b.values].shape,
                &y = setup.outputs[0].shape;
    sizes_ = {left[left.rank() - 2], right.back(), left.back()};
    matrices_.clear();
    if (right.rank() == 2) {  // all rows of A at once
      sizes_.m = left.elements(0, left.rank() - 1);
      matrices_ = {{0, 0}};
    } else {
      const Index count = y.elements(0, y.rank() - 2);
      for (Index i = 0; i < count; ++i) matrices_.emplace_back(matrix(left, y, i), matrix(right, y, i));
    }
    columns_at_ = moved() ? need_scratch(static_cast<size_t>(right.elements())) : 0;
    sums_at_ = quantised ? need_scratch(static_cast<size_t>(sizes_.m * sizes_.n) * sizeof(int32_t)) : 0;
    column_count_ = right.elements();
  }

 private:
  struct Factors {
    Factor a, b;
  };
  static Factors factors(const KernelSetup& setup) {
    Factors f{{.values = 0, .scale = 1, .zero = 2}, {.values = 3, .scale = 4, .zero = 5}};
    if (!quantised) f = {{.values = 0, .scale = 0, .zero = 2}, {.values = 1, .scale = 0, .zero = 3}};
    const Shape &a = setup.inputs[f.a.values].shape, &b = setup.inputs[f.b.values].shape;
    if (a.rank() > 1) f.a.many = a[a.rank() - 2];
    if (b.rank() > 1) f.b.many = b.back();
    return f;
  }

  // Which matrix of a factor, whose first axes are broadcast, belongs to matrix i of the result.
  static Index matrix(const Shape& factor, const Shape& y, Index i) {
    Index at = 0, stride = 1;
    for (size_t axis = y.rank() - 2, from_end = 3; axis-- > 0; ++from_end) {
      const Index place = i % y[axis], size = from_end <= factor.rank() ? factor[factor.rank() - from_end] : 1;
      i /= y[axis];
      if (size > 1) at += place * stride;
      stride *= size;
    }
    return at;
  }

  void run(const Buffers& b) override {
    const auto* columns = static_cast<const int8_t*>(b.inputs[columns_.values]);
    auto* scratch = static_cast<char*>(b.scratch);
    if (moved()) {
      auto* to = reinterpret_cast<int8_t*>(scratch + columns_at_);
      const auto* from = static_cast<const uint8_t*>(b.inputs[columns_.values]);
      parallel_for(column_count_, 1 << 16, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) to[i] = static_cast<int8_t>(from[i] - 128);
      });
      columns = to;
    }
    auto* y = static_cast<char*>(b.outputs[0]);
    for (const auto& [left, right] : matrices_) {
      const char* rows = static_cast<const char*>(b.inputs[rows_.values]) + left * sizes_.m * sizes_.k;
      auto* sums = reinterpret_cast<int32_t*>(quantised ? scratch + sums_at_ : y);
      multiply(b, sizes_, 0, rows, columns + right * sizes_.k * sizes_.n, sums);
      if (quantised) requantise(b, sizes_, 0, sums, y);
      y += sizes_.m * sizes_.n * static_cast<Index>(quantised ? 1 : sizeof(int32_t));
    }
  }

  Sizes sizes_{};
  std::vector<std::pair<Index, Index>> matrices_;  // of A and B, by that of the result
  size_t columns_at_ = 0, sums_at_ = 0;
  Index column_count_ = 0;
};

template <bool quantised>
class IntegerConv final : public IntegerProduct {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    const auto [w, x] = factors(setup);
    if (present(setup, bias) && quantised && setup.inputs[bias].dtype != DType::i32)
      return fmt::format("its kernel adds a bias of i32, not {}", name(setup.inputs[bias].dtype));
    return cannot(setup, quantised, w, x);
  }

  void prepare(KernelSetup& setup) override {
    const auto [w, x] = factors(setup);
    describe(setup, quantised, w, x);
    const Shape &image = setup.inputs[x.values].shape, &weights = setup.inputs[w.values].shape;
    window_.emplace(setup.node.attributes, spatial_sizes(image), spatial_sizes(weights), "[conv]");
    samples_ = image[0];
    groups_ = setup.node.attributes.integer("group", 1);
    channels_ = image[1] / groups_;
    sizes_ = {weights[0] / groups_, window_->output_elements(), channels_ * window_->taps()};
    has_bias_ = quantised && present(setup, bias);
    columns_at_ = need_scratch(static_cast<size_t>(sizes_.k * sizes_.n));
    sums_at_ = quantised ? need_scratch(static_cast<size_t>(sizes_.m * sizes_.n) * sizeof(int32_t)) : 0;
  }

 private:
  static constexpr size_t bias = 8;
  struct Factors {
    Factor w, x;
  };
  static Factors factors(const KernelSetup& setup) {
    Factors f{{.values = 3, .scale = 4, .zero = 5}, {.values = 0, .scale = 1, .zero = 2}};
    if (!quantised) f = {{.values = 1, .scale = 0, .zero = 3}, {.values = 0, .scale = 0, .zero = 2}};
    f.w.many = setup.inputs[f.w.values].shape[0];
    return f;
  }

  void run(const Buffers& b) override {
    auto* columns = static_cast<int8_t*>(b.scratch) + columns_at_;
    auto* y = static_cast<char*>(b.outputs[0]);
    for (Index image = 0; image < samples_ * groups_; ++image) {
      unfold(b, image, columns);
      const Index first = image % groups_ * sizes_.m;
      const char* rows = static_cast<const char*>(b.inputs[rows_.values]) + first * sizes_.k;
      auto* sums = reinterpret_cast<int32_t*>(quantised ? static_cast<char*>(b.scratch) + sums_at_ : y);
      multiply(b, sizes_, first, rows, columns, sums);
      if (has_bias_) {
        const auto* add = static_cast<const int32_t*>(b.inputs[bias]) + first;
        for (Index i = 0; i < sizes_.m; ++i)
          for (Index j = 0; j < sizes_.n; ++j) sums[i * sizes_.n + j] += add[i];
      }
      if (quantised) requantise(b, sizes_, first, sums, y);
      y += sizes_.m * sizes_.n * static_cast<Index>(quantised ? 1 : sizeof(int32_t));
    }
  }

  // What lies in the padding is the zero point: it adds nothing.
  void unfold(const Buffers& b, Index image, int8_t* columns) const {
    const auto* x =
        static_cast<const uint8_t*>(b.inputs[columns_.values]) + image * channels_ * window_->input_elements();
    const auto padding = static_cast<int8_t>(zero(columns_, b, 0) - moved());
    const auto move = static_cast<uint8_t>(moved());
    parallel_for(sizes_.k, std::max<Index>(1, (1 << 14) / sizes_.n), [&](Index first, Index last) {
      for (Index row = first; row < last; ++row) {
        int8_t* to = columns + row * sizes_.n;
        const uint8_t* from = x + row / window_->taps() * window_->input_elements();
        std::fill_n(to, sizes_.n, padding);
        window_->for_each_run(row % window_->taps(), [&](Index output, Index input, Index count) {
          for (Index i = 0; i < count; ++i)
            to[output + i] = static_cast<int8_t>(from[input + i * window_->stride[2]] ^ move);
        });
      }
    });
  }

  std::optional<Window> window_;
  Sizes sizes_{};
  Index samples_ = 0, groups_ = 1, channels_ = 0;
  bool has_bias_ = false;
  size_t columns_at_ = 0, sums_at_ = 0;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "MatMulInteger", "builtin", IntegerMatMul<false>);
D5_REGISTER_KERNEL(onednn, "QLinearMatMul", "builtin", IntegerMatMul<true>);
D5_REGISTER_KERNEL(onednn, "ConvInteger", "builtin", IntegerConv<false>);
D5_REGISTER_KERNEL(onednn, "QLinearConv", "builtin", IntegerConv<true>);
}  // namespace d5::onednn
