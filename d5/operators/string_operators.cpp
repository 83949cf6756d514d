// SPDX-License-Identifier: Apache-2.0
// Operators on strings (ONNX StringConcat, StringSplit, RegexFullMatch). They run where strings do: not in kernels. No
// gradient.
//   StringConcat    z = x y, broadcast
//   StringSplit     the parts of each string between delimiters (by default stretches of white space), at most maxsplit
//                   + 1, filled up with empty ones; and how many there are
//   RegexFullMatch  whether the whole string matches the pattern (RE2's syntax as far as ECMAScript has it)
#include <algorithm>
#include <limits>
#include <regex>

#include "d5/operators/broadcast.hpp"
#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

OperatorInput strings_of(Shape shape) {
  Tensor t(DType::string, std::move(shape));
  const char* words[] = {"some words", "a", "", "one,two", " two  spaces "};
  Index i = 0;
  for (std::string& text : t.values<std::string>()) text = words[i++ % 5];
  return {.spec = known_spec(t), .differentiable = false};
}

class StringConcat final : public Exact {
 public:
  explicit StringConcat(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    for (const TensorSpec& spec : in) check_type(spec, {DType::string}, place);
    return {output_spec(DType::string, broadcast(in[0].shape, in[1].shape, place).sizes(), place)};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.output(0).shape();
    const Broadcast at_x(c.input(0).shape(), shape), at_y(c.input(1).shape(), shape);
    const auto x = c.input(0).values<std::string>(), y = c.input(1).values<std::string>();
    const auto z = c.output(0).values<std::string>();
    for (Index i = 0; i < shape.elements(); ++i) z[i] = x[at_x(i)] + y[at_y(i)];
  }

  static std::vector<Parameter> parameters() { return {{"a", "shape of X", "3"}, {"b", "shape of Y", "2x1"}}; }
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {strings_of(parse_shape(v.text("a", ""))), strings_of(parse_shape(v.text("b", "")))}};
  }

 private:
  static constexpr std::string_view place = "[string_concat]";
};

class StringSplit final : public Exact {
 public:
  explicit StringSplit(const Attributes& a)
      : delimiter_(a.text("delimiter", "")), most_(a.integer("maxsplit", std::numeric_limits<int64_t>::max())) {
    check_attributes(a, {"delimiter", "maxsplit"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::string}, place);
    if (!in[0].known)
      throw UnknownValue("{} the value of X must be known before the run: the shape of the result depends on it",
                         place);
    return {{DType::string, parts_shape(*in[0].known)}, {DType::i64, in[0].shape}};
  }

  void forward(Context& c) const override {
    const Tensor& x = c.input(0);
    const Shape shape = parts_shape(x);
    const auto y = c.output(0, DType::string, shape).values<std::string>();
    const auto counts = c.output(1, DType::i64, x.shape()).values<int64_t>();
    for (Index i = 0; i < x.elements(); ++i) {
      const auto parts = split(x.values<std::string>()[i]);
      std::ranges::copy(parts, y.begin() + i * shape.back());
      counts[i] = static_cast<int64_t>(parts.size());
    }
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "5"}, {"delimiter", "what parts are separated by; empty: white space", ","}};
  }
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {strings_of(parse_shape(v.text("shape", "")))},
            .attributes = {{"delimiter", v.text("delimiter", "")}},
            .outputs = 2};
  }

 private:
  static constexpr std::string_view place = "[string_split]";

  Shape parts_shape(const Tensor& x) const {
    size_t most = 0;
    for (const std::string& text : x.values<std::string>()) most = std::max(most, split(text).size());
    std::vector<Index> sizes = x.shape().sizes();
    sizes.push_back(static_cast<Index>(most));
    return output_spec(DType::string, std::move(sizes), place).shape;
  }

  std::vector<std::string> split(const std::string& text) const {
    std::vector<std::string> parts;
    constexpr const char* white = " \t\n\v\f\r";
    const bool by_space = delimiter_.empty();
    if (by_space && text.find_first_not_of(white) == std::string::npos) return parts;
    size_t at = by_space ? text.find_first_not_of(white) : 0;
    while (static_cast<int64_t>(parts.size()) < most_) {
      const size_t end = by_space ? text.find_first_of(white, at) : text.find(delimiter_, at);
      const size_t next = end == std::string::npos ? end
                          : by_space               ? text.find_first_not_of(white, end)
                                                   : end + delimiter_.size();
      if (end == std::string::npos) break;
      parts.push_back(text.substr(at, end - at));
      if (next == std::string::npos) return parts;  // white space at the end
      at = next;
    }
    std::string rest = text.substr(at);
    if (by_space) rest.erase(rest.find_last_not_of(white) + 1);
    parts.push_back(std::move(rest));
    return parts;
  }

  std::string delimiter_;
  int64_t most_;
};

class RegexFullMatch final : public Exact {
 public:
  explicit RegexFullMatch(const Attributes& a) {
    check_attributes(a, {"pattern"}, place);
    const std::string text = a.text("pattern", "");
    try {
      pattern_ = std::regex(text, std::regex::ECMAScript);
    } catch (const std::regex_error& error) {
      throw UsageError("{} pattern is '{}', which is no regular expression: {}", place, text, error.what());
    }
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::string}, place);
    return {{DType::boolean, in[0].shape}};
  }

  void forward(Context& c) const override {
    const auto x = c.input(0).values<std::string>();
    const auto y = c.output(0).values<bool>();
    constexpr size_t longest = 10000;  // matching recurses for every letter
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].size() > longest)
        throw Error("{} string {} has {} bytes; at most {} are matched", place, i, x[i].size(), longest);
      y[i] = std::regex_match(x[i], pattern_);
    }
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "5"}, {"pattern", "what the whole string matches", "[a-z]*"}};
  }
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {strings_of(parse_shape(v.text("shape", "")))},
            .attributes = {{"pattern", v.text("pattern", "")}}};
  }

 private:
  static constexpr std::string_view place = "[regex_full_match]";
  std::regex pattern_;
};

}  // namespace
D5_REGISTER(operators, "StringConcat", StringConcat);
D5_REGISTER(operators, "StringSplit", StringSplit);
D5_REGISTER(operators, "RegexFullMatch", RegexFullMatch);
}  // namespace d5
