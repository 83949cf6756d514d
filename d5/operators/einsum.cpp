// SPDX-License-Identifier: Apache-2.0
// Einstein's summation (ONNX Einsum, numpy's einsum): each letter names an axis, equal letters the same one; letters
// that the result does not have are summed over. A letter twice in one operand takes its diagonal; ... stands for axes
// without names, which broadcast. Without -> the result has the letters that come once, in alphabetical order, after
// the axes of the ellipsis.
//   y[r] = sum over all s of prod_k x_k[(r, s)]      dx_k[i] = sum over all r, s with (r, s)_k = i of dy prod_{j != k}
//   x_j
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[einsum]";

// The letters of an operand or of the result; '.' is the ellipsis.
struct Equation {
  explicit Equation(const std::string& text) : text(text) {
    std::string letters;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ') continue;
      if (text.compare(i, 3, "...") == 0) {
        if (letters.find('.') != std::string::npos) fail("an operand has two ellipses");
        letters += '.';
        i += 2;
      } else if (text[i] == ',') {
        if (explicit_result) fail("there is a comma behind ->");
        operands.push_back(std::exchange(letters, ""));
      } else if (text.compare(i, 2, "->") == 0) {
        if (explicit_result) fail("there are two ->");
        operands.push_back(std::exchange(letters, ""));
        explicit_result = true;
        ++i;
      } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
        letters += text[i];
      } else {
        fail(fmt::format("'{}' is no letter", text[i]));
      }
    }
    (explicit_result ? result : operands.emplace_back()) = letters;
    std::map<char, int> count;
    for (const std::string& operand : operands)
      for (const char letter : operand) ++count[letter];
    if (!explicit_result) {
      for (const auto& [letter, times] : count)  // '.' comes before all letters
        if (letter == '.' || times == 1) result += letter;
    }
    for (size_t i = 0; i < result.size(); ++i) {
      if (result.find(result[i], i + 1) != std::string::npos) fail(fmt::format("the result has '{}' twice", result[i]));
      if (!count.contains(result[i])) fail(fmt::format("no operand has the '{}' of the result", result[i]));
    }
  }
  [[noreturn]] void fail(const std::string& why) const { throw Error("{} equation '{}': {}", place, text, why); }

  std::string text, result;
  std::vector<std::string> operands;
  bool explicit_result = false;
};

// The loops that an equation means for operands of these shapes: those of the result first, then the sums. The result
// counts as one more operand, the last.
class Loops {
 public:
  Loops(const Equation& e, SpecSpan in) {
    if (in.size() != e.operands.size())
      e.fail(fmt::format("{} operands are named and {} given", e.operands.size(), in.size()));
    size_t most_unnamed = 0;
    std::vector<std::vector<Label>> labels;
    for (size_t k = 0; k < in.size(); ++k) {
      const std::string& letters = e.operands[k];
      const size_t rank = in[k].shape.rank(), named = static_cast<size_t>(std::ranges::count_if(letters, is_letter));
      if (named > rank || (named == letters.size() && named != rank))
        e.fail(fmt::format("operand {} is {}, of rank {}; it has {} letters", k, to_string(in[k].shape), rank, named));
      labels.push_back(labels_of(letters, rank - named));
      most_unnamed = std::max(most_unnamed, named == letters.size() ? 0 : rank - named);
    }
    labels.push_back(labels_of(e.result, most_unnamed));
    for (const Label label : labels.back()) loop_of(label);
    results_ = sizes_.size();
    for (size_t k = 0; k < in.size(); ++k)
      for (size_t axis = 0; axis < labels[k].size(); ++axis) {
        Index& size = sizes_[loop_of(labels[k][axis])];
        const Index own = in[k].shape[axis];
        const bool broadcasts = labels[k][axis] < 0 && (own == 1 || size == 1);
        if (size != unset && size != own && !broadcasts)
          e.fail(fmt::format("axis {} of operand {} ({}) has size {}; the same axis had {} before", axis, k,
                             to_string(in[k].shape), own, size));
        if (size == unset || size == 1) size = own;
      }
    for (size_t k = 0; k <= in.size(); ++k) {
      const Shape shape = k < in.size() ? in[k].shape : Shape(result_sizes());
      const auto steps = shape.strides();
      strides_.emplace_back(sizes_.size(), 0);
      axes_.emplace_back();
      for (size_t axis = 0; axis < labels[k].size(); ++axis) {
        const size_t loop = loop_of(labels[k][axis]);
        const bool fixed = shape[axis] == sizes_[loop];
        axes_[k].push_back({shape[axis], fixed ? loop : none});
        if (fixed) strides_[k][loop] += steps[axis];
      }
    }
  }

