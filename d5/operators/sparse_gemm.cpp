// SPDX-License-Identifier: Apache-2.0
// Product of a sparse matrix, in compressed rows, and a dense one (not in ONNX; DeepBench's sparse products). Row i of
// A (m x k) has values[p] in column columns[p], for p from starts[i] to below starts[i + 1]; no column twice in a row.
//   Y[i,j]     = sum over p of row i of values[p] B[columns[p], j]
//   dvalues[p] = sum over j of dY[i,j] B[columns[p], j]                        i: the row of p
//   dB[c,j]    = sum over p with columns[p] = c of values[p] dY[i,j]
#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[sparse gemm]";
enum Input : size_t { in_values, in_columns, in_starts, in_b };

class SparseGemm final : public Operator {
 public:
  explicit SparseGemm(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 4, 4, place);
    check_type(in[in_values], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    if (in[in_b].dtype != in[in_values].dtype)
      throw Error("{} the values of A are {} and B is {}: one type is wanted", place, name(in[in_values].dtype),
                  name(in[in_b].dtype));
    for (const Input i : {in_columns, in_starts}) check_type(in[i], {DType::i32}, place);
    for (const Input i : {in_values, in_columns, in_starts}) check_rank(in[i], "a part of A", 1, place);
    check_rank(in[in_b], "B", 2, place);
    if (in[in_values].elements() != in[in_columns].elements() || in[in_starts].elements() < 1)
      throw Error("{} {} values, {} columns and {} starts of rows do not make a matrix", place,
                  in[in_values].elements(), in[in_columns].elements(), in[in_starts].elements());
    return {output_spec(in[in_b].dtype, {in[in_starts].elements() - 1, in[in_b].shape[1]}, place)};
  }

