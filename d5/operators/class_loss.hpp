// SPDX-License-Identifier: Apache-2.0
// Losses against class labels (ONNX NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss; CrossEntropy): scores are
// N x C x ..., labels N x ..., weights C or absent. From the scores x come logarithms of probabilities z(x); then
//   l = -w[c] z[c] for the label c, 0 where c is ignore_index
//   none: L = l      sum: L = sum l      mean: L = sum l / sum w[c] over the labels that are not ignored
// and dz[c] = -w[c] dL/dl, which the loss turns into dx.
#pragma once

#include "d5/operators/loss.hpp"

namespace d5 {

// F: place; z(x), chain(z, x, dz) -> dx, z_error(x), chain_error(z, x, |dz|) on tensors; gives_z: z is the second
// output; low, high of the scores; terms(classes) of the sums in z; flops for each score.
template <class F>
class ClassLoss final : public Operator {
 public:
  explicit ClassLoss(const Attributes& a) : reduction_(parse_reduction(a, F::place)) {
    check_attributes(a, {"ignore_index", "reduction"}, F::place);
    if (a.has("ignore_index")) ignored_ = a.integer("ignore_index", 0);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, F::place);
    check_type(in[0], float_types, F::place);
    check_type(in[1], {DType::i32, DType::i64}, F::place);
    const Shape& x = in[0].shape;
    if (x.rank() < 2) throw Error("{} scores are {}; N x C x ... is wanted", F::place, to_string(x));
    std::vector<Index> sizes = x.sizes();
    sizes.erase(sizes.begin() + 1);
    const Shape labels(sizes);
    if (in[1].shape != labels)
      throw Error("{} labels are {}; {} is wanted for scores of {}", F::place, to_string(in[1].shape),
                  to_string(labels), to_string(x));
    if (has(in, 2)) {
      if (in[2].shape != Shape{x[1]})
        throw Error("{} weights are {}; {} are wanted, one for each class", F::place, to_string(in[2].shape), x[1]);
      if (in[2].dtype != in[0].dtype)
        throw Error("{} weights are of type {}, scores of {}; one type is wanted", F::place, name(in[2].dtype),
                    name(in[0].dtype));
    }
    std::vector<TensorSpec> out{{in[0].dtype, reduction_ == Reduction::none ? labels : Shape{}}};
    if (F::gives_z) out.push_back({in[0].dtype, x});
    return out;
  }

  void forward(Context& c) const override {
    const Tensor z = F::z(c.input(0));
    reduce(c, c.output(0), [&](Index i, double weight) { return -weight * z.values<double>()[i]; });
    if (F::gives_z && c.output(1).present()) c.output(1).copy_from(z);
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const Tensor z = F::z(c.input(0));
    c.input_gradient(0).copy_from(F::chain(z, c.input(0), z_gradient(c, false)));
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double scores = static_cast<double>(in[0].elements()), labels = static_cast<double>(in[1].elements());
    double bytes = input_bytes(in) + (pass == Pass::forward ? 0 : in[0].bytes());
    for (const TensorSpec& out : infer(in)) bytes += out.bytes();
    return {F::flops[pass == Pass::backward] * scores + 3 * labels, bytes};
  }

