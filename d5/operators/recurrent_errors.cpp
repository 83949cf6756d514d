// SPDX-License-Identifier: Apache-2.0
// How far a correct kernel may be from the recurrent oracle. Errors of one step enter the next, so they are carried
// along the same walk: every number becomes Bounded, and a cell's own formulas propagate first-order bounds. Two
// models:
//   accumulated: a product of n terms errs by kappa |w| |x| (norms, by Cauchy and Schwarz above sum |w x|), kappa =
//                (growth(n) + units) u of f32; other operations by 8 u, which covers activations of a few ulp
//   stored:      each intermediate is rounded to the element type once; its errors are uniform in +- u, of deviation
//                u / sqrt(3), and six deviations are 3.5 u. A sum of weight gradients over steps may be kept there too.
// Errors of the elements of a vector are independent of each other, so that in a product with R they add in squares:
// the row i errs by sqrt(sum_j R_ij^2 e_j^2), bounded by both |R_i| max e and max|R_i| |e|. Everywhere else they add.
#include <cmath>

#include "d5/operators/magnitude.hpp"
#include "d5/operators/recurrent.hpp"

namespace d5 {
namespace {

const double* data(const Tensor& t) { return t.present() ? t.values<double>().data() : nullptr; }

double growth(double terms) { return std::min(terms, 6 * std::sqrt(terms)); }

double norm(const double* values, Index n) {
  double sum = 0;
  for (Index i = 0; i < n; ++i) sum += values[i] * values[i];
  return std::sqrt(sum);
}

// Of a vector of bounded numbers: the largest error, the norm of errors, the norm of values.
struct Spread {
  double largest = 0, errors = 0, values = 0;

  Spread(const Bounded* numbers, Index n) {
    for (Index i = 0; i < n; ++i) {
      largest = std::max(largest, numbers[i].error);
      errors += numbers[i].error * numbers[i].error;
      values += numbers[i].value * numbers[i].value;
    }
    errors = std::sqrt(errors);
    values = std::sqrt(values);
  }
};

// Rows or columns of a matrix: norms and largest magnitudes.
struct Lengths {
  std::vector<double> norm, top;

  explicit Lengths(Index n) : norm(static_cast<size_t>(n)), top(norm) {}
  void add(Index i, double value) {
    norm[i] += value * value;
    top[i] = std::max(top[i], std::abs(value));
  }
  void finish() {
    for (double& value : norm) value = std::sqrt(value);
  }
  double error(Index i, const Spread& s) const { return std::min(norm[i] * s.largest, top[i] * s.errors); }
};

}  // namespace

struct Recurrent::ErrorModel {
  bool stored;
  double product;  // kappa; stored: 0
  double unit;     // of one operation
  double scale;    // what the result is divided by
};

struct Recurrent::Norms {
  Lengths w_rows, w_columns, r_rows;
  std::vector<Lengths> r_columns;  // of each gate

  Norms(const Layer& l, const Sizes& s) : w_rows(s.width()), w_columns(s.input), r_rows(s.width()) {
    for (Index g = 0; g < s.gates; ++g) {
      r_columns.emplace_back(s.hidden);
      for (Index i = g * s.hidden; i < (g + 1) * s.hidden; ++i) {
        for (Index k = 0; k < s.input; ++k) {
          w_rows.add(i, l.w[i * s.input + k]);
          w_columns.add(k, l.w[i * s.input + k]);
        }
        for (Index j = 0; j < s.hidden; ++j) {
          r_rows.add(i, l.r[i * s.hidden + j]);
          r_columns.back().add(j, l.r[i * s.hidden + j]);
        }
      }
      r_columns.back().finish();
    }
    w_rows.finish();
    w_columns.finish();
    r_rows.finish();
  }