  void forward(Context& c) const override {
    const Rows a(c);
    double* y = c.output(0).values<double>().data();
    parallel_for(a.m, 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        double* sums = y + i * a.n;
        std::fill_n(sums, a.n, 0.0);
        for (Index p = a.starts[i]; p < a.starts[i + 1]; ++p)
          for (Index j = 0; j < a.n; ++j) sums[j] += a.values[p] * a.b[a.columns[p] * a.n + j];
      }
    });
  }

  void backward(Context& c) const override {
    const Rows a(c);
    const double* dy = c.output_gradient(0).values<double>().data();
    if (c.input_gradient(in_values).present())
      for (Index i = 0; i < a.m; ++i)
        for (Index p = a.starts[i]; p < a.starts[i + 1]; ++p)
          c.input_gradient(in_values).values<double>()[p] = value_gradient(a, dy, i, p);
    if (!c.input_gradient(in_b).present()) return;
    const auto db = cleared(c.input_gradient(in_b));
    for (Index i = 0; i < a.m; ++i)
      for (Index p = a.starts[i]; p < a.starts[i + 1]; ++p)
        for (Index j = 0; j < a.n; ++j) db[a.columns[p] * a.n + j] += a.values[p] * dy[i * a.n + j];
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Rows a(c);
    for (size_t e = 0; e < at.size(); ++e) {
      const Index i = at[e] / a.n, j = at[e] % a.n;
      values[e] = 0;
      for (Index p = a.starts[i]; p < a.starts[i + 1]; ++p) values[e] += a.values[p] * a.b[a.columns[p] * a.n + j];
    }
    return true;
  }

  bool backward_at(const Context& c, size_t input, std::span<const Index> at, std::span<double> values) const override {
    const Rows a(c);
    const double* dy = c.output_gradient(0).values<double>().data();
    if (input == in_values) {
      for (size_t e = 0; e < at.size(); ++e) {
        const Index i = std::upper_bound(a.starts, a.starts + a.m + 1, at[e]) - a.starts - 1;
        values[e] = value_gradient(a, dy, i, at[e]);
      }
      return true;
    }
    std::vector<std::vector<size_t>> wanted(static_cast<size_t>(a.k));  // by column of A: elements of the sample
    for (size_t e = 0; e < at.size(); ++e) wanted[static_cast<size_t>(at[e] / a.n)].push_back(e);
    std::fill(values.begin(), values.end(), 0.0);
    for (Index i = 0; i < a.m; ++i)
      for (Index p = a.starts[i]; p < a.starts[i + 1]; ++p)
        for (const size_t e : wanted[static_cast<size_t>(a.columns[p])])
          values[e] += a.values[p] * dy[i * a.n + at[e] % a.n];
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const double products = 2.0 * static_cast<double>(in[in_values].elements()) * static_cast<double>(y.shape[1]);
    if (pass == Pass::forward) return {products, input_bytes(in) + y.bytes()};
    return {2 * products, input_bytes(in) + in[in_values].bytes() + in[in_b].bytes() + y.bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const Index m = in[in_starts].elements() - 1;
    Rounding r{.terms = 1.0 * in[in_b].shape[0], .exact = true};  // a row has at most k values, a column at most m
    if (pass == Pass::backward) r.terms = 1.0 * (index == in_values ? in[in_b].shape[1] : m);
    return r;
  }

  static std::vector<Parameter> parameters() {
    return {{"m", "rows of A", 1024},
            {"n", "columns of B", 256},
            {"k", "columns of A", 1024},
            {"sparsity", "share of zeros in A", 0.9}};
  }

  // The same number of values in every row, each in a random column of its own stretch of the row.
  static OperatorCase describe(const Attributes& v, DType type) {
    const Index m = v.integer("m", 0), n = v.integer("n", 0), k = v.integer("k", 0);
    const double sparsity = v.real("sparsity", 0);
    if (!(sparsity >= 0 && sparsity <= 1))
      throw UsageError("{} sparsity is {}; legal: 0 (dense) to 1 (all zeros)", place, sparsity);
    const Shape dense{m, k};  // refuses sizes that are none
    const auto in_row = static_cast<Index>(std::llround((1 - sparsity) * static_cast<double>(k)));
    if (m > INT32_MAX || in_row > INT32_MAX / std::max<Index>(m, 1))
      throw UsageError("{} {} x {} values do not fit the 32-bit starts of rows", place, m, in_row);
    const Tensor columns(DType::i32, {m * in_row}), starts(DType::i32, {m + 1});
    const Rng rng(1, stream_of("columns of a sparse matrix"));
    const auto at = columns.values<int32_t>();
    parallel_for(m, 64, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i)
        for (Index p = 0; p < in_row; ++p) {
          const Index low = p * k / in_row, high = (p + 1) * k / in_row;
          const auto index = static_cast<uint64_t>(i * in_row + p);
          at[index] =
              static_cast<int32_t>(low + static_cast<Index>(rng.below(index, static_cast<uint64_t>(high - low))));
        }
    });
    for (Index i = 0; i <= m; ++i) starts.values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * in_row);
    const auto known = [](const Tensor& t) {
      return OperatorInput{.spec = {t.dtype(), t.shape(), std::make_shared<const Tensor>(t)},
                           .differentiable = false,
                           .parameter = true};
    };
    return {.inputs = {{.spec = {type, {m * in_row}}, .parameter = true},
                       known(columns),
                       known(starts),
                       {.spec = {type, {k, n}}}}};
  }

  static std::vector<Attributes> cases() {
    return {
        {{"m", 1}, {"n", 1}, {"k", 1}, {"sparsity", 0.0}},    {{"m", 3}, {"n", 4}, {"k", 5}, {"sparsity", 0.5}},
        {{"m", 7}, {"n", 1}, {"k", 40}, {"sparsity", 0.8}},   {{"m", 5}, {"n", 3}, {"k", 6}, {"sparsity", 1.0}},
        {{"m", 33}, {"n", 17}, {"k", 60}, {"sparsity", 0.9}}, {{"m", 128}, {"n", 65}, {"k", 256}, {"sparsity", 0.95}}};
  }

 private:
  // A as the loops read it. Error where an index leads outside.
  struct Rows {
    Index m, n, k;
    const double *values, *b;
    const int32_t *columns, *starts;

    explicit Rows(const Context& c)
        : m(c.input(in_starts).elements() - 1),
          n(c.input(in_b).shape()[1]),
          k(c.input(in_b).shape()[0]),
          values(c.input(in_values).values<double>().data()),
          b(c.input(in_b).values<double>().data()),
          columns(c.input(in_columns).values<int32_t>().data()),
          starts(c.input(in_starts).values<int32_t>().data()) {
      const Index count = c.input(in_values).elements();
      if (starts[0] != 0 || starts[m] != count || !std::is_sorted(starts, starts + m + 1))
        throw Error("{} starts of rows run from {} to {}; 0 to {}, never falling, is wanted", place, starts[0],
                    starts[m], count);
      for (Index p = 0; p < count; ++p)
        if (columns[p] < 0 || columns[p] >= k)
          throw Error("{} column {} at place {}; 0 to {} are legal", place, columns[p], p, k - 1);
    }
  };

  static double value_gradient(const Rows& a, const double* dy, Index i, Index p) {
    double sum = 0;
    for (Index j = 0; j < a.n; ++j) sum += dy[i * a.n + j] * a.b[a.columns[p] * a.n + j];
    return sum;
  }
};

}  // namespace
D5_REGISTER(operators, "SparseGemm", SparseGemm);
}  // namespace d5
