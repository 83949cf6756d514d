// SPDX-License-Identifier: Apache-2.0
// Mixup (Zhang et al., 2018): lambda ~ Beta(alpha, alpha), j uniform over the data set,
//   x = lambda x_i + (1 - lambda) x_j,   y = lambda onehot(y_i) + (1 - lambda) onehot(y_j),   both f32.
// Sample j is what the steps before give for it in this epoch, so that sample i is the same whatever batch it is in.
#include <algorithm>
#include <cmath>

#include "d5/core/convert.hpp"
#include "d5/datasets/image_step.hpp"

namespace d5 {
namespace {

// Gamma(shape, 1) by Marsaglia and Tsang (2000); below 1 by Gamma(shape + 1) U^(1/shape). Uses numbers from `next` on.
double gamma(const Rng& rng, uint64_t& next, double shape) {
  if (shape < 1) {
    const double boost = std::pow(1 - rng.uniform(next), 1 / shape);
    next += 2;
    return gamma(rng, next, shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal(next), cube = 1 + c * x, u = 1 - rng.uniform(next + 2);
    next += 4;  // stays even: a normal number is made of an even one and the next
    if (cube <= 0) continue;
    const double v = cube * cube * cube;
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

class Mixup final : public ImageStep {
 public:
  static constexpr const char* about = "a weighted mean of two samples and of their classes";
  static std::vector<DataOption> options() {
    return {{"alpha", "of the Beta distribution of the weight", 0.2},
            {"label", "the class; empty: the field that has classes", std::string()},
            field_option()};
  }

  Mixup(const std::vector<Field>& in, const Attributes& values)
      : ImageStep(in, values, place), alpha_(real_in(values, "alpha", 1e-3, 1e3, place)), from_(dtype()) {
    const std::string wanted = values.text("label", "");
    const auto label = std::ranges::find_if(fields_, [&](const Field& field) {
      return field.classes && field.shape && field.shape->elements() == 1 && (wanted.empty() || field.name == wanted);
    });
    if (label == fields_.end())
      throw UsageError("{} no field{} is a class of known number", place, wanted.empty() ? "" : " '" + wanted + "'");
    changed_.push_back(static_cast<size_t>(label - fields_.begin()));
    classes_ = *label->classes;
    label->dtype = image_field().dtype = DType::f32;
    label->shape = Shape{classes_};
    label->classes.reset();
  }
  bool in_place() const override { return false; }
  void apply(const Sample& in, Sample& out, const Draw& draw) const override {
    const Sample other = draw.other(static_cast<Index>(draw.rng.below(0, static_cast<uint64_t>(draw.samples))));
    uint64_t next = 2;
    const double one = gamma(draw.rng, next, alpha_), two = gamma(draw.rng, next, alpha_);
    // Both can be 0 where alpha is tiny: one sample alone then, either with the same chance.
    const double lambda = one + two > 0 ? one / (one + two) : (draw.rng.uniform(1) < 0.5 ? 0 : 1);
    const Tensor &a = in[image()], &b = other[image()];
    if (a.shape() != b.shape())
      throw UsageError("{} images of {} and {} do not mix; resize or crop them first", place, to_string(a.shape()),
                       to_string(b.shape()));
    const auto weight = static_cast<float>(lambda), rest = static_cast<float>(1 - lambda);
    float* mixed = written(out, image(), DType::f32, a.shape()).values<float>().data();
    with_pixel_type(from_, [&](auto pixel) {
      using T = decltype(pixel);
      const T *first = a.values<T>().data(), *second = b.values<T>().data();
      for (Index i = 0; i < a.elements(); ++i)
        mixed[i] = weight * static_cast<float>(first[i]) + rest * static_cast<float>(second[i]);
    });
    const auto shares = written(out, changed_[1], DType::f32, {classes_}).values<float>();
    std::ranges::fill(shares, 0.0f);
    shares[class_of(in)] += weight;
    shares[class_of(other)] += rest;
  }

 private:
  static constexpr const char* place = "[augmentation mixup]";
  size_t class_of(const Sample& sample) const {
    const Tensor& label = sample[changed_[1]];
    const double value = load_as_double(label.dtype(), label.data(), 0);
    if (!(value >= 0 && value < static_cast<double>(classes_)))
      throw SampleError("{} class {}; legal: 0 to {}", place, value, classes_ - 1);
    return static_cast<size_t>(value);
  }
  double alpha_;
  DType from_;
  Index classes_ = 0;
};

}  // namespace
D5_REGISTER(augmentations, "mixup", Mixup);
}  // namespace d5
