// SPDX-License-Identifier: Apache-2.0
// Categories as other categories or as vectors (ai.onnx.ml: LabelEncoder, CategoryMapper, OneHotEncoder). No gradient.
//   LabelEncoder    the value of the key that x equals (the last such key; NaN equals NaN), or a default
//   CategoryMapper  strings to integers or back, by two lists
//   OneHotEncoder   1 at the place of the category, along a new last axis; nothing for an unknown one, or an Error
#include <algorithm>
#include <cmath>
#include <map>

#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

// What every element type has in common: its text. Numbers print the same where they are the same.
std::vector<std::string> texts(const Tensor& t, DType type) {
  if (t.dtype() == DType::string) return {t.values<std::string>().begin(), t.values<std::string>().end()};
  Tensor strings(DType::string, t.shape());
  print_numbers(t, type, strings);
  return {strings.values<std::string>().begin(), strings.values<std::string>().end()};
}
Tensor wide(const Tensor& t) { return t.dtype() == compute_dtype(t.dtype()) ? t : t.cast(compute_dtype(t.dtype())); }

Tensor list_tensor(const Attributes& a, const std::string& prefix, std::string_view place) {
  const auto size = [](const auto& list) { return Shape{static_cast<Index>(list.size())}; };
  if (a.has(prefix + "_tensor")) {
    const Tensor t = *a.tensor(prefix + "_tensor");
    return t.reshaped({t.elements()});
  }
  if (a.has(prefix + "_strings")) {
    const auto list = text_list(a, prefix + "_strings", place);
    return Tensor::from<std::string>(size(list), list);
  }
  if (a.has(prefix + "_int64s")) {
    const auto list = a.integers(prefix + "_int64s");
    return Tensor::from<int64_t>(size(list), list);
  }
  if (a.has(prefix + "_floats")) {
    const auto list = a.reals(prefix + "_floats");
    return Tensor::from<double>(size(list), list).cast(DType::f32);
  }
  throw UsageError("{} {}_*: a list of strings, integers or floats, or a tensor, is wanted", place, prefix);
}

class Lookup : public Exact {
 public:
  explicit Lookup(std::string_view place) : place_(place) {}

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], {keys_.dtype()}, place_);
    return {{values_.dtype(), in[0].shape}};
  }

  void forward(Context& c) const override {
    const auto keys = texts(c.input(0), keys_.dtype());
    with_element_type(values_.dtype(), [&]<class T>() {
      const Tensor values = wide(values_), other = wide(otherwise_);
      const auto y = c.output(0).values<T>();
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto found = places_.find(keys[i]);
        y[i] = found == places_.end() ? other.values<T>()[0] : values.values<T>()[found->second];
      }
    });
  }

 protected:
  void set(Tensor keys, Tensor values, Tensor otherwise) {
    if (keys.elements() != values.elements())
      throw UsageError("{} there are {} keys and {} values", place_, keys.elements(), values.elements());
    const auto names = texts(wide(keys), keys.dtype());
    for (size_t i = 0; i < names.size(); ++i) places_[names[i]] = static_cast<Index>(i);
    keys_ = std::move(keys);
    values_ = std::move(values);
    otherwise_ = std::move(otherwise);
  }
  std::string_view place_;

 private:
  Tensor keys_, values_, otherwise_;
  std::map<std::string, Index> places_;
};

