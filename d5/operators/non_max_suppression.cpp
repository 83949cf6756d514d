// SPDX-License-Identifier: Apache-2.0
// Boxes that stand for all that overlap with them (ONNX NonMaxSuppression). For each image and class, from the highest
// score down, a box is kept unless its intersection over union with one that was kept exceeds iou_threshold. No
// gradient.
//   y: (image, class, box) of each box that was kept
// How many there are only the values tell: infer() needs known inputs.
#include <algorithm>
#include <numeric>

#include "d5/core/rng.hpp"
#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[non_max_suppression]";

class NonMaxSuppression final : public Exact {
 public:
  explicit NonMaxSuppression(const Attributes& a) : centred_(a.flag("center_point_box", false)) {
    check_attributes(a, {"center_point_box"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 5, place);
    check_rank(in[0], "boxes", 3, place);
    check_rank(in[1], "scores", 3, place);
    if (in[0].shape[2] != 4 || in[1].shape[0] != in[0].shape[0] || in[1].shape[2] != in[0].shape[1])
      throw Error("{} boxes is {} and scores {}; n x boxes x 4 and n x classes x boxes are wanted", place,
                  to_string(in[0].shape), to_string(in[1].shape));
    Context c;
    for (const TensorSpec& spec : in) {
      if (spec.present && !spec.known)
        throw UnknownValue("{} its inputs must be known before the run: the shape of the result depends on them",
                           place);
      c.inputs.push_back(spec.present ? spec.known->cast(compute_dtype(spec.dtype)) : Tensor());
    }
    return {output_spec(DType::i64, {static_cast<Index>(kept(c).size()) / 3, 3}, place)};
  }

  void forward(Context& c) const override {
    const auto found = kept(c);
    const Tensor& y = c.output(0, DType::i64, {static_cast<Index>(found.size()) / 3, 3});
    std::ranges::copy(found, y.values<int64_t>().begin());
  }

  static std::vector<Parameter> parameters() {
    return {{"images", "images", 1},
            {"classes", "classes", 80},
            {"boxes", "boxes of each image", 1000},
            {"most", "boxes of a class that are kept at most", 100},
            {"iou", "overlap above which a box goes", 0.5},
            {"centred", "boxes are given by centre and size", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index images = v.integer("images", 0), classes = v.integer("classes", 0), boxes = v.integer("boxes", 0);
    const auto random = [&](Shape shape, uint64_t stream) {
      Tensor t(type, std::move(shape));
      fill_uniform(t, Rng(7, stream), 0, 1);
      return OperatorInput{.spec = known_spec(t), .differentiable = false};
    };
    const auto threshold = [&](double value) {
      return OperatorInput{.spec = known_spec(Tensor::scalar(value, DType::f32)), .differentiable = false};
    };
    return {.inputs = {random({images, boxes, 4}, 1), random({images, classes, boxes}, 2),
                       known_scalar(v.integer("most", 0)), threshold(v.real("iou", 0)), threshold(0.1)},
            .attributes = {{"center_point_box", int64_t{v.flag("centred", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"images", 1}, {"classes", 1}, {"boxes", 6}, {"most", 3}},
            {{"images", 2}, {"classes", 3}, {"boxes", 20}, {"most", 5}, {"iou", 0.2}, {"centred", true}}};
  }

 private:
  struct Box {
    double left, right, top, bottom;
    double area() const { return (right - left) * (bottom - top); }
  };

  Box box(const double* b) const {
    if (centred_) return {b[0] - b[2] / 2, b[0] + b[2] / 2, b[1] - b[3] / 2, b[1] + b[3] / 2};
    return {std::min(b[1], b[3]), std::max(b[1], b[3]), std::min(b[0], b[2]), std::max(b[0], b[2])};
  }

  static double overlap(const Box& a, const Box& b) {
    const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
    const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
    if (!(width > 0 && height > 0)) return 0;
    return width * height / (a.area() + b.area() - width * height);
  }

  static double number(const Tensor& t, double otherwise) {
    return t.present() && t.elements() > 0 ? t.cast(DType::f64).values<double>()[0] : otherwise;
  }

  std::vector<Index> kept(const Context& c) const {
    const auto boxes = c.input(0).values<double>(), scores = c.input(1).values<double>();
    const Index images = c.input(1).shape()[0], classes = c.input(1).shape()[1], count = c.input(1).shape()[2];
    const double most = number(c.input(2), 0), limit = number(c.input(3), 0);
    const bool filtered = c.input(4).present();
    const double least = number(c.input(4), 0);
    std::vector<Index> found, order;
    for (Index row = 0; row < images * classes; ++row) {
      const double* score = scores.data() + row * count;
      const double* of_image = boxes.data() + row / classes * count * 4;
      order.clear();
      for (Index i = 0; i < count; ++i)
        if (!filtered || score[i] > least) order.push_back(i);
      std::ranges::stable_sort(order, [&](Index a, Index b) { return score[a] > score[b]; });
      std::vector<Box> stay;
      for (const Index i : order) {
        if (static_cast<double>(stay.size()) >= most) break;
        const Box one = box(of_image + 4 * i);
        if (std::ranges::any_of(stay, [&](const Box& other) { return overlap(one, other) > limit; })) continue;
        stay.push_back(one);
        found.insert(found.end(), {row / classes, row % classes, i});
      }
    }
    return found;
  }

  bool centred_;
};

}  // namespace
D5_REGISTER(operators, "NonMaxSuppression", NonMaxSuppression);
}  // namespace d5