  std::vector<Index> result_sizes() const { return {sizes_.begin(), sizes_.begin() + static_cast<long>(results_)}; }
  size_t result() const { return strides_.size() - 1; }
  double points() const { return readers(none); }
  // How many points lie at one element of operand k.
  double readers(size_t k) const {
    double product = 1;
    for (size_t loop = 0; loop < sizes_.size(); ++loop) {
      const auto fixes = [loop](const Axis& axis) { return axis.loop == loop; };
      if (k == none || std::ranges::none_of(axes_[k], fixes)) product *= static_cast<double>(sizes_[loop]);
    }
    return product;
  }

  // f(places, one in each operand and in the result) for all points of the loops.
  template <class F>
  void for_each(F&& f) const {
    walk(std::vector<bool>(sizes_.size(), false), std::vector<Index>(sizes_.size(), 0), f);
  }
  // The same for the points that lie at `element` of operand k.
  template <class F>
  void for_each_at(size_t k, Index element, F&& f) const {
    std::vector<bool> fixed(sizes_.size(), false);
    std::vector<Index> at(sizes_.size(), 0);
    for (size_t axis = axes_[k].size(); axis-- > 0;) {
      const auto [size, loop] = axes_[k][axis];
      const Index coordinate = element % size;
      element /= size;
      if (loop == none) continue;
      if (fixed[loop] && at[loop] != coordinate) return;  // not on the diagonal
      fixed[loop] = true;
      at[loop] = coordinate;
    }
    walk(fixed, at, f);
  }

 private:
  // A letter, or -1, -2, ... for unnamed axes counted from the last one: so they broadcast as numpy's do.
  using Label = int;
  struct Axis {
    Index size;
    size_t loop;  // or none: it is broadcast
  };
  static constexpr Index unset = -1;
  static constexpr size_t none = static_cast<size_t>(-1);

  static bool is_letter(char letter) { return letter != '.'; }

  static std::vector<Label> labels_of(const std::string& letters, size_t unnamed) {
    std::vector<Label> all;
    for (const char letter : letters) {
      if (is_letter(letter))
        all.push_back(letter);
      else
        for (size_t i = unnamed; i > 0; --i) all.push_back(-static_cast<Label>(i));
    }
    return all;
  }

  size_t loop_of(Label label) {
    const auto [found, is_new] = loops_.try_emplace(label, sizes_.size());
    if (is_new) sizes_.push_back(unset);
    return found->second;
  }

  template <class F>
  void walk(const std::vector<bool>& fixed, std::vector<Index> at, F&& f) const {
    std::vector<Index> places(strides_.size(), 0);
    for (size_t k = 0; k < places.size(); ++k)
      for (size_t loop = 0; loop < at.size(); ++loop) places[k] += at[loop] * strides_[k][loop];
    for (size_t loop = 0; loop < at.size(); ++loop)
      if (!fixed[loop] && sizes_[loop] == 0) return;
    for (;;) {
      f(places);
      size_t loop = at.size();
      while (loop-- > 0) {
        if (fixed[loop]) continue;
        const bool again = ++at[loop] == sizes_[loop];
        const Index steps = again ? 1 - sizes_[loop] : 1;
        for (size_t k = 0; k < places.size(); ++k) places[k] += steps * strides_[k][loop];
        if (!again) break;
        at[loop] = 0;
      }
      if (loop == none) return;
    }
  }

  std::map<Label, size_t> loops_;
  std::vector<Index> sizes_;                 // of each loop
  std::vector<std::vector<Index>> strides_;  // [operand][loop]
  std::vector<std::vector<Axis>> axes_;      // [operand][axis]
  size_t results_ = 0;
};