class LabelEncoder final : public Lookup {
 public:
  explicit LabelEncoder(const Attributes& a) : Lookup("[label_encoder]") {
    check_attributes(
        a,
        {"default_float", "default_int64", "default_string", "default_tensor", "keys_floats", "keys_int64s",
         "keys_strings", "keys_tensor", "values_floats", "values_int64s", "values_strings", "values_tensor"},
        place_);
    const Tensor values = list_tensor(a, "values", place_);
    Tensor otherwise;
    if (a.has("default_tensor"))
      otherwise = *a.tensor("default_tensor");
    else if (values.dtype() == DType::string)
      otherwise = Tensor::from<std::string>({1}, {a.text("default_string", "_Unused")});
    else
      otherwise = Tensor::scalar(is_float(values.dtype()) ? a.real("default_float", -0.0)
                                                          : static_cast<double>(a.integer("default_int64", -1)),
                                 values.dtype());
    if (otherwise.dtype() != values.dtype())
      throw UsageError("{} the default is of type {}, the values of {}; one type is wanted", place_,
                       name(otherwise.dtype()), name(values.dtype()));
    set(list_tensor(a, "keys", place_), values, otherwise);
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "1024"}}; }
  // Keys 0 to 3 of X's type.
  static OperatorCase describe(const Attributes& v, DType type) {
    return {
        .inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = -1, .high = 4, .differentiable = false}},
        .attributes = {
            {"keys_tensor", std::make_shared<const Tensor>(Tensor::from<int64_t>({4}, {0, 1, 2, 3}).cast(type))},
            {"values_int64s", std::vector<Index>{5, 7, 11, 13}}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "17"}}, {{"shape", "3x4"}}}; }
};

class CategoryMapper final : public Lookup {
 public:
  explicit CategoryMapper(const Attributes& a) : Lookup("[category_mapper]") {
    check_attributes(a, {"cats_int64s", "cats_strings", "default_int64", "default_string"}, place_);
    const auto numbers = a.integers("cats_int64s");
    const auto words = text_list(a, "cats_strings", place_);
    const Tensor integers = Tensor::from<int64_t>({static_cast<Index>(numbers.size())}, numbers);
    const Tensor strings = Tensor::from<std::string>({static_cast<Index>(words.size())}, words);
    if (a.has("default_string"))
      set(integers, strings, Tensor::from<std::string>({}, {a.text("default_string", "")}));
    else
      set(strings, integers, Tensor::from<int64_t>({}, {a.integer("default_int64", -1)}));
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "1024"}}; }
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {{.spec = {DType::i64, parse_shape(v.text("shape", ""))},
                        .low = 0,
                        .high = 3,
                        .differentiable = false}},
            .attributes = {{"cats_int64s", std::vector<Index>{1, 2}},
                           {"cats_strings", std::vector<std::string>{"one", "two"}},
                           {"default_string", "many"}}};
  }
};

class OneHotEncoder final : public Exact {
 public:
  explicit OneHotEncoder(const Attributes& a) : strict_(!a.flag("zeros", true)), texts_(a.has("cats_strings")) {
    check_attributes(a, {"cats_int64s", "cats_strings", "zeros"}, place);
    std::vector<std::string> names = text_list(a, "cats_strings", place);
    for (const int64_t number : a.integers("cats_int64s")) names.push_back(std::to_string(number));
    count_ = static_cast<Index>(names.size());
    for (size_t i = 0; i < names.size(); ++i) places_[names[i]] = static_cast<Index>(i);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (texts_)
      check_type(in[0], {DType::string}, place);
    else
      check_type(in[0], {DType::i64, DType::i32, DType::f32, DType::f64}, place);
    std::vector<Index> sizes = in[0].shape.sizes();
    sizes.push_back(count_);
    return {output_spec(DType::f32, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Tensor& x = c.input(0);
    const auto keys = texts(x.dtype() == DType::string ? x : x.cast(DType::i64), DType::i64);
    const auto y = c.output(0).values<double>();
    std::ranges::fill(y, 0.0);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = places_.find(keys[i]);
      if (found != places_.end())
        y[static_cast<Index>(i) * count_ + found->second] = 1;
      else if (strict_)
        throw Error("{} '{}' is none of the {} categories", place, keys[i], count_);
    }
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "1024"}}; }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {
        .inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = 0, .high = 4, .differentiable = false}},
        .attributes = {{"cats_int64s", std::vector<Index>{0, 2, 3}}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[one_hot_encoder]";
  bool strict_, texts_;
  Index count_ = 0;
  std::map<std::string, Index> places_;
};

}  // namespace
D5_REGISTER(operators, "ai.onnx.ml:LabelEncoder", LabelEncoder);
D5_REGISTER(operators, "ai.onnx.ml:CategoryMapper", CategoryMapper);
D5_REGISTER(operators, "ai.onnx.ml:OneHotEncoder", OneHotEncoder);
}  // namespace d5