  // Sums over labels (weights, too) and over classes; the weight, the division. z may be stored before it is picked.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const double classes = F::terms(in[0].shape[1]), labels = static_cast<double>(in[1].elements());
    if (pass == Pass::forward && index == 1) return {.terms = classes, .units = elementary_units};
    const bool sums = reduction_ == Reduction::mean || (reduction_ == Reduction::sum && pass == Pass::forward);
    return {.terms = classes + (sums ? labels : 0),
            .units = elementary_units + 2 + (pass == Pass::forward ? stored_units(in[0].dtype) : 0),
            .stored_outputs = pass == Pass::backward};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    const Tensor error = F::z_error(c.input(0));
    if (pass == Pass::forward && index == 1) return error;
    if (pass == Pass::backward) return F::chain_error(F::z(c.input(0)), c.input(0), z_gradient(c, true));
    Tensor scale(DType::f64, c.output(0).shape());
    reduce(c, scale, [&](Index i, double weight) { return std::abs(weight) * error.values<double>()[i]; });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"shape", "shape of the scores: N x C x ...", "128x1000"},
                               {"weights", "classes have weights", false},
                               {"reduction", "none, mean or sum", "mean"},
                               {"ignore_index", "label that does not count; -100: there is none such", -100}};
    if (F::gives_z) all.push_back({"log_prob", "the logarithms of probabilities are asked for, too", false});
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    if (x.rank() < 2) throw UsageError("{} shape is '{}'; sizes N x C x ... are wanted", F::place, v.text("shape", ""));
    std::vector<Index> labels = x.sizes();
    labels.erase(labels.begin() + 1);
    OperatorCase one;
    one.inputs = {
        {.spec = {type, x}, .low = F::low, .high = F::high},
        {.spec = {DType::i64, Shape(labels)}, .low = 0, .high = static_cast<double>(x[1] - 1), .differentiable = false},
        {.spec = v.flag("weights", false) ? TensorSpec{type, Shape{x[1]}} : TensorSpec::absent(),
         .low = 0.5,
         .high = 1.5,
         .differentiable = false}};
    one.attributes = {{"ignore_index", v.integer("ignore_index", -100)}, {"reduction", v.text("reduction", "mean")}};
    one.outputs = F::gives_z && v.flag("log_prob", false) ? 2 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    std::vector<Attributes> all{{{"shape", "1x2"}},
                                {{"shape", "5x7"}, {"reduction", "none"}},
                                {{"shape", "3x5"}, {"reduction", "sum"}, {"weights", true}},
                                {{"shape", "9x4"}, {"weights", true}, {"ignore_index", 1}},
                                {{"shape", "2x5x3x4"}, {"weights", true}, {"reduction", "none"}, {"ignore_index", 0}},
                                {{"shape", "3x6x7"}},
                                {{"shape", "32x1000"}}};
    if (F::gives_z) all[3].set("log_prob", true);
    return all;
  }

 private:
  // f(number of the label, place of its score, weight) for the labels that count.
  template <class Each>
  void for_each_label(const Context& c, Each&& f) const {
    const Shape& x = c.input(0).shape();
    const Index classes = x[1], inner = x.elements(2, x.rank());
    const Tensor wide = c.input(1).cast(DType::i64);
    const auto labels = wide.values<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == ignored_) continue;
      if (labels[i] < 0 || labels[i] >= classes)
        throw Error("{} label {} is {}; 0 to {}{} are legal", F::place, i, labels[i], classes - 1,
                    ignored_ ? fmt::format(" and {} (ignored)", *ignored_) : "");
      const auto n = static_cast<Index>(i);
      f(n, (n / inner * classes + labels[i]) * inner + n % inner,
        c.input(2).present() ? c.input(2).values<double>()[labels[i]] : 1.0);
    }
  }

  double weight_sum(const Context& c) const {
    double sum = 0;
    for_each_label(c, [&](Index, Index, double weight) { sum += weight; });
    return sum;
  }

  // L from loss(place of the score, weight).
  template <class Loss>
  void reduce(const Context& c, const Tensor& to, Loss&& loss) const {
    const auto y = cleared(to);
    const bool single = reduction_ != Reduction::none;
    for_each_label(c, [&](Index n, Index at, double weight) { y[single ? 0 : n] += loss(at, weight); });
    if (reduction_ == Reduction::mean) y[0] /= weight_sum(c);
  }

  // dz, from the gradients of L and of z itself where that is an output; or its absolute value.
  Tensor z_gradient(const Context& c, bool absolute) const {
    Tensor gradient(DType::f64, c.input(0).shape());
    const auto dz = cleared(gradient);
    if (c.output_gradient(0).present()) {
      const auto dy = c.output_gradient(0).values<double>();
      const double share = reduction_ == Reduction::mean ? 1 / weight_sum(c) : 1;
      for_each_label(c, [&](Index n, Index at, double weight) {
        dz[at] = -weight * share * dy[reduction_ == Reduction::none ? n : 0];
        if (absolute) dz[at] = std::abs(dz[at]);
      });
    }
    if (F::gives_z && c.output_gradient(1).present()) {
      const auto more = c.output_gradient(1).values<double>();
      for (size_t i = 0; i < dz.size(); ++i) dz[i] += absolute ? std::abs(more[i]) : more[i];
    }
    return gradient;
  }

  Reduction reduction_;
  std::optional<int64_t> ignored_;
};

}  // namespace d5