  // Columns of the gates first .. first + count - 1 on top of each other.
  Lengths columns(Index first, Index count) const {
    Lengths all(static_cast<Index>(r_columns[0].norm.size()));
    for (Index g = first; g < first + count; ++g)
      for (size_t j = 0; j < all.norm.size(); ++j) {
        all.norm[j] = std::hypot(all.norm[j], r_columns[g].norm[j]);
        all.top[j] = std::max(all.top[j], r_columns[g].top[j]);
      }
    return all;
  }
};

struct Recurrent::BoundedTrace {
  explicit BoundedTrace(const Sizes& s, Pass pass) {
    const auto cells = static_cast<size_t>(s.rows() * s.hidden), gates = static_cast<size_t>(s.rows() * s.width());
    for (auto* array : {&h, &c, &extra}) array->resize(cells);
    a.resize(gates);
    if (pass == Pass::forward) return;
    for (auto* array : {&dh, &product}) array->resize(cells);
    for (auto* array : {&da, &dq}) array->resize(gates);
  }
  Trace<Bounded> spans() { return {{}, a, h, c, extra, da, dq, dh, product}; }
  std::vector<Bounded> a, h, c, extra, da, dq, dh, product;
};

Tensor Recurrent::magnitude(const Context& c, Pass pass, size_t index) const {
  constexpr double u = 0x1p-24;
  const double kappa = (growth(terms(sizes(c), pass)) + 4) * u;
  return errors(c, pass, index, {.stored = false, .product = kappa, .unit = 8 * u, .scale = kappa});
}

Tensor Recurrent::stored_magnitude(const Context& c, Pass pass, size_t index, DType type) const {
  const double u = round_off(type);
  return errors(c, pass, index, {.stored = true, .product = 0, .unit = 6 / std::sqrt(3) * u, .scale = u});
}

Tensor Recurrent::errors(const Context& c, Pass pass, size_t index, const ErrorModel& model) const {
  const Sizes s = sizes(c);
  const Tensor result(DType::f64, pass == Pass::forward ? c.output(index).shape() : c.input(index).shape());
  const auto out = cleared(result);
  for (Index d = 0; d < s.directions; ++d) {
    const Norms norms(layer(c, s, d), s);
    BoundedTrace trace(s, pass);
    forward_errors(c, s, d, model, norms, trace, pass == Pass::forward ? index : 3, out);
    if (pass == Pass::backward) backward_errors(c, s, d, model, norms, trace, index, out);
  }
  for (double& value : out) value /= model.scale;
  return result;
}

void Recurrent::forward_errors(const Context& c, const Sizes& s, Index d, const ErrorModel& model, const Norms& norms,
                               BoundedTrace& trace, size_t output, std::span<double> out) const {
  const Layer l = layer(c, s, d);
  const Trace<double> kept = this->trace(c, static_cast<size_t>(d));
  const Index hidden = s.hidden, width = s.width();
  State<Bounded> state{std::vector<Bounded>(static_cast<size_t>(s.batch * hidden), {0, 0, model.unit}), {}};
  state.c = state.h;
  for (Index n = 0; n < s.batch; ++n)
    for (Index j = 0; j < hidden; ++j) {
      if (c.input(initial_h).present()) state.h[n * hidden + j].value = data(c.input(initial_h))[s.state(d, n) + j];
      if (c.input(initial_c).present()) state.c[n * hidden + j].value = data(c.input(initial_c))[s.state(d, n) + j];
    }
  Step<Bounded> step{};
  step.peepholes = l.p;
  step.add_product = [&](Index first, Index count, const Bounded* operand, Bounded* to, Index stride) {
    for (Index n = 0; n < s.batch; ++n) {
      const Spread spread(operand + n * hidden, hidden);
      for (Index i = 0; i < count * hidden; ++i) {
        const Index gate = first * hidden + i;
        Bounded& sum = to[n * stride + i];
        sum.error += norms.r_rows.error(gate, spread) + model.product * norms.r_rows.norm[gate] * spread.values;
        if (model.stored) sum.error += 2 * model.unit * std::abs(sum.value);  // the product, and the sum of both
      }
    }
  };
  // A walk with bounds meets the values of the plain one: sums are complete from the start, products add errors alone.
  walk<Bounded>(
      s, d, trace.spans(), state, step,
      [&](Index row, Bounded* a, Bounded* extra) {
        const double x_norm = norm(data(c.input(x)) + row * s.input, s.input);
        for (Index i = 0; i < width; ++i) {
          const double biases = l.wb ? std::abs(l.wb[i]) + std::abs(l.rb[i]) : 0;
          const double error = model.stored ? 2 * model.unit * std::abs(kept.xa[row * width + i])
                                            : model.product * (biases + norms.w_rows.norm[i] * x_norm);
          a[i] = {kept.a[row * width + i], error, model.unit};
        }
        for (Index j = 0; j < hidden; ++j) {
          const double bias = traits_.extra_bias && l.rb ? std::abs(l.rb[width - hidden + j]) : 0;
          extra[j] = {kept.extra[row * hidden + j], model.product * bias, model.unit};
        }
      },
      [&](Index t, Index n, bool active, const Bounded* h) {
        if (output == 0)
          for (Index j = 0; j < hidden; ++j) out[s.y(t, d, n) + j] = active ? h[j].error : 0;
      });
  for (Index n = 0; n < s.batch; ++n)
    for (Index j = 0; j < hidden && (output == 1 || output == 2); ++j)
      out[s.state(d, n) + j] = (output == 1 ? state.h : state.c)[n * hidden + j].error;
}

void Recurrent::backward_errors(const Context& c, const Sizes& s, Index d, const ErrorModel& model, const Norms& norms,
                                BoundedTrace& trace, size_t input, std::span<double> out) const {
  const Layer l = layer(c, s, d);
  const Trace<double> kept = this->trace(c, static_cast<size_t>(d));
  const Index hidden = s.hidden, width = s.width();
  State<Bounded> state{std::vector<Bounded>(static_cast<size_t>(s.batch * hidden), {0, 0, model.unit}), {}};
  state.c = state.h;
  for (Index n = 0; n < s.batch; ++n)
    for (Index j = 0; j < hidden; ++j) {
      if (c.output_gradient(1).present()) state.h[n * hidden + j].value = data(c.output_gradient(1))[s.state(d, n) + j];
      if (c.output_gradient(2).present()) state.c[n * hidden + j].value = data(c.output_gradient(2))[s.state(d, n) + j];
    }
  BackStep<Bounded> back{};
  back.peepholes = l.p;
  std::vector<Lengths> columns;
  std::vector<std::pair<Index, Index>> gates;  // that `columns` hold
  back.add_product = [&](Index first, Index count, Bounded* to) {
    const auto found = std::ranges::find(gates, std::pair{first, count});
    const auto at = static_cast<size_t>(found - gates.begin());
    if (found == gates.end()) {
      gates.emplace_back(first, count);
      columns.push_back(norms.columns(first, count));
    }
    for (Index n = 0; n < s.batch; ++n) {
      const Spread spread(back.dq + back.gate(n, first), count * hidden);
      for (Index j = 0; j < hidden; ++j) {
        Bounded& sum = to[n * hidden + j];
        sum.error += columns[at].error(j, spread) + model.product * columns[at].norm[j] * spread.values;
        if (model.stored) sum.error += model.unit * std::abs(sum.value);
      }
    }
  };
  walk_back<Bounded>(
      s, d, trace.spans(), state, back,
      [&](Index t, Index n, Index row, Bounded* dh) {
        const double* dy = c.output_gradient(0).present() ? data(c.output_gradient(0)) + s.y(t, d, n) : nullptr;
        for (Index j = 0; j < hidden; ++j) {
          dh[j].value = kept.dh[row * hidden + j];
          dh[j].error += model.unit * (2 * std::abs(dh[j].value) + (dy ? std::abs(dy[j]) : 0));
          dh[j].unit = model.unit;
        }
      },
      [&](Index row, Bounded* product) {
        for (Index j = 0; j < hidden; ++j) product[j] = {kept.product[row * hidden + j], 0, model.unit};
      });
  if (input == initial_h || input == initial_c) {
    const double* gradient = data(c.input_gradient(input));
    for (Index n = 0; n < s.batch; ++n)
      for (Index j = 0; j < hidden; ++j) {
        const Index at = s.state(d, n) + j;
        out[at] =
            (input == initial_h ? state.h : state.c)[n * hidden + j].error + 2 * model.unit * std::abs(gradient[at]);
      }
  } else if (input == x) {
    const double* gradient = data(c.input_gradient(x));
    for (Index row = 0; row < s.rows(); ++row) {
      const Spread spread(&trace.da[row * width], width);
      for (Index k = 0; k < s.input; ++k) {
        double& sum = out[row * s.input + k];
        sum += norms.w_columns.error(k, spread) + model.product * norms.w_columns.norm[k] * spread.values;
        if (model.stored) sum += 2 * model.unit * std::abs(gradient[row * s.input + k]);
      }
    }
  } else {
    parameter_errors(c, s, d, model, trace, input, out);
  }
}

// Sums over rows (steps and samples). Errors of one element at different steps are not independent: they add, so that
// sum e |x| <= |e| |x|, the norms over rows.
void Recurrent::parameter_errors(const Context& c, const Sizes& s, Index d, const ErrorModel& model,
                                 const BoundedTrace& trace, size_t input, std::span<double> out) const {
  const Index hidden = s.hidden, width = s.width(), rows = s.rows();
  const double kept_sum =
      model.stored ? growth(static_cast<double>(s.steps)) * model.scale + model.unit : model.product;
  struct Columns {
    std::vector<double> values, errors;
  };
  const auto columns = [&](Index n, auto&& at) {
    Columns all{std::vector<double>(static_cast<size_t>(n)), std::vector<double>(static_cast<size_t>(n))};
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < n; ++i) {
        const Bounded number = at(row, i);
        all.values[i] += number.value * number.value;
        all.errors[i] += number.error * number.error;
      }
    for (double& value : all.values) value = std::sqrt(value);
    for (double& value : all.errors) value = std::sqrt(value);
    return all;
  };
  const auto outer = [&](const Columns& a, Index first, const Columns& b, double* to, Index n) {
    for (Index i = 0; i < n; ++i)
      for (size_t j = 0; j < b.values.size(); ++j)
        to[i * static_cast<Index>(b.values.size()) + static_cast<Index>(j)] =
            a.errors[first + i] * b.values[j] + a.values[first + i] * (b.errors[j] + kept_sum * b.values[j]);
  };
  double* part = out.data() + d * static_cast<Index>(out.size()) / s.directions;
  const auto gates = [&](const std::vector<Bounded>& from) {
    return columns(width, [&, width](Index row, Index i) { return from[row * width + i]; });
  };
  if (input == w) {
    const double* values = data(c.input(x));
    outer(gates(trace.da), 0,
          columns(s.input,
                  [&](Index row, Index k) {
                    return Bounded{values[row * s.input + k], 0, 0};
                  }),
          part, width);
  } else if (input == r) {
    const Columns a = gates(trace.dq);
    for (Index g = 0; g < s.gates; ++g) {
      const auto& operand = g == traits_.extra_operand ? trace.extra : trace.h;
      outer(a, g * hidden, columns(hidden, [&](Index row, Index j) { return operand[row * hidden + j]; }),
            part + g * hidden * hidden, hidden);
    }
  } else if (input == b) {
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < width; ++i) {
        const Bounded &da = trace.da[row * width + i], &dq = trace.dq[row * width + i];
        part[i] += da.error + kept_sum * std::abs(da.value);
        part[width + i] += dq.error + kept_sum * std::abs(dq.value);
      }
  } else if (input == p) {
    for (Index row = 0; row < rows; ++row)
      for (Index g = 0; g < 3; ++g)
        for (Index j = 0; j < hidden; ++j) {
          const Bounded cell = g == 1 ? trace.extra[row * hidden + j] : trace.c[row * hidden + j];
          const Bounded term = trace.da[row * width + g * hidden + j] * cell;
          part[g * hidden + j] += term.error + kept_sum * std::abs(term.value);
        }
  }
}

}  // namespace d5
