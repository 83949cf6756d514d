// SPDX-License-Identifier: Apache-2.0
// Values of X at the points of a grid (Jaderberg et al., 2015; ONNX GridSample), in 1 to 3 spatial axes. A point holds
// one coordinate for each axis, the last axis first, from -1 to 1 across the axis.
//   place p = ((g + 1) n - 1) / 2, or with align_corners (g + 1) (n - 1) / 2
//   nearest  the element at round(p), ties to even      linear  two neighbours in each axis      cubic  four (Keys,
//   1981, a = -0.75) outside: zeros, border (the nearest element) or reflection (at the middle of the outermost
//   element, or at its edge) dx[i] = sum of dy times the weight of i; the gradient of the grid exists where weights
//   have one: not nearest
#include <algorithm>
#include <array>
#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[grid_sample]";
constexpr Index outside = -1;

class GridSample final : public Operator {
 public:
  explicit GridSample(const Attributes& a)
      : corners_(a.flag("align_corners", false)),
        mode_(a.text("mode", "linear")),
        padding_(a.text("padding_mode", "zeros")) {
    check_attributes(a, {"align_corners", "mode", "padding_mode"}, place);
    if (mode_ == "bilinear") mode_ = "linear";  // their names up to opset 19
    if (mode_ == "bicubic") mode_ = "cubic";
    if (mode_ != "linear" && mode_ != "nearest" && mode_ != "cubic")
      throw UsageError("{} mode is '{}'; legal: linear, nearest, cubic", place, mode_);
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection")
      throw UsageError("{} padding_mode is '{}'; legal: zeros, border, reflection", place, padding_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64, DType::boolean},
               place);
    check_type(in[1], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape &x = in[0].shape, &grid = in[1].shape;
    const size_t rank = x.rank();
    if (rank < 3 || rank > 5 || grid.rank() != rank || grid[0] != x[0] || grid.back() != static_cast<Index>(rank) - 2)
      throw Error("{} X is {} and the grid {}; n x c x 1 to 3 axes, and n x as many axes x their number, are wanted",
                  place, to_string(x), to_string(grid));
    if (x.elements(2, rank) == 0 && grid.elements() > 0)
      throw Error("{} X is {}: nothing to sample", place, to_string(x));
    std::vector<Index> sizes{x[0], x[1]};
    sizes.insert(sizes.end(), grid.begin() + 1, grid.end() - 1);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const bool whole = c.input(0).dtype() != DType::f64;
    const Tensor from = whole ? c.input(0).cast(DType::f64) : c.input(0);
    const Tensor to = whole ? Tensor(DType::f64, c.output(0).shape()) : c.output(0);
    const auto x = from.values<double>(), y = to.values<double>();
    for_each_point(c, [&](Index channel_x, Index channel_y, const std::vector<Term>& terms, const auto&) {
      double sum = 0;
      for (const Term& term : terms) sum += term.weight * x[channel_x + term.element];
      y[channel_y] = sum;
    });
    if (whole) c.output(0).copy_from(to.cast(c.output(0).dtype()));
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    if (c.input_gradient(0).present()) {
      const auto dx = cleared(c.input_gradient(0));
      for_each_point(c, [&](Index channel_x, Index channel_y, const std::vector<Term>& terms, const auto&) {
        for (const Term& term : terms) dx[channel_x + term.element] += term.weight * dy[channel_y];
      });
    }
    if (!c.input_gradient(1).present()) return;
    const auto dg = cleared(c.input_gradient(1)), x = c.input(0).values<double>();
    for_each_point(c, [&](Index channel_x, Index channel_y, const std::vector<Term>& terms, const Point& point) {
      for (const Term& term : terms)
        for (size_t axis = 0; axis < point.rank; ++axis)
          dg[point.first + static_cast<Index>(point.rank - 1 - axis)] +=
              term.slope[axis] * x[channel_x + term.element] * dy[channel_y];
    });
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    double taps = 1;
    for (size_t axis = 2; axis < in[0].shape.rank(); ++axis) taps *= mode_ == "cubic" ? 4 : mode_ == "linear" ? 2 : 1;
    return {2 * taps * static_cast<double>(y.elements()), input_bytes(in) + y.bytes()};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(in[0].shape.elements(2, in[0].shape.rank())), .units = 64};
  }
  // Weights depend on the rounded place: the largest element times the size of a coordinate.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    const Shape& x = c.input(0).shape();
    Index longest = 1;
    for (size_t axis = 2; axis < x.rank(); ++axis) longest = std::max(longest, x[axis]);
    const auto largest = [](const Tensor& t) {
      double top = 0;
      const Tensor wide = t.cast(DType::f64);
      for (const double value : wide.values<double>()) top = std::max(top, std::abs(value));
      return top;
    };
    double top = largest(c.input(0)) * static_cast<double>(longest);
    if (pass == Pass::backward)
      top = largest(c.output_gradient(0)) * static_cast<double>(longest) *
            (index == 0 ? 1.0 : largest(c.input(0)) * static_cast<double>(longest * x[1]));
    Tensor scale(DType::f64, pass == Pass::forward ? c.output(0).shape() : c.input(index).shape());
    std::ranges::fill(scale.values<double>(), top);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "4x64x28x28"},
            {"grid", "sizes of the grid", "28x28"},
            {"interpolation", "linear, nearest or cubic (the attribute mode)", "linear"},
            {"padding", "zeros, border or reflection", "zeros"},
            {"corners", "-1 and 1 are the middles of the outermost elements", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    std::vector<Index> grid = parse_shape(v.text("grid", "")).sizes();
    grid.insert(grid.begin(), x.rank() == 0 ? 0 : x[0]);
    grid.push_back(static_cast<Index>(grid.size()) - 1);
    const std::string mode = v.text("interpolation", "");
    return {.inputs = {{.spec = {type, x}},
                       {.spec = {is_float(type) ? type : DType::f32, Shape(grid)},
                        .low = -1.23,
                        .high = 1.19,
                        .differentiable = false}},
            .attributes = {{"align_corners", int64_t{v.flag("corners", false)}},
                           {"mode", mode},
                           {"padding_mode", v.text("padding", "")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x4x4"}, {"grid", "6x6"}},
            {{"shape", "2x3x5x7"}, {"grid", "4x3"}, {"padding", "border"}, {"corners", true}},
            {{"shape", "1x2x3x4"}, {"grid", "5x2"}, {"interpolation", "cubic"}, {"padding", "reflection"}},
            {{"shape", "1x2x3x4x5"}, {"grid", "2x3x4"}},
            {{"shape", "1x1x6"}, {"grid", "9"}, {"interpolation", "nearest"}}};
  }

 private:
  // Along one axis: elements, weights, and how weights change with the grid's coordinate.
  struct Taps {
    std::array<Index, 4> element;
    std::array<double, 4> weight, slope;
    int count = 0;
  };
  struct Term {
    Index element;
    double weight;
    std::array<double, 3> slope;  // of the weight, by axis
  };
  struct Point {
    Index first;  // its first coordinate in the grid
    size_t rank;
  };

  // A place outside comes back as a mirror would show it, and whether it runs the other way there.
  struct Mirrored {
    double at, direction;
  };
  Mirrored mirrored(double at, Index size) const {
    const double low = corners_ ? 0 : -0.5, high = static_cast<double>(size) - (corners_ ? 1 : 0.5), range = high - low;
    if (range == 0) return {0, 0};
    if (at >= low && at <= high) return {at, 1};
    const double distance = at < low ? low - at : at - high, turns = std::floor(distance / range);
    const double rest = distance - turns * range;
    const bool even = std::fmod(turns, 2) == 0, near_low = (at < low) == even;
    return {near_low ? low + rest : high - rest, near_low == (at < low) ? -1.0 : 1.0};
  }

  // The element that stands at a whole place.
  Index element_at(double at, Index size) const {
    if (padding_ == "border") return static_cast<Index>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
    if (padding_ == "reflection") return std::clamp<Index>(static_cast<Index>(mirrored(at, size).at), 0, size - 1);
    return at >= 0 && at < static_cast<double>(size) ? static_cast<Index>(at) : outside;
  }

  Taps taps(double coordinate, Index size) const {
    const double n = static_cast<double>(size), unit = corners_ ? (n - 1) / 2 : n / 2;
    double at = corners_ ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2, direction = 1;
    if (!std::isfinite(at)) return {};
    Taps t{};
    if (mode_ == "nearest") {
      double nearest = std::nearbyint(at);
      if (padding_ == "reflection") nearest = std::nearbyint(mirrored(at, size).at);
      t.count = 1;
      t.element[0] = element_at(nearest, size);
      t.weight[0] = 1;
      return t;
    }
    // With linear weights a place is brought inside first; the four neighbours of cubic ones are, one by one.
    if (mode_ == "linear" && padding_ == "border") {
      const double inside = std::clamp(at, 0.0, n - 1);
      direction = inside == at ? 1 : 0;
      at = inside;
    } else if (mode_ == "linear" && padding_ == "reflection") {
      const Mirrored m = mirrored(at, size);
      const double inside = std::clamp(m.at, 0.0, n - 1);
      direction = inside == m.at ? m.direction : 0;
      at = inside;
    }
    const double low = std::floor(at), x = at - low;
    const auto add = [&](double where, double weight, double slope) {
      t.element[t.count] = element_at(where, size);
      t.weight[t.count] = weight;
      t.slope[t.count++] = slope * unit * direction;
    };
    if (mode_ == "linear") {
      add(low, 1 - x, -1);
      add(low + 1, x, 1);
    } else {
      constexpr double a = -0.75;
      const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      const auto near_slope = [](double d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
      const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      const auto far_slope = [](double d) { return (3 * a * d - 10 * a) * d + 8 * a; };
      add(low - 1, far(x + 1), far_slope(x + 1));
      add(low, near(x), near_slope(x));
      add(low + 1, near(1 - x), -near_slope(1 - x));
      add(low + 2, far(2 - x), -far_slope(2 - x));
    }
    return t;
  }

  // f(first element of a channel of X, element of Y, the terms of its sum, the point)
  template <class F>
  void for_each_point(const Context& c, F&& f) const {
    const Shape &x = c.input(0).shape(), &grid = c.input(1).shape();
    const size_t rank = x.rank() - 2;
    const Index channels = x[1], plane = x.elements(2, x.rank()), points = grid.elements(1, grid.rank() - 1);
    const auto coordinates = c.input(1).values<double>();
    for (Index n = 0; n < x[0]; ++n)
      for (Index p = 0; p < points; ++p) {
        const Point point{(n * points + p) * static_cast<Index>(rank), rank};
        std::vector<Term> terms{{0, 1, {}}};
        for (size_t axis = 0; axis < rank; ++axis) {
          const Taps t = taps(coordinates[point.first + static_cast<Index>(rank - 1 - axis)], x[axis + 2]);
          std::vector<Term> next;
          for (const Term& term : terms)
            for (int i = 0; i < t.count; ++i) {
              if (t.element[i] == outside) continue;
              Term one{term.element * x[axis + 2] + t.element[i], term.weight * t.weight[i], {}};
              for (size_t k = 0; k < axis; ++k) one.slope[k] = term.slope[k] * t.weight[i];
              one.slope[axis] = term.weight * t.slope[i];
              next.push_back(one);
            }
          terms = std::move(next);
        }
        for (Index channel = 0; channel < channels; ++channel)
          f((n * channels + channel) * plane, (n * channels + channel) * points + p, terms, point);
      }
  }

  bool corners_;
  std::string mode_, padding_;
};

}  // namespace
D5_REGISTER(operators, "GridSample", GridSample);
}  // namespace d5
