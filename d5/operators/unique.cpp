// SPDX-License-Identifier: Apache-2.0
// Every value once (ONNX Unique), or every slice along an axis: sorted, or in the order of their first occurrence. NaN
// equals nothing and comes last. No gradient.
//   y, where each of y comes first in x, where each of x is in y, how often each of y occurs
// How many there are only the values tell: infer() needs a known input.
#include <algorithm>
#include <numeric>

#include "d5/core/rng.hpp"
#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[unique]";

class Unique final : public Exact {
 public:
  explicit Unique(const Attributes& a)
      : flat_(!a.has("axis")), sorted_(a.flag("sorted", true)), axis_(a.integer("axis", 0)) {
    check_attributes(a, {"axis", "sorted"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (!in[0].known)
      throw UnknownValue("{} the value of X must be known before the run: the shape of the result depends on it",
                         place);
    const Tensor& x = *in[0].known;
    const bool wide = x.dtype() == compute_dtype(x.dtype());
    const Groups groups = find(wide ? x : x.cast(compute_dtype(x.dtype())));
    const auto count = static_cast<Index>(groups.first.size());
    const TensorSpec places{DType::i64, {count}};
    return {{x.dtype(), shape(x.shape(), count)},
            places,
            {DType::i64, {static_cast<Index>(groups.inverse.size())}},
            places};
  }

  void forward(Context& c) const override {
    const Tensor& x = c.input(0);
    const Groups groups = find(x);
    const auto count = static_cast<Index>(groups.first.size());
    const Slices slices = slices_of(x.shape());
    const Tensor& y = c.output(0, x.dtype(), shape(x.shape(), count));
    const auto copy = [&]<class T>() {
      const auto from = x.values<T>(), to = y.values<T>();
      for (Index i = 0; i < count; ++i)
        for (Index k = 0; k < slices.elements(); ++k)
          to[slices.place(k, i, count)] = from[slices.place(k, groups.first[i], slices.count)];
    };
    with_element_type(x.dtype(), copy);
    const auto store = [&](size_t output, const std::vector<Index>& list) {
      std::ranges::copy(list,
                        c.output(output, DType::i64, {static_cast<Index>(list.size())}).values<int64_t>().begin());
    };
    store(1, groups.first);
    store(2, groups.inverse);
    store(3, groups.counts);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X; its values are few", "10000"},
            {"axis", "axis whose slices are compared; 'flat': elements", "flat"},
            {"sorted", "in order of size, else of occurrence", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    Tensor x(type, parse_shape(v.text("shape", "")));
    fill_integers(x, Rng(17), 0, type == DType::boolean ? 1 : 3);
    OperatorCase one{.inputs = {{.spec = known_spec(x), .differentiable = false}},
                     .attributes = {{"sorted", int64_t{v.flag("sorted", true)}}},
                     .outputs = 4};
    if (v.text("axis", "flat") != "flat") one.attributes.set("axis", integer_list(v, "axis").value().at(0));
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "9"}},
            {{"shape", "3x4"}, {"sorted", false}},
            {{"shape", "9x2"}, {"axis", "0"}},
            {{"shape", "2x7x1"}, {"axis", "1"}, {"sorted", false}}};
  }

 private:
  struct Groups {
    std::vector<Index> first, inverse, counts;
  };
  // What is compared: `count` slices of outer x inner elements.
  struct Slices {
    Index outer, count, inner;
    Index elements() const { return outer * inner; }
    Index place(Index element, Index slice, Index of) const {
      return (element / inner * of + slice) * inner + element % inner;
    }
  };

  Slices slices_of(const Shape& x) const {
    if (flat_) return {1, x.elements(), 1};
    const size_t axis = valid_axis(axis_, x.rank(), place);
    return {x.elements(0, axis), x[axis], x.elements(axis + 1, x.rank())};
  }

  Shape shape(const Shape& x, Index count) const {
    if (flat_) return {count};
    std::vector<Index> sizes = x.sizes();
    sizes[valid_axis(axis_, x.rank(), place)] = count;
    return Shape(std::move(sizes));
  }

  Groups find(const Tensor& x) const {
    return with_element_type(x.dtype(), [&]<class T>() { return grouped<T>(x); });
  }

  template <class T>
  Groups grouped(const Tensor& x) const {
    const Slices s = slices_of(x.shape());
    const auto values = x.values<T>();
    const auto is_nan = [](const T& v) { return v != v; };
    // -1, 0, 1 as the slices compare, element by element.
    const auto order = [&](Index a, Index b) {
      for (Index k = 0; k < s.elements(); ++k) {
        const T &left = values[s.place(k, a, s.count)], &right = values[s.place(k, b, s.count)];
        if (is_nan(left) != is_nan(right)) return is_nan(left) ? 1 : -1;
        if (left < right || right < left) return left < right ? -1 : 1;
        if (is_nan(left)) return a < b ? -1 : 1;
      }
      return 0;
    };
    std::vector<Index> by_size(static_cast<size_t>(s.count));
    std::iota(by_size.begin(), by_size.end(), 0);
    std::ranges::stable_sort(by_size, [&](Index a, Index b) { return a != b && order(a, b) < 0; });
    Groups groups;
    groups.inverse.resize(by_size.size());
    for (size_t i = 0; i < by_size.size(); ++i) {
      if (i == 0 || order(by_size[i - 1], by_size[i]) != 0) {
        groups.first.push_back(by_size[i]);  // the sort is stable: the first of its kind
        groups.counts.push_back(0);
      }
      groups.inverse[by_size[i]] = static_cast<Index>(groups.first.size()) - 1;
      ++groups.counts.back();
    }
    return sorted_ ? groups : by_occurrence(groups);
  }

  static Groups by_occurrence(const Groups& sorted) {
    std::vector<Index> order(sorted.first.size()), rank(order.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](Index i) { return sorted.first[i]; });
    Groups groups{.inverse = sorted.inverse};
    for (size_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = static_cast<Index>(i);
      groups.first.push_back(sorted.first[order[i]]);
      groups.counts.push_back(sorted.counts[order[i]]);
    }
    for (Index& index : groups.inverse) index = rank[index];
    return groups;
  }

  bool flat_, sorted_;
  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Unique", Unique);
}  // namespace d5
