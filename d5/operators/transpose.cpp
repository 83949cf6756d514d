// SPDX-License-Identifier: Apache-2.0
// Permutation of axes (ONNX Transpose). Without `perm` the order is reversed.
//   y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...]
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[transpose]";

class Transpose final : public Selection {
 public:
  explicit Transpose(const Attributes& a) : perm_(a.integers("perm")), given_(a.has("perm")) {
    check_attributes(a, {"perm"}, place);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x128x12x64"},
            {"perm", "the axes of X in the order of Y, as in 0x2x1x3; empty: reversed", ""}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one{.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}}};
    if (const auto perm = integer_list(v, "perm")) one.attributes.set("perm", *perm);
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}},
            {{"shape", "scalar"}},
            {{"shape", "3x4"}},
            {{"shape", "2x3x4"}, {"perm", "0x2x1"}},
            {{"shape", "2x3x4x5"}, {"perm", "2x0x3x1"}},
            {{"shape", "1x7x1x3x2"}, {"perm", "4x1x0x2x3"}},
            {{"shape", "17x31x3"}, {"perm", "2x1x0"}},
            {{"shape", "4x32x6x64"}, {"perm", "0x2x1x3"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    std::vector<Index> shape;
    for (const size_t axis : order(in[0].shape)) shape.push_back(in[0].shape[axis]);
    return Shape(std::move(shape));
  }

  Sources sources(SpecSpan in) const override {
    const auto strides = in[0].shape.strides();
    Sources from;
    for (const size_t axis : order(in[0].shape)) from.add_axis(in[0].shape[axis], strides[axis]);
    return from;
  }

 private:
  std::vector<size_t> order(const Shape& x) const {
    std::vector<Index> all(x.rank());
    std::iota(all.begin(), all.end(), 0);
    std::vector<Index> sorted = perm_;
    std::ranges::sort(sorted);
    if (given_ && sorted != all)
      throw Error("{} perm is {}; X is {} and needs each of its {} axes once", place, fmt::join(perm_, ","),
                  to_string(x), x.rank());
    if (given_) return {perm_.begin(), perm_.end()};
    return {all.rbegin(), all.rend()};
  }

  std::vector<Index> perm_;
  bool given_;
};

}  // namespace
D5_REGISTER(operators, "Transpose", Transpose);
}  // namespace d5
