// SPDX-License-Identifier: Apache-2.0
// The first sequence_lens[b] entries of sequence b of a batch in reverse order (ONNX ReverseSequence).
//   y[t, b] = x[len_b - 1 - t, b] for t < len_b, x[t, b] beyond      dx[t, b] likewise from dy
#include "d5/core/rng.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[reverse_sequence]";

class ReverseSequence final : public Selection {
 public:
  explicit ReverseSequence(const Attributes& a) : batch_(a.integer("batch_axis", 1)), time_(a.integer("time_axis", 0)) {
    check_attributes(a, {"batch_axis", "time_axis"}, place);
    if (!(batch_ == 0 && time_ == 1) && !(batch_ == 1 && time_ == 0))
      throw UsageError("{} batch_axis is {} and time_axis {}; one is 0 and the other 1", place, batch_, time_);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "35x20x650"}, {"batch_axis", "axis of the batch: 0 or 1", 1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const Index batch = v.integer("batch_axis", 1);
    if (x.rank() < 2 || batch < 0 || batch > 1)
      throw UsageError("{} shape is {} and batch_axis {}; two axes at least, and 0 or 1, are wanted", place,
                       to_string(x), batch);
    Tensor lengths(DType::i64, {x[batch]});
    fill_integers(lengths, Rng(5), 1, x[1 - batch]);
    return {.inputs = {{.spec = {type, x}}, {.spec = known_spec(lengths), .differentiable = false}},
            .attributes = {{"batch_axis", batch}, {"time_axis", 1 - batch}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "4x4"}}, {{"shape", "3x5x2"}, {"batch_axis", 0}}, {{"shape", "35x4x13"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[1], {DType::i64}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 2) throw Error("{} X is {}; two axes at least are wanted", place, to_string(x));
    if (in[1].shape != Shape{x[batch_]})
      throw Error("{} sequence_lens is {}; {} lengths are wanted, one for each sequence of {}", place,
                  to_string(in[1].shape), x[batch_], to_string(x));
    if (!in[1].known) return x;
    for (const Index length : integers(*in[1].known))
      if (length < 0 || length > x[time_]) throw Error("{} a length is {}; 0 to {} are legal", place, length, x[time_]);
    return x;
  }

  Sources sources(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    const auto lengths = known_integers(in[1], "sequence_lens", place);
    const Index inner = x.elements(2, x.rank());
    Sources from;
    Sources::check_length(x.elements(0, 2));
    auto& steps = from.steps.emplace_back();
    for (Index i = 0; i < x[0]; ++i)
      for (Index j = 0; j < x[1]; ++j) {
        const Index batch = batch_ == 0 ? i : j, time = batch_ == 0 ? j : i;
        const Index source = time < lengths[batch] ? lengths[batch] - 1 - time : time;
        steps.push_back((batch_ == 0 ? batch * x[1] + source : source * x[1] + batch) * inner);
      }
    from.add_axis(inner, 1);
    return from;
  }

 private:
  Index batch_, time_;
};

}  // namespace
D5_REGISTER(operators, "ReverseSequence", ReverseSequence);
}  // namespace d5
