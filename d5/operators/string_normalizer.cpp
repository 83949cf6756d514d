// SPDX-License-Identifier: Apache-2.0
// Words without stop words, in lower or upper case (ONNX StringNormalizer). X is a list, or one row. Where nothing is
// left the result is one empty string. Case is that of Unicode as the C library knows it, whatever `locale` says. No
// gradient; strings do not run in kernels.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <set>

#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[string_normalizer]";

// UTF-8 with every letter mapped; bytes that are no UTF-8 stay as they are.
std::string mapped(const std::string& text, wint_t (*map)(wint_t, locale_t)) {
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
    bool valid = length > 0 && i + length <= text.size();
    for (size_t k = 1; valid && k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      valid = byte >> 6 == 2;
      code = code << 6 | (byte & 0x3fu);
    }
    if (!valid) {
      result += text[i++];
      continue;
    }
    i += length;
    const uint32_t to = unicode ? map(code, unicode) : code;
    if (to < 0x80) {
      result += static_cast<char>(to);
    } else if (to < 0x800) {
      result += {static_cast<char>(0xc0 | to >> 6), static_cast<char>(0x80 | (to & 0x3f))};
    } else if (to < 0x10000) {
      result += {static_cast<char>(0xe0 | to >> 12), static_cast<char>(0x80 | (to >> 6 & 0x3f)),
                 static_cast<char>(0x80 | (to & 0x3f))};
    } else {
      result += {static_cast<char>(0xf0 | to >> 18), static_cast<char>(0x80 | (to >> 12 & 0x3f)),
                 static_cast<char>(0x80 | (to >> 6 & 0x3f)), static_cast<char>(0x80 | (to & 0x3f))};
    }
  }
  return result;
}
std::string lower(const std::string& text) { return mapped(text, towlower_l); }
std::string upper(const std::string& text) { return mapped(text, towupper_l); }

class StringNormalizer final : public Exact {
 public:
  explicit StringNormalizer(const Attributes& a)
      : change_(a.text("case_change_action", "NONE")), sensitive_(a.flag("is_case_sensitive", false)) {
    check_attributes(a, {"case_change_action", "is_case_sensitive", "locale", "stopwords"}, place);
    if (change_ != "NONE" && change_ != "LOWER" && change_ != "UPPER")
      throw UsageError("{} case_change_action is '{}'; legal: NONE, LOWER, UPPER", place, change_);
    for (const std::string& word : text_list(a, "stopwords", place)) stop_.insert(sensitive_ ? word : lower(word));
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::string}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x[0] != 1))
      throw Error("{} X is {}; a list, or one row, is wanted", place, to_string(x));
    if (!in[0].known)
      throw UnknownValue("{} the value of X must be known before the run: the shape of the result depends on it",
                         place);
    return {{DType::string, shape(x, normalized(*in[0].known).size())}};
  }

  void forward(Context& c) const override {
    const auto words = normalized(c.input(0));
    const Tensor& y = c.output(0, DType::string, shape(c.input(0).shape(), words.size()));
    std::ranges::copy(words, y.values<std::string>().begin());
  }

  static std::vector<Parameter> parameters() { return {{"case", "LOWER, UPPER or NONE", "LOWER"}}; }
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {{.spec = known_spec(Tensor::from<std::string>({3}, {"Monday", "is", "FINE"})),
                        .differentiable = false}},
            .attributes = {{"case_change_action", v.text("case", "")}, {"stopwords", std::vector<std::string>{"is"}}}};
  }

 private:
  static Shape shape(const Shape& x, size_t count) {
    const auto size = static_cast<Index>(count);
    return x.rank() == 1 ? Shape{size} : Shape{1, size};
  }

  std::vector<std::string> normalized(const Tensor& x) const {
    std::vector<std::string> words;
    for (const std::string& word : x.values<std::string>()) {
      if (stop_.contains(sensitive_ ? word : lower(word))) continue;
      words.push_back(change_ == "LOWER" ? lower(word) : change_ == "UPPER" ? upper(word) : word);
    }
    if (words.empty()) words.emplace_back();
    return words;
  }

  std::string change_;
  bool sensitive_;
  std::set<std::string> stop_;
};

}  // namespace
D5_REGISTER(operators, "StringNormalizer", StringNormalizer);
}  // namespace d5
