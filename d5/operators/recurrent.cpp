// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/recurrent.hpp"

#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

const double* data(const Tensor& t) { return t.present() ? t.values<double>().data() : nullptr; }

constexpr const char* names[] = {"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"};

}  // namespace

Recurrent::Recurrent(const Attributes& a, Traits traits)
    : traits_(std::move(traits)),
      direction_(a.text("direction", "forward")),
      reverse_(direction_ == "reverse"),
      batch_first_(a.flag("layout", false)),
      hidden_(a.integer("hidden_size", 0)) {
  if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional")
    throw Error("{} direction is '{}'; legal: forward, reverse, bidirectional", traits_.place, direction_);
  activations_ = read_activations(a, traits_.activations, direction_ == "bidirectional" ? 2 : 1, traits_.place);
}

Recurrent::Sizes Recurrent::sizes(const Shape& x, const Shape& r) const {
  return {.steps = x[batch_first_ ? 1 : 0],
          .batch = x[batch_first_ ? 0 : 1],
          .input = x[2],
          .hidden = r[2],
          .directions = direction_ == "bidirectional" ? 2 : 1,
          .gates = traits_.gates,
          .batch_first = batch_first_,
          .lengths = {}};
}

Recurrent::Sizes Recurrent::sizes(const Context& c) const {
  Sizes s = sizes(c.input(x).shape(), c.input(r).shape());
  s.lengths.assign(static_cast<size_t>(s.batch), s.steps);
  if (!c.input(lengths).present()) return s;
  const auto given = c.input(lengths).values<int32_t>();
  for (Index b = 0; b < s.batch; ++b) {
    if (given[b] < 0 || given[b] > s.steps)
      throw Error("{} sequence_lens[{}] is {}; 0 to {} steps are there", traits_.place, b, given[b], s.steps);
    s.lengths[b] = given[b];
  }
  return s;
}

