// SPDX-License-Identifier: Apache-2.0
// A copy of the data with updates written to the elements that indices mean (ONNX ScatterElements, ScatterND; for the
// rules see indexing.hpp). With U the updates of one element, in their order:
//   none      y = the last of U, else x      dx = dy where U is empty      dU = dy for the last one
//   add       y = x + sum U                  dx = dy                       dU = dy
//   mul       y = x prod U                   dx = dy prod U                dU_i = dy x prod_{j != i} U_j
//   max, min  y = max(x, U)                  dy / t for each of the t among x and U that tie
#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/core/rng.hpp"
#include "d5/operators/indexing.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

const std::vector<std::string> reductions{"none", "add", "mul", "max", "min"};

class Scatter : public Operator {
 public:
  Scatter(const Attributes& a, std::string_view place) : place_(place), reduction_(a.text("reduction", "none")) {
    if (std::ranges::find(reductions, reduction_) == reductions.end())
      fail_unknown(place, "reduction", reduction_, reductions);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const final {
    check_inputs(in, 3, 3, place_);
    check_index_type(in[1], "indices", place_);
    const TensorSpec both[]{in[0], in[2]};
    check_same_type(both, place_);
    if (reduction_ != "none" && in[0].dtype == DType::boolean)
      throw Error("{} reduction {} is not defined for bool", place_, reduction_);
    if (const Shape wanted = updates_shape(in); in[2].shape != wanted)
      throw Error("{} updates are {}; {} are wanted for data of {} and indices of {}", place_, to_string(in[2].shape),
                  to_string(wanted), to_string(in[0].shape), to_string(in[1].shape));
    return with_known(*this, in, {{in[0].dtype, in[0].shape}});
  }

  void forward(Context& c) const final {
    const Sources targets = this->targets(known_specs(c.inputs));
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>(), updates = c.input(2).values<T>();
      std::ranges::copy(c.input(0).values<T>(), y.begin());
      targets.for_each([&](Index i, Index target) { y[target] = combined(y[target], updates[i]); });
    });
  }

  void backward(Context& c) const final {
    fill_gradients(c, c.output_gradient(0).values<double>(), c.input_gradient(0), c.input_gradient(2));
  }

  // Data are copied; updates and their indices read once.
  Cost cost(SpecSpan in, Pass pass) const final {
    const double updates = reduction_ == "none" ? 0 : static_cast<double>(in[2].elements());
    if (pass == Pass::forward) return {updates, 2 * in[0].bytes() + in[1].bytes() + in[2].bytes()};
    const bool values = reduction_ == "mul" || reduction_ == "max" || reduction_ == "min";
    return {updates, 2 * in[0].bytes() + in[1].bytes() + in[2].bytes() + (values ? in[0].bytes() + in[2].bytes() : 0)};
  }

  // The most updates that one element may receive, unless the indices are known.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const final {
    const double most = in[1].known ? targets(in).most_readers() : static_cast<double>(in[2].elements());
    if (reduction_ == "add") return {.terms = pass == Pass::forward ? most : 0, .units = 0, .exact = true};
    if (reduction_ == "mul") return {.terms = most, .units = 1, .stored_outputs = pass == Pass::backward};
    const bool shares = reduction_ != "none" && pass == Pass::backward;  // ties are divided
    return {.terms = 0, .units = shares ? 1.0 : 0.0, .exact = !shares};
  }

  // On absolute values other elements would win a maximum: the scale of a gradient is |dy| sent to the real ones.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const final {
    if (pass == Pass::forward || (reduction_ != "max" && reduction_ != "min")) return {};
    std::vector<double> absolute;
    for (const double value : c.output_gradient(0).values<double>()) absolute.push_back(std::abs(value));
    Tensor scales[]{Tensor(DType::f64, c.input(0).shape()), Tensor(DType::f64, c.input(2).shape())};
    fill_gradients(c, absolute, scales[0], scales[1]);
    return scales[index == 0 ? 0 : 1];
  }

 protected:
  virtual Shape updates_shape(SpecSpan in) const = 0;
  virtual Sources targets(SpecSpan in) const = 0;  // where each update goes

  std::string_view place_;

 private:
  template <class T>
  T combined(T old, T update) const {
    if (reduction_ == "add") return multiply_add(old, update, T{1});
    if (reduction_ == "mul") return multiply_add(T{}, old, update);
    if (reduction_ == "none" || update != update) return update;
    return (reduction_ == "max" ? update > old : update < old) ? update : old;
  }

  void fill_gradients(const Context& c, std::span<const double> dy, const Tensor& to_data,
                      const Tensor& to_updates) const {
    const auto data = c.input(0).values<double>(), updates = c.input(2).values<double>();
    std::vector<std::pair<Index, Index>> writes;  // target, update: those of one element behind each other, in order
    targets(known_specs(c.inputs)).for_each([&](Index i, Index target) { writes.emplace_back(target, i); });
    std::ranges::stable_sort(writes, {}, &std::pair<Index, Index>::first);
    if (to_data.present()) std::ranges::copy(dy, to_data.values<double>().begin());
    for (size_t first = 0, last = 0; first < writes.size(); first = last) {
      const Index target = writes[first].first;
      while (last < writes.size() && writes[last].first == target) ++last;
      std::vector<double> values{data[target]};
      for (size_t w = first; w < last; ++w) values.push_back(updates[writes[w].second]);
      const auto shares = shares_of(values);
      if (to_data.present()) to_data.values<double>()[target] = dy[target] * shares[0];
      if (!to_updates.present()) continue;
      for (size_t w = first; w < last; ++w)
        to_updates.values<double>()[writes[w].second] = dy[target] * shares[w - first + 1];
    }
  }

  // Of an element and its updates: the derivative of the result by each.
  std::vector<double> shares_of(const std::vector<double>& values) const {
    std::vector<double> shares(values.size(), 1.0);
    if (reduction_ == "none") {
      std::ranges::fill(shares, 0.0);
      shares.back() = 1;
    } else if (reduction_ == "mul") {
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t j = 0; j < values.size(); ++j)
          if (j != i) shares[i] *= values[j];
    } else if (reduction_ != "add") {
      const double best = std::accumulate(values.begin() + 1, values.end(), values[0],
                                          [&](double a, double b) { return combined(a, b); });
      const auto ties = static_cast<double>(std::ranges::count(values, best));
      for (size_t i = 0; i < values.size(); ++i) shares[i] = values[i] == best ? 1 / ties : 0;
    }
    return shares;
  }

  std::string reduction_;
};

