// SPDX-License-Identifier: Apache-2.0
// What RNN, LSTM and GRU share: shapes, walking through time in both directions, products, and gradients by
// back-propagation through time. A cell says in its own file what one step computes:
//   a_t = x_t W^T + h_{t-1} R^T + Wb + Rb, in blocks of `hidden` called gates      (h_t, c_t) = cell(a_t, h_{t-1},
//   c_{t-1})
// It says so once, for numbers that are plain or Bounded: the second walk, with bounds, gives the errors that a kernel
// may have accumulated by step t (recurrent_errors.cpp).
#pragma once

#include <functional>

#include "d5/core/parallel.hpp"
#include "d5/operators/activation.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

// One step of one direction. Arrays are batch x hidden, those of gates batch x gates x hidden.
template <class T>
struct Step {
  size_t direction;
  Index batch, hidden, gates;
  const double* peepholes;  // null: none
  T* a;                     // so far x_t W^T and the biases
  const T *h, *c;           // the state before
  T* extra;                 // the cell's own; kept for the way back
  T *new_h, *new_c;
  // Rows of `to` (so far apart) += operand R^T, of gates first .. first + count - 1
  std::function<void(Index first, Index count, const T* operand, T* to, Index row_stride)> add_product;

  T* gate(Index b, Index g) const { return a + (b * gates + g) * hidden; }
  // f(sample, hidden unit, element of a batch x hidden array), on several threads
  template <class F>
  void for_each(F&& f) const {
    parallel_for(batch * hidden, 4096, [&](Index first, Index last) {
      for (Index e = first; e < last; ++e) f(e / hidden, e % hidden, e);
    });
  }
};

template <class T>
struct BackStep {
  size_t direction;
  Index batch, hidden, gates;
  const double* peepholes;
  const T *a, *h, *c, *extra;  // as the step left them
  const T *new_dh, *new_dc;    // gradients of the state after the step
  T *da, *dq;                  // to fill: gradients of what x W^T and h R^T add to the gates
  T *dh, *dc;                  // to fill: gradients of the state before; zero at first
  T* product;                  // for a product that the cell reads itself; zero at first
  std::function<void(Index first, Index count, T* to)> add_product;  // to += dq R, over those gates

  Index gate(Index b, Index g) const { return (b * gates + g) * hidden; }
  template <class F>
  void for_each(F&& f) const {
    parallel_for(batch * hidden, 4096, [&](Index first, Index last) {
      for (Index e = first; e < last; ++e) f(e / hidden, e % hidden, e);
    });
  }
};

class Recurrent : public Operator {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override;
  void forward(Context&) const override;
  void backward(Context&) const override;
  std::optional<Batch> batch(std::span<const TensorSpec>) const override;
  Cost cost(std::span<const TensorSpec> in, Pass) const override;
  Rounding rounding(std::span<const TensorSpec> in, Pass, size_t index) const override;
  Tensor magnitude(const Context&, Pass, size_t index) const override;
  Tensor stored_magnitude(const Context&, Pass, size_t index, DType) const override;

 protected:
  struct Traits {
    std::string_view place;
    Index gates;
    std::vector<std::string> activations;  // of one direction
    bool has_c = false;                    // a second state: inputs initial_c and P, output Y_c
    Index extra_operand = -1;              // the gate whose product reads `extra` instead of h
    bool extra_bias = false;               // the recurrent bias of the last gate starts `extra` instead of a
    double elementwise = 0;                // operations per hidden unit beside the products
  };
  Recurrent(const Attributes&, Traits);

  const Activation& activation(size_t direction, size_t which) const {
    return activations_[direction * traits_.activations.size() + which];
  }

  // The cases of all three: parameters and what they mean. `more` are names of further flags that become attributes.
  static std::vector<Parameter> common_parameters(std::vector<Parameter> more);
  static OperatorCase common_case(const Attributes& values, DType, Index gates, bool has_c,
                                  const std::vector<std::string>& more);

