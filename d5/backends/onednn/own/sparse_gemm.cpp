// SPDX-License-Identifier: Apache-2.0
// SparseGemm by a loop of our own: f32, forward.
//   Y[i, :] = sum over the values of row i of value * B[column, :]
// Columns of Y go in stretches, so that the rows of B in a stretch stay in the second cache while all rows of A pass.
#include <cstring>

#include "d5/backends/kernel.hpp"
#include "d5/core/parallel.hpp"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define D5_EVERY_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define D5_EVERY_ISA
#endif

namespace d5::onednn::own {
namespace {

struct Sparse {
  const float *values, *b;
  const int32_t *columns, *starts;
  float* y;
  Index n;
};

using Vector = float __attribute__((vector_size(64)));
constexpr Index lanes = 16, stretch = 4 * lanes;

// Rows of B may lie anywhere.
template <class Sum>
inline __attribute__((always_inline)) void add(Sum& sum, float value, const float* from) {
  Sum x;
  std::memcpy(&x, from, sizeof x);
  sum += value * x;
}

// A stretch of columns from `from` on: their sums stay in registers while a row of A passes.
inline __attribute__((always_inline)) void row_of_stretch(const Sparse& s, Index i, Index from) {
  Vector a{}, b{}, c{}, d{};
  for (int32_t p = s.starts[i]; p < s.starts[i + 1]; ++p) {
    const float value = s.values[p];
    const float* const x = s.b + s.columns[p] * s.n + from;
    add(a, value, x);
    add(b, value, x + lanes);
    add(c, value, x + 2 * lanes);
    add(d, value, x + 3 * lanes);
  }
  float* y = s.y + i * s.n + from;
  for (const Vector* sum : {&a, &b, &c, &d}) {
    std::memcpy(y, sum, sizeof *sum);
    y += lanes;
  }
}

template <class Sum>
inline __attribute__((always_inline)) void row_of(const Sparse& s, Index i, Index from) {
  Sum sum{};
  for (int32_t p = s.starts[i]; p < s.starts[i + 1]; ++p) add(sum, s.values[p], s.b + s.columns[p] * s.n + from);
  std::memcpy(s.y + i * s.n + from, &sum, sizeof sum);
}

D5_EVERY_ISA void rows(const Sparse& s, Index first, Index last) {
  Index from = 0;
  for (; from + stretch <= s.n; from += stretch)
    for (Index i = first; i < last; ++i) row_of_stretch(s, i, from);
  for (; from + lanes <= s.n; from += lanes)
    for (Index i = first; i < last; ++i) row_of<Vector>(s, i, from);
  for (; from < s.n; ++from)
    for (Index i = first; i < last; ++i) row_of<float>(s, i, from);
}

// One column: a sum of products with gathered elements.
D5_EVERY_ISA void single_column(const Sparse& s, Index first, Index last) {
  for (Index i = first; i < last; ++i) {
    float sums[16] = {};
    int32_t p = s.starts[i];
    for (; p + 16 <= s.starts[i + 1]; p += 16)
      for (int32_t lane = 0; lane < 16; ++lane) sums[lane] += s.values[p + lane] * s.b[s.columns[p + lane]];
    for (; p < s.starts[i + 1]; ++p) sums[0] += s.values[p] * s.b[s.columns[p]];
    float sum = 0;
    for (const float part : sums) sum += part;
    s.y[i] = sum;
  }
}

class SparseGemm final : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    if (setup.inputs[0].dtype != DType::f32)
      return fmt::format("[onednn] SparseGemm of {} has no kernel here; f32 has", name(setup.inputs[0].dtype));
    if (setup.training()) return "[onednn] SparseGemm has no backward here";
    return {};
  }
  void prepare(KernelSetup& setup) override {
    m_ = setup.outputs[0].shape[0];
    n_ = setup.outputs[0].shape[1];
  }
  void bind(int binding, const Buffers& buffers) override {
    if (bound_.size() <= static_cast<size_t>(binding)) bound_.resize(static_cast<size_t>(binding) + 1);
    bound_[static_cast<size_t>(binding)] = {
        static_cast<const float*>(buffers.inputs[0]),   static_cast<const float*>(buffers.inputs[3]),
        static_cast<const int32_t*>(buffers.inputs[1]), static_cast<const int32_t*>(buffers.inputs[2]),
        static_cast<float*>(buffers.outputs[0]),        n_};
  }
  void forward(int binding) override {
    const Sparse& s = bound_[static_cast<size_t>(binding)];
    parallel_for(m_, 16, [&](Index first, Index last) {
      if (n_ == 1) return single_column(s, first, last);
      rows(s, first, last);
    });
  }
  std::string implementation() const override { return "own: compressed rows"; }

 private:
  Index m_ = 0, n_ = 0;
  std::vector<Sparse> bound_;
};

}  // namespace
}  // namespace d5::onednn::own

namespace d5 {
D5_REGISTER_KERNEL(onednn, "SparseGemm", "builtin", onednn::own::SparseGemm);
}