std::vector<Parameter> with_reduction(std::vector<Parameter> parameters) {
  parameters.push_back({"reduction", "none, add, mul, max or min: how an update meets what is there", "none"});
  parameters.push_back({"repeated", "several updates may go to one element; else all targets differ", false});
  return parameters;
}

// Random indices that are known beforehand, because without a reduction the result depends on the order of updates to
// one element: a random order of `count` numbers, the first of which are taken; negative ones among them.
std::vector<Index> drawn_indices(Index count, Index taken, bool repeated, const Rng& rng) {
  std::vector<Index> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, rng);
  if (!repeated && taken > count)
    throw Error("[scatter] {} updates along an axis of {} repeat elements; say repeated=true, with a reduction", taken,
                count);
  std::vector<Index> list;
  for (Index i = 0; i < taken; ++i) {
    const Index at = repeated
                         ? static_cast<Index>(rng.below(static_cast<uint64_t>(count + i), static_cast<uint64_t>(count)))
                         : order[i];
    list.push_back(i % 3 == 1 ? at - count : at);
  }
  return list;
}

class ScatterElements final : public Scatter {
 public:
  explicit ScatterElements(const Attributes& a) : Scatter(a, "[scatter_elements]"), axis_(a.integer("axis", 0)) {
    check_attributes(a, {"axis", "reduction"}, place_);
  }