 private:
  virtual void step(Step<double>&) const = 0;
  virtual void step(Step<Bounded>&) const = 0;
  virtual void step_back(BackStep<double>&) const = 0;
  virtual void step_back(BackStep<Bounded>&) const = 0;

  enum Input : size_t { x, w, r, b, lengths, initial_h, initial_c, p };

  struct Sizes {
    Index steps, batch, input, hidden, directions, gates;
    bool batch_first;
    std::vector<Index> lengths;  // of each sample; empty where only shapes are known
    Index rows() const { return steps * batch; }
    Index width() const { return gates * hidden; }
    Index row(Index t, Index b) const { return batch_first ? b * steps + t : t * batch + b; }
    Index y(Index t, Index d, Index b) const {
      return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
    }
    Index state(Index d, Index b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
  };
  Sizes sizes(const Shape& x, const Shape& r) const;
  Sizes sizes(const Context&) const;
  bool runs_back(size_t direction) const { return reverse_ || direction == 1; }

  struct Layer {  // the weights of one direction; null: absent
    const double *w, *r, *wb, *rb, *p;
  };
  Layer layer(const Context&, const Sizes&, Index direction) const;

  // What is known of every row of X (a step of a sample) in one direction. In Context::saved, in this order.
  enum Kept : size_t { kept_xa, kept_a, kept_h, kept_c, kept_extra, kept_da, kept_dq, kept_dh, kept_product, kept_all };
  template <class T>
  struct Trace {
    std::span<T> xa, a, h, c, extra, da, dq, dh, product;
  };
  Trace<double> trace(const Context&, size_t direction) const;

  template <class T>
  struct State {
    std::vector<T> h, c;
  };

  template <class T, class Fill, class Emit>
  void walk(const Sizes&, Index direction, const Trace<T>&, State<T>&, Step<T>&, Fill&& fill, Emit&& emit) const;
  template <class T, class Gradient, class Fill>
  void walk_back(const Sizes&, Index direction, const Trace<T>&, State<T>&, BackStep<T>&, Gradient&& gradient,
                 Fill&& fill) const;

  void forward(const Context&, const Sizes&, Index direction) const;
  void backward(const Context&, const Sizes&, Index direction) const;
  void weight_gradients(const Context&, const Sizes&, Index direction) const;

  struct ErrorModel;
  struct Norms;
  struct BoundedTrace;
  Tensor errors(const Context&, Pass, size_t index, const ErrorModel&) const;
  void forward_errors(const Context&, const Sizes&, Index direction, const ErrorModel&, const Norms&, BoundedTrace&,
                      size_t output, std::span<double> out) const;
  void backward_errors(const Context&, const Sizes&, Index direction, const ErrorModel&, const Norms&, BoundedTrace&,
                       size_t input, std::span<double> out) const;
  void parameter_errors(const Context&, const Sizes&, Index direction, const ErrorModel&, const BoundedTrace&,
                        size_t input, std::span<double> out) const;
  double terms(const Sizes&, Pass) const;