class Einsum final : public Operator {
 public:
  explicit Einsum(const Attributes& a) : equation_(a.text("equation", "")) {
    check_attributes(a, {"equation"}, place);
    if (!a.has("equation")) throw Error("{} attribute equation is missing; it has no default", place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, std::max<size_t>(1, in.size()), std::max<size_t>(1, in.size()), place);
    check_same_type(in, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64},
               place);
    return with_known(*this, in, {output_spec(in[0].dtype, Loops(equation_, in).result_sizes(), place)});
  }

  void forward(Context& c) const override {
    const Loops loops(equation_, known_specs(c.inputs));
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto x = operands<T>(c);
      const auto y = c.output(0).values<T>();
      std::ranges::fill(y, T{});
      loops.for_each(
          [&](const std::vector<Index>& at) { y[at.back()] = multiply_add(y[at.back()], product(x, at), T{1}); });
    });
  }

  void backward(Context& c) const override {
    const Loops loops(equation_, known_specs(c.inputs));
    const auto x = operands<double>(c);
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t k = 0; k < x.size(); ++k) {
      if (!c.input_gradient(k).present()) continue;
      const auto dx = cleared(c.input_gradient(k));
      loops.for_each([&](const std::vector<Index>& at) { dx[at[k]] += dy[at.back()] * product(x, at, k); });
    }
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> elements, std::span<double> values) const override {
    const Loops loops(equation_, known_specs(c.inputs));
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = operands<T>(c);
      for (size_t i = 0; i < elements.size(); ++i) {
        T sum{};
        loops.for_each_at(loops.result(), elements[i],
                          [&](const std::vector<Index>& at) { sum = multiply_add(sum, product(x, at), T{1}); });
        values[i] = static_cast<double>(sum);
      }
    });
    return true;
  }

  bool backward_at(const Context& c, size_t k, std::span<const Index> elements,
                   std::span<double> values) const override {
    const Loops loops(equation_, known_specs(c.inputs));
    const auto x = operands<double>(c);
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t i = 0; i < elements.size(); ++i) {
      values[i] = 0;
      loops.for_each_at(k, elements[i],
                        [&](const std::vector<Index>& at) { values[i] += dy[at.back()] * product(x, at, k); });
    }
    return true;
  }

  // As written, one loop for all operands; with three and more an order of pairwise products may need less.
  Cost cost(SpecSpan in, Pass pass) const override {
    const Loops loops(equation_, in);
    const double operands = static_cast<double>(in.size()), y_bytes = infer(in)[0].bytes();
    if (pass == Pass::forward) return {operands * loops.points(), input_bytes(in) + y_bytes};
    const double read = in.size() > 1 ? input_bytes(in) : 0;  // the gradient of a plain sum needs no operand
    return {operands * operands * loops.points(), read + input_bytes(in) + y_bytes};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const Loops loops(equation_, in);
    return {.terms = loops.readers(pass == Pass::forward ? loops.result() : index),
            .units = static_cast<double>(in.size() - 1),
            .exact = in.size() <= 2};
  }

  static std::vector<Parameter> parameters() {
    return {{"equation", "the equation, with ':' instead of ',' between operands", "bij:bjk->bik"},
            {"shapes", "shapes of the operands, with ':' between them", "8x128x64:8x64x128"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one;
    const std::string shapes = v.text("shapes", "");
    for (size_t first = 0; first <= shapes.size();) {
      const size_t last = std::min(shapes.find(':', first), shapes.size());
      one.inputs.push_back({.spec = {type, parse_shape(shapes.substr(first, last - first))}});
      first = last + 1;
    }
    std::string equation = v.text("equation", "");
    std::ranges::replace(equation, ':', ',');
    one.attributes.set("equation", equation);
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"equation", "ij->ji"}, {"shapes", "3x4"}},
            {{"equation", "ii"}, {"shapes", "5x5"}},
            {{"equation", "iij->j"}, {"shapes", "3x3x4"}},
            {{"equation", "i:i->"}, {"shapes", "7:7"}},
            {{"equation", "i:j"}, {"shapes", "3:5"}},
            {{"equation", "ij:jk"}, {"shapes", "3x4:4x5"}},
            {{"equation", "...ij:...jk->...ik"}, {"shapes", "2x1x3x4:5x4x2"}},
            {{"equation", "...ii->...i"}, {"shapes", "2x3x3"}},
            {{"equation", "bhid:bhjd->bhij"}, {"shapes", "2x3x5x4:2x3x7x4"}},
            {{"equation", "ij:jk:kl->il"}, {"shapes", "2x3:3x4:4x2"}},
            {{"equation", "bij:bjk->bik"}, {"shapes", "4x32x48:4x48x16"}}};
  }

 private:
  static constexpr size_t none = static_cast<size_t>(-1);

  template <class T>
  static std::vector<std::span<T>> operands(const Context& c) {
    std::vector<std::span<T>> all;
    for (const Tensor& input : c.inputs) all.push_back(input.values<T>());
    return all;
  }

  // Of the operands at one point, one of them left out.
  template <class T>
  static T product(const std::vector<std::span<T>>& x, const std::vector<Index>& at, size_t without = none) {
    T product{1};
    for (size_t k = 0; k < x.size(); ++k)
      if (k != without) product = multiply_add(T{}, product, x[k][at[k]]);
    return product;
  }

  Equation equation_;
};

}  // namespace
D5_REGISTER(operators, "Einsum", Einsum);
}  // namespace d5