std::vector<TensorSpec> Recurrent::infer(std::span<const TensorSpec> in) const {
  const std::string_view place = traits_.place;
  check_inputs(in, 3, traits_.has_c ? 8 : 6, place);
  check_type(in[x], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
  for (const size_t i : {x, w, r}) check_rank(in[i], names[i], 3, place);
  const Sizes s = sizes(in[x].shape, in[r].shape);
  if (s.hidden < 1) throw Error("{} R is {}: at least one hidden unit is wanted", place, to_string(in[r].shape));
  if (hidden_ != 0 && hidden_ != s.hidden)
    throw Error("{} hidden_size is {} but R is {}", place, hidden_, to_string(in[r].shape));
  const Index d = s.directions, h = s.hidden, n = s.batch;
  const Shape state = batch_first_ ? Shape{n, d, h} : Shape{d, n, h};
  const Shape wanted[] = {
      in[x].shape, {d, s.width(), s.input}, {d, s.width(), h}, {d, 2 * s.width()}, {n}, state, state, {d, 3 * h}};
  for (size_t i = 1; i < in.size(); ++i) {
    if (!has(in, i)) continue;
    if (in[i].shape != wanted[i])
      throw Error("{} {} is {}; {} is wanted (X {}, hidden {}, direction {})", place, names[i], to_string(in[i].shape),
                  to_string(wanted[i]), to_string(in[x].shape), h, direction_);
    if (const DType type = i == lengths ? DType::i32 : in[x].dtype; in[i].dtype != type)
      throw Error("{} {} is of type {}; {} is wanted", place, names[i], name(in[i].dtype), name(type));
  }
  const std::vector<Index> y =
      batch_first_ ? std::vector<Index>{n, s.steps, d, h} : std::vector<Index>{s.steps, d, n, h};
  std::vector<TensorSpec> out{output_spec(in[x].dtype, y, place), {in[x].dtype, state}};
  if (traits_.has_c) out.push_back({in[x].dtype, state});
  return out;
}

Recurrent::Layer Recurrent::layer(const Context& c, const Sizes& s, Index d) const {
  const double *bias = data(c.input(b)), *peepholes = data(c.input(p));
  return {data(c.input(w)) + d * s.width() * s.input, data(c.input(r)) + d * s.width() * s.hidden,
          bias ? bias + d * 2 * s.width() : nullptr, bias ? bias + (d * 2 + 1) * s.width() : nullptr,
          peepholes ? peepholes + d * 3 * s.hidden : nullptr};
}

Recurrent::Trace<double> Recurrent::trace(const Context& c, size_t d) const {
  const auto kept = [&](Kept which) {
    const size_t i = d * kept_all + which;
    return c.saved.at(i).present() ? c.saved[i].values<double>() : std::span<double>();
  };
  return {kept(kept_xa), kept(kept_a),  kept(kept_h),  kept(kept_c),      kept(kept_extra),
          kept(kept_da), kept(kept_dq), kept(kept_dh), kept(kept_product)};
}

void Recurrent::forward(Context& c) const {
  const Sizes s = sizes(c);
  c.saved.assign(static_cast<size_t>(s.directions) * kept_all, {});
  for (Index d = 0; d < s.directions; ++d) {
    for (const Kept which : {kept_xa, kept_a, kept_h, kept_c, kept_extra})
      c.saved[d * kept_all + which] =
          Tensor(DType::f64, {s.rows(), which == kept_xa || which == kept_a ? s.width() : s.hidden});
    forward(c, s, d);
  }
}

void Recurrent::forward(const Context& c, const Sizes& s, Index d) const {
  const Layer l = layer(c, s, d);
  const Trace<double> kept = trace(c, static_cast<size_t>(d));
  const Index hidden = s.hidden, width = s.width();
  for (Index row = 0; row < s.rows(); ++row)
    for (Index i = 0; i < width; ++i) {
      const bool in_extra = traits_.extra_bias && i >= width - hidden;
      kept.xa[row * width + i] = l.wb ? l.wb[i] + (in_extra ? 0 : l.rb[i]) : 0;
    }
  add_product(matrix(data(c.input(x)), s.input, false), matrix(l.w, s.input, true), s.rows(), width, s.input,
              kept.xa.data());

  std::vector<double> transposed(static_cast<size_t>(hidden * width));  // of R: every step reads it along its rows
  parallel_for(hidden, 16, [&](Index first, Index last) {
    for (Index i = 0; i < width; ++i)
      for (Index j = first; j < last; ++j) transposed[j * width + i] = l.r[i * hidden + j];
  });
  State<double> state{std::vector<double>(static_cast<size_t>(s.batch * hidden)), {}};
  state.c.resize(state.h.size());
  for (Index n = 0; n < s.batch; ++n) {
    if (c.input(initial_h).present())
      std::copy_n(data(c.input(initial_h)) + s.state(d, n), hidden, &state.h[n * hidden]);
    if (c.input(initial_c).present())
      std::copy_n(data(c.input(initial_c)) + s.state(d, n), hidden, &state.c[n * hidden]);
  }

  Step<double> step{};
  step.peepholes = l.p;
  std::vector<double> sums;
  step.add_product = [&](Index first, Index count, const double* operand, double* to, Index stride) {
    const Index columns = count * hidden;
    sums.assign(static_cast<size_t>(s.batch * columns), 0.0);
    add_product(matrix(operand, hidden, false), Matrix<double>{transposed.data() + first * hidden, width, 1}, s.batch,
                columns, hidden, sums.data());
    for (Index n = 0; n < s.batch; ++n)
      for (Index i = 0; i < columns; ++i) to[n * stride + i] += sums[n * columns + i];
  };
  walk<double>(
      s, d, kept, state, step,
      [&](Index row, double* a, double* extra) {
        std::copy_n(&kept.xa[row * width], width, a);
        for (Index j = 0; j < hidden; ++j) extra[j] = traits_.extra_bias && l.rb ? l.rb[(s.gates - 1) * hidden + j] : 0;
      },
      [&](Index t, Index n, bool active, const double* h) {
        if (!c.output(0).present()) return;
        double* y = &c.output(0).values<double>()[s.y(t, d, n)];
        for (Index j = 0; j < hidden; ++j) y[j] = active ? h[j] : 0;
      });
  for (Index n = 0; n < s.batch; ++n) {
    if (c.output(1).present()) std::copy_n(&state.h[n * hidden], hidden, &c.output(1).values<double>()[s.state(d, n)]);
    if (c.output(2).present()) std::copy_n(&state.c[n * hidden], hidden, &c.output(2).values<double>()[s.state(d, n)]);
  }
}

void Recurrent::backward(Context& c) const {
  const Sizes s = sizes(c);
  if (c.input_gradient(x).present()) cleared(c.input_gradient(x));
  for (Index d = 0; d < s.directions; ++d) {
    for (const Kept which : {kept_da, kept_dq, kept_dh, kept_product})
      c.saved[d * kept_all + which] =
          Tensor(DType::f64, {s.rows(), which == kept_da || which == kept_dq ? s.width() : s.hidden});
    backward(c, s, d);
    weight_gradients(c, s, d);
  }
}

void Recurrent::backward(const Context& c, const Sizes& s, Index d) const {
  const Layer l = layer(c, s, d);
  const Trace<double> kept = trace(c, static_cast<size_t>(d));
  const Index hidden = s.hidden, width = s.width();
  State<double> state{std::vector<double>(static_cast<size_t>(s.batch * hidden), 0.0), {}};
  state.c = state.h;
  for (Index n = 0; n < s.batch; ++n) {
    if (c.output_gradient(1).present())
      std::copy_n(data(c.output_gradient(1)) + s.state(d, n), hidden, &state.h[n * hidden]);
    if (c.output_gradient(2).present())
      std::copy_n(data(c.output_gradient(2)) + s.state(d, n), hidden, &state.c[n * hidden]);
  }
  BackStep<double> back{};
  back.peepholes = l.p;
  back.add_product = [&](Index first, Index count, double* to) {
    add_product(Matrix<double>{back.dq + first * hidden, width, 1},
                Matrix<double>{l.r + first * hidden * hidden, hidden, 1}, s.batch, hidden, count * hidden, to);
  };
  walk_back<double>(
      s, d, kept, state, back,
      [&](Index t, Index n, Index, double* dh) {
        if (!c.output_gradient(0).present()) return;
        const double* dy = data(c.output_gradient(0)) + s.y(t, d, n);
        for (Index j = 0; j < hidden; ++j) dh[j] += dy[j];
      },
      [](Index, double*) {});
  for (Index n = 0; n < s.batch; ++n) {
    if (c.input_gradient(initial_h).present())
      std::copy_n(&state.h[n * hidden], hidden, &c.input_gradient(initial_h).values<double>()[s.state(d, n)]);
    if (c.input_gradient(initial_c).present())
      std::copy_n(&state.c[n * hidden], hidden, &c.input_gradient(initial_c).values<double>()[s.state(d, n)]);
  }
}

// All sums over steps and samples at once.
void Recurrent::weight_gradients(const Context& c, const Sizes& s, Index d) const {
  const Layer l = layer(c, s, d);
  const Trace<double> kept = trace(c, static_cast<size_t>(d));
  const Index hidden = s.hidden, width = s.width(), rows = s.rows();
  const Matrix<double> da{kept.da.data(), width, 1};
  const auto part = [&](Input input) {
    const auto all = c.input_gradient(input).values<double>();
    const auto share = all.size() / static_cast<size_t>(s.directions);
    const auto mine = all.subspan(static_cast<size_t>(d) * share, share);
    std::ranges::fill(mine, 0.0);
    return mine.data();
  };
  if (c.input_gradient(x).present())
    add_product(da, matrix(l.w, s.input, false), rows, s.input, width, c.input_gradient(x).values<double>().data());
  if (c.input_gradient(w).present())
    add_product(da.transposed(), matrix(data(c.input(x)), s.input, false), width, s.input, rows, part(w));
  if (c.input_gradient(r).present()) {
    double* dr = part(r);
    for (Index g = 0; g < s.gates; ++g)
      add_product(Matrix<double>{kept.dq.data() + g * hidden, 1, width},
                  matrix<double>(g == traits_.extra_operand ? kept.extra.data() : kept.h.data(), hidden, false), hidden,
                  hidden, rows, dr + g * hidden * hidden);
  }
  if (c.input_gradient(b).present()) {
    double* db = part(b);
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < width; ++i) {
        db[i] += kept.da[row * width + i];
        db[width + i] += kept.dq[row * width + i];
      }
  }
  if (c.input_gradient(p).present()) {  // gates i, o, f; the output gate looks at the new state
    double* dp = part(p);
    for (Index row = 0; row < rows; ++row)
      for (Index g = 0; g < 3; ++g)
        for (Index j = 0; j < hidden; ++j)
          dp[g * hidden + j] += kept.da[row * width + g * hidden + j] *
                                (g == 1 ? kept.extra[row * hidden + j] : kept.c[row * hidden + j]);
  }
}

