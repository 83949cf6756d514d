// SPDX-License-Identifier: Apache-2.0
// How far a correct kernel may be from the recurrent oracle. Errors of one step enter the next, so they are carried
// along the same walk: every number becomes Bounded, and a cell's own formulas propagate its error to first order. Two
// models:
//   accumulated: a product of n terms errs by kappa |w| |x| (norms, by Cauchy and Schwarz above sum |w x|), kappa =
//                (growth(n) + units) u of f32; other operations by 8 u, which covers activations of a few ulp
//   stored:      each intermediate is rounded to the element type once; its errors are uniform in +- u, of deviation
//                u / sqrt(3), and six deviations are 3.5 u. Sums of weight gradients over steps may be kept there too.
// Roundings are independent of each other, so they add in squares. In a product with R the row i errs by
// sqrt(sum_j R_ij^2 e_j^2), which is below both |R_i| max e and max|R_i| |e|: no product is needed to bound it.
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
        sum.disturb(norms.r_rows.error(gate, spread));
        sum.disturb(model.product * norms.r_rows.norm[gate] * spread.values);
        if (model.stored) sum.disturb(2 * model.unit * sum.value);  // the product, and the sum of both
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
        sum.disturb(columns[at].error(j, spread));
        sum.disturb(model.product * columns[at].norm[j] * spread.values);
        if (model.stored) sum.disturb(model.unit * sum.value);
      }
    }
  };
  walk_back<Bounded>(
      s, d, trace.spans(), state, back,
      [&](Index t, Index n, Index row, Bounded* dh) {
        const double* dy = c.output_gradient(0).present() ? data(c.output_gradient(0)) + s.y(t, d, n) : nullptr;
        for (Index j = 0; j < hidden; ++j) {
          dh[j].value = kept.dh[row * hidden + j];
          dh[j].disturb(model.unit * (2 * std::abs(dh[j].value) + (dy ? std::abs(dy[j]) : 0)));
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
        Bounded sum{gradient[row * s.input + k], out[row * s.input + k], model.unit};
        sum.disturb(norms.w_columns.error(k, spread));
        sum.disturb(model.product * norms.w_columns.norm[k] * spread.values);
        if (model.stored) sum.disturb(2 * model.unit * sum.value);
        out[row * s.input + k] = sum.error;
      }
    }
  } else {
    parameter_errors(c, s, d, model, trace, input, out);
  }
}

// Sums over rows (steps and samples) of a b: errors e_a |b| and |a| e_b in squares, each sum of squares bounded as
// above. kept: the sum itself, rounded to the element type at each step while it grows to what it is in the end.
void Recurrent::parameter_errors(const Context& c, const Sizes& s, Index d, const ErrorModel& model,
                                 const BoundedTrace& trace, size_t input, std::span<double> out) const {
  const Index hidden = s.hidden, width = s.width(), rows = s.rows();
  const double kept = model.stored ? model.unit * std::sqrt(static_cast<double>(s.steps)) : 0;
  struct Column {
    double values = 0, errors = 0, top_value = 0, top_error = 0;  // norms and largest over rows
    void add(const Bounded& number) {
      values += number.value * number.value;
      errors += number.error * number.error;
      top_value = std::max(top_value, std::abs(number.value));
      top_error = std::max(top_error, number.error);
    }
  };
  const auto columns = [&](Index n, auto&& at) {
    std::vector<Column> all(static_cast<size_t>(n));
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < n; ++i) all[i].add(at(row, i));
    for (Column& column : all) {
      column.values = std::sqrt(column.values);
      column.errors = std::sqrt(column.errors);
    }
    return all;
  };
  const Index share = static_cast<Index>(out.size()) / s.directions;
  double* part = out.data() + d * share;
  const double* gradient = data(c.input_gradient(input)) + d * share;
  const auto error = [&](const Column& a, const Column& b, double sum) {
    Bounded result{sum, 0, model.unit};
    result.disturb(std::min(a.errors * b.top_value, a.top_error * b.values));
    result.disturb(std::min(b.errors * a.top_value, b.top_error * a.values));
    result.disturb(model.product * a.values * b.values);
    result.disturb(kept * (std::abs(sum) + std::min(a.values * b.top_value, a.top_value * b.values)));
    return result.error;
  };
  // Rows first .. last - 1 of a gradient whose rows belong to gates.
  const auto outer = [&](const std::vector<Column>& a, Index first, Index last, const std::vector<Column>& b) {
    const auto n = static_cast<Index>(b.size());
    for (Index i = first; i < last; ++i)
      for (Index j = 0; j < n; ++j) part[i * n + j] = error(a[i], b[j], gradient[i * n + j]);
  };
  const auto gates = [&](const std::vector<Bounded>& from) {
    return columns(width, [&, width](Index row, Index i) { return from[row * width + i]; });
  };
  const auto units = [&](const std::vector<Bounded>& from) {
    return columns(hidden, [&, hidden](Index row, Index j) { return from[row * hidden + j]; });
  };
  if (input == w) {
    const double* values = data(c.input(x));
    outer(gates(trace.da), 0, width, columns(s.input, [&](Index row, Index k) {
            return Bounded{values[row * s.input + k], 0, 0};
          }));
  } else if (input == r) {
    const auto a = gates(trace.dq);
    for (Index g = 0; g < s.gates; ++g)
      outer(a, g * hidden, (g + 1) * hidden, units(g == traits_.extra_operand ? trace.extra : trace.h));
  } else if (input == b) {
    const Column ones{std::sqrt(static_cast<double>(rows)), 0, 1, 0};
    const auto da = gates(trace.da), dq = gates(trace.dq);
    for (Index i = 0; i < width; ++i) {
      part[i] = error(da[i], ones, gradient[i]);
      part[width + i] = error(dq[i], ones, gradient[width + i]);
    }
  } else if (input == p) {
    const auto a = gates(trace.da), before = units(trace.c), after = units(trace.extra);
    for (Index i = 0; i < 3 * hidden; ++i)
      part[i] = error(a[i], i / hidden == 1 ? after[i % hidden] : before[i % hidden], gradient[i]);
  }
}

}  // namespace d5