  static std::vector<Parameter> parameters() {
    return with_reduction({{"shape", "shape of the data", "128x1000"},
                           {"indices", "shape of the indices and the updates", "128x10"},
                           {"axis", "axis that is indexed", 1}});
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", "")), shape = parse_shape(v.text("indices", ""));
    const size_t axis = valid_axis(v.integer("axis", 1), x.rank(), "[scatter_elements]");
    check_element_indices(x, shape, axis, "[scatter_elements]");
    Tensor indices(DType::i64, shape);
    const Index inner = shape.elements(axis + 1, shape.rank());
    for (Index line = 0; line < shape.elements() / std::max<Index>(1, shape[axis]); ++line) {
      const auto list = drawn_indices(x[axis], shape[axis], v.flag("repeated", false), Rng(17, line));
      for (Index i = 0; i < shape[axis]; ++i)
        indices.values<int64_t>()[(line / inner * shape[axis] + i) * inner + line % inner] = list[i];
    }
    return {.inputs = {{.spec = {type, x}},
                       {.spec = known_spec(indices), .differentiable = false},
                       {.spec = {type, shape}}},
            .attributes = {{"axis", v.integer("axis", 1)}, {"reduction", v.text("reduction", "none")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}, {"indices", "3"}, {"axis", 0}},
            {{"shape", "3x5"}, {"indices", "2x4"}},
            {{"shape", "4x3"}, {"indices", "3x2"}, {"axis", -2}, {"reduction", "add"}},
            {{"shape", "2x3x4"}, {"indices", "2x9x3"}, {"axis", 1}, {"reduction", "add"}, {"repeated", true}},
            {{"shape", "3x4"}, {"indices", "3x7"}, {"reduction", "mul"}, {"repeated", true}},
            {{"shape", "3x4"}, {"indices", "3x7"}, {"reduction", "max"}, {"repeated", true}},
            {{"shape", "3x4"}, {"indices", "3x4"}, {"reduction", "min"}},
            {{"shape", "32x500"}, {"indices", "32x10"}}};
  }

 protected:
  Shape updates_shape(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    check_element_indices(x, in[1].shape, valid_axis(axis_, x.rank(), place_), place_);
    return in[1].shape;
  }

  Sources targets(SpecSpan in) const override {
    return element_sources(in[0].shape, *in[1].known, valid_axis(axis_, in[0].shape.rank(), place_), place_);
  }

 private:
  Index axis_;
};

class ScatterND final : public Scatter {
 public:
  explicit ScatterND(const Attributes& a) : Scatter(a, "[scatter_nd]") { check_attributes(a, {"reduction"}, place_); }

  static std::vector<Parameter> parameters() {
    return with_reduction({{"shape", "shape of the data", "1000x96"},
                           {"indices", "shape of the indices; the last size is the length of a tuple", "128x1"}});
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", "")), shape = parse_shape(v.text("indices", ""));
    const Shape updates = tuple_shape(x, shape, 0, "[scatter_nd]");
    const auto length = static_cast<size_t>(shape.back());
    const auto list =
        drawn_indices(x.elements(0, length), shape.elements(0, shape.rank() - 1), v.flag("repeated", false), Rng(17));
    Tensor indices(DType::i64, shape);
    for (size_t t = 0; t < list.size(); ++t) {  // the number of a slice as its coordinates
      Index rest = list[t] < 0 ? list[t] + x.elements(0, length) : list[t];
      for (size_t k = length; k-- > 0; rest /= x[k])
        indices.values<int64_t>()[t * length + k] = list[t] < 0 ? rest % x[k] - x[k] : rest % x[k];
    }
    return {.inputs = {{.spec = {type, x}},
                       {.spec = known_spec(indices), .differentiable = false},
                       {.spec = {type, updates}}},
            .attributes = {{"reduction", v.text("reduction", "none")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "8"}, {"indices", "4x1"}},
            {{"shape", "3x4"}, {"indices", "2x3x2"}},
            {{"shape", "4x4x2"}, {"indices", "9x1"}, {"reduction", "add"}, {"repeated", true}},
            {{"shape", "4x3"}, {"indices", "7x2"}, {"reduction", "mul"}, {"repeated", true}},
            {{"shape", "5x3"}, {"indices", "3x1"}, {"reduction", "max"}},
            {{"shape", "5x3"}, {"indices", "8x1"}, {"reduction", "min"}, {"repeated", true}},
            {{"shape", "500x24"}, {"indices", "64x1"}}};
  }

 protected:
  Shape updates_shape(SpecSpan in) const override { return tuple_shape(in[0].shape, in[1].shape, 0, place_); }

  Sources targets(SpecSpan in) const override { return tuple_sources(in[0].shape, *in[1].known, 0, place_); }
};

}  // namespace
D5_REGISTER(operators, "ScatterElements", ScatterElements);
D5_REGISTER(operators, "ScatterND", ScatterND);
}  // namespace d5