std::optional<Operator::Batch> Recurrent::batch(std::span<const TensorSpec> in) const {
  const Index state = batch_first_ ? 0 : 1;
  Batch axes{.inputs = {state, -1, -1, -1, 0, state, state, -1}, .outputs = {batch_first_ ? 0 : 2, state, state}};
  axes.inputs.resize(in.size());
  return axes;
}

// Products, then per hidden unit the biases, activations and what the cell multiplies. Backward: products with R and W
// for the gradients of h and x, and as many for those of R and W.
Cost Recurrent::cost(std::span<const TensorSpec> in, Pass pass) const {
  const Sizes s = sizes(in[x].shape, in[r].shape);
  const double cells = 1.0 * s.directions * s.rows() * s.hidden;
  const double products = 2.0 * cells * s.gates * (s.input + s.hidden);
  const double biases = has(in, b) ? 2.0 * s.gates : 0;
  double outputs = 0;
  for (const TensorSpec& spec : infer(in)) outputs += spec.bytes();
  if (pass == Pass::forward)
    return {products + cells * (biases + s.gates + traits_.elementwise), input_bytes(in) + outputs};
  return {2 * products + cells * (biases + 2 * s.gates + 2 * traits_.elementwise), 2 * input_bytes(in) + outputs};
}

double Recurrent::terms(const Sizes& s, Pass pass) const {
  const Index forward = s.input + s.hidden;
  return static_cast<double>(pass == Pass::forward ? forward : std::max({forward, s.directions * s.width(), s.rows()}));
}