  Traits traits_;
  std::vector<Activation> activations_;
  std::string direction_;
  bool reverse_, batch_first_;
  Index hidden_;
};

// ---- templates
// fill(row, a, extra) gives what a step starts with; emit(t, b, active, h) takes the state after it.
template <class T, class Fill, class Emit>
void Recurrent::walk(const Sizes& s, Index direction, const Trace<T>& trace, State<T>& state, Step<T>& step,
                     Fill&& fill, Emit&& emit) const {
  const Index hidden = s.hidden, width = s.width();
  std::vector<T> a(s.batch * width), extra(s.batch * hidden), new_h(extra.size()), new_c(extra.size());
  step.direction = static_cast<size_t>(direction);
  step.batch = s.batch;
  step.hidden = hidden;
  step.gates = s.gates;
  step.a = a.data();
  step.h = state.h.data();
  step.c = state.c.data();
  step.extra = extra.data();
  step.new_h = new_h.data();
  step.new_c = new_c.data();
  for (Index k = 0; k < s.steps; ++k) {
    const Index t = runs_back(step.direction) ? s.steps - 1 - k : k;
    for (Index b = 0; b < s.batch; ++b) {
      const Index row = s.row(t, b);
      fill(row, &a[b * width], &extra[b * hidden]);
      std::copy_n(&state.h[b * hidden], hidden, &trace.h[row * hidden]);
      std::copy_n(&state.c[b * hidden], hidden, &trace.c[row * hidden]);
    }
    this->step(step);
    for (Index b = 0; b < s.batch; ++b) {
      const Index row = s.row(t, b);
      const bool active = t < s.lengths[b];
      std::copy_n(&a[b * width], width, &trace.a[row * width]);
      std::copy_n(&extra[b * hidden], hidden, &trace.extra[row * hidden]);
      if (active) {
        std::copy_n(&new_h[b * hidden], hidden, &state.h[b * hidden]);
        std::copy_n(&new_c[b * hidden], hidden, &state.c[b * hidden]);
      }
      emit(t, b, active, &state.h[b * hidden]);
    }
  }
}

// `state` holds the gradients of the last states and ends as those of the first. gradient(t, b, row, dh) adds that of
// Y; fill(row, product) prepares BackStep::product.
template <class T, class Gradient, class Fill>
void Recurrent::walk_back(const Sizes& s, Index direction, const Trace<T>& trace, State<T>& state, BackStep<T>& back,
                          Gradient&& gradient, Fill&& fill) const {
  const Index hidden = s.hidden, width = s.width(), cells = s.batch * hidden;
  std::vector<T> a(s.batch * width), da(a.size()), dq(a.size());
  std::vector<T> h(cells), c(cells), extra(cells), new_dh(cells), new_dc(cells), dh(cells), dc(cells), product(cells);
  back.direction = static_cast<size_t>(direction);
  back.batch = s.batch;
  back.hidden = hidden;
  back.gates = s.gates;
  back.a = a.data();
  back.h = h.data();
  back.c = c.data();
  back.extra = extra.data();
  back.new_dh = new_dh.data();
  back.new_dc = new_dc.data();
  back.da = da.data();
  back.dq = dq.data();
  back.dh = dh.data();
  back.dc = dc.data();
  back.product = product.data();
  for (Index k = s.steps - 1; k >= 0; --k) {
    const Index t = runs_back(back.direction) ? s.steps - 1 - k : k;
    for (Index b = 0; b < s.batch; ++b) {
      const Index row = s.row(t, b), at = b * hidden;
      std::copy_n(&trace.a[row * width], width, &a[b * width]);
      std::copy_n(&trace.h[row * hidden], hidden, &h[at]);
      std::copy_n(&trace.c[row * hidden], hidden, &c[at]);
      std::copy_n(&trace.extra[row * hidden], hidden, &extra[at]);
      std::fill_n(&new_dh[at], hidden, T{});
      std::fill_n(&new_dc[at], hidden, T{});
      std::fill_n(&product[at], hidden, T{});
      if (t >= s.lengths[b]) continue;  // the state passed through: no gradient enters the cell
      std::copy_n(&state.h[at], hidden, &new_dh[at]);
      std::copy_n(&state.c[at], hidden, &new_dc[at]);
      gradient(t, b, row, &new_dh[at]);
      fill(row, &product[at]);
    }
    std::ranges::fill(dh, T{});
    std::ranges::fill(dc, T{});
    step_back(back);
    for (Index b = 0; b < s.batch; ++b) {
      const Index row = s.row(t, b), at = b * hidden;
      std::copy_n(&da[b * width], width, &trace.da[row * width]);
      std::copy_n(&dq[b * width], width, &trace.dq[row * width]);
      std::copy_n(&new_dh[at], hidden, &trace.dh[row * hidden]);
      std::copy_n(&product[at], hidden, &trace.product[row * hidden]);
      if (t >= s.lengths[b]) continue;
      std::copy_n(&dh[at], hidden, &state.h[at]);
      std::copy_n(&dc[at], hidden, &state.c[at]);
    }
  }
}

}  // namespace d5