// Units: the biases, and the sum of the two products.
Rounding Recurrent::rounding(std::span<const TensorSpec> in, Pass pass, size_t) const {
  return {.terms = terms(sizes(in[x].shape, in[r].shape), pass), .units = 4};
}

std::vector<Parameter> Recurrent::common_parameters(std::vector<Parameter> more) {
  std::vector<Parameter> all{{"hidden", "hidden units", 512},
                             {"batch", "samples", 32},
                             {"timesteps", "steps of a sequence", 25},
                             {"input", "size of x_t; 0: that of the hidden state", 0},
                             {"direction", "forward, reverse or bidirectional", "forward"},
                             {"activation", "activations joined by +, as in Sigmoid+Tanh; empty: ONNX's own", ""},
                             {"clip", "threshold for the inputs of activations; 0: none", 0.0},
                             {"bias", "add the two biases", true},
                             {"lengths", "samples have lengths of their own", false},
                             {"initial_state", "start from a given state instead of zero", false},
                             {"batch_first", "samples are the first axis, not steps (ONNX layout 1)", false},
                             {"states", "also make the outputs of last states", true}};
  for (Parameter& parameter : more) all.push_back(std::move(parameter));
  return all;
}

OperatorCase Recurrent::common_case(const Attributes& v, DType type, Index gates, bool has_c,
                                    const std::vector<std::string>& more) {
  const Index h = v.integer("hidden", 0), n = v.integer("batch", 0), t = v.integer("timesteps", 0);
  const Index i = v.integer("input", 0) == 0 ? h : v.integer("input", 0);
  const std::string direction = v.text("direction", "forward");
  const Index d = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = v.flag("batch_first", false);
  const double range = 1 / std::sqrt(static_cast<double>(std::max<Index>(1, h)));  // as frameworks initialise
  const auto weight = [&](Shape shape) {
    return OperatorInput{.spec = {type, std::move(shape)}, .low = -range, .high = range, .parameter = true};
  };
  const OperatorInput absent{.spec = TensorSpec::absent()};
  const OperatorInput state{.spec = {type, batch_first ? Shape{n, d, h} : Shape{d, n, h}}};

  OperatorCase one;
  one.inputs = {
      {.spec = {type, batch_first ? Shape{n, t, i} : Shape{t, n, i}}},
      weight({d, gates * h, i}),
      weight({d, gates * h, h}),
      v.flag("bias", true) ? weight({d, 2 * gates * h}) : absent,
      v.flag("lengths", false)
          ? OperatorInput{.spec = {DType::i32, {n}}, .low = 1, .high = static_cast<double>(t), .differentiable = false}
          : absent,
      v.flag("initial_state", false) ? state : absent};
  if (has_c) {
    one.inputs.push_back(v.flag("initial_state", false) ? state : absent);
    one.inputs.push_back(v.flag("peepholes", false) ? weight({d, 3 * h}) : absent);
  }
  while (!one.inputs.back().spec.present) one.inputs.pop_back();
  one.attributes = {{"direction", direction}, {"hidden_size", h}, {"layout", int64_t{batch_first}}};
  for (const std::string& name : more) one.attributes.set(name, int64_t{v.flag(name, false)});
  if (v.real("clip", 0) != 0) one.attributes.set("clip", v.real("clip", 0));
  if (const std::string text = v.text("activation", ""); !text.empty()) {
    std::vector<std::string> names;
    for (Index k = 0; k < d; ++k)
      for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find('+', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
      }
    one.attributes.set("activations", std::move(names));
  }
  one.outputs = v.flag("states", true) ? (has_c ? 3 : 2) : 1;
  one.differentiable_outputs = one.outputs;
  return one;
}

}  // namespace d5
