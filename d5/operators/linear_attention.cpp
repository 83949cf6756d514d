// SPDX-License-Identifier: Apache-2.0
// Attention as a recurrence (ONNX LinearAttention): a state S of size d_k x d_v per head of keys and values, which
// several heads of queries share. For each position t, in order, with decay g (log), rate b and d = exp(g):
//   linear       S = S + k v^T              gated        S = d S + k v^T
//   delta        S = S + b k (v - S^T k)^T  gated_delta  S = d S + b k (v - (d S)^T k)^T
//   y_t = scale S^T q_t      scale 0 means 1 / sqrt(d_k)
// Heads lie within the last axis. No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[linear_attention]";
const std::vector<std::string> rules{"linear", "gated", "delta", "gated_delta"};

class LinearAttention final : public Operator {
 public:
  explicit LinearAttention(const Attributes& a)
      : heads_(a.integer("q_num_heads", 0)),
        kv_heads_(a.integer("kv_num_heads", 0)),
        scale_(a.real("scale", 0)),
        rule_(a.text("update_rule", "gated_delta")) {
    check_attributes(a, {"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"}, place);
    if (std::ranges::find(rules, rule_) == rules.end()) fail_unknown(place, "update_rule", rule_, rules);
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0)
      throw UsageError("{} q_num_heads is {} and kv_num_heads {}; the first must be a multiple of the second", place,
                       heads_, kv_heads_);
    gated_ = rule_.starts_with("gated");
    delta_ = rule_.ends_with("delta");
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 6, place);
    for (const size_t i : {0, 1, 2}) {
      check_type(in[i], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
      check_rank(in[i], i == 0 ? "query" : i == 1 ? "key" : "value", 3, place);
    }
    check_same_type(in.first(3), place);
    const Sizes s = sizes(in[0].shape, in[2].shape);
    const auto check = [&](size_t i, const char* name, std::initializer_list<Shape> legal) {
      if (!has(in, i) || std::ranges::find(legal, in[i].shape) != legal.end()) return;
      throw Error("{} {} is {}; {} is wanted", place, name, to_string(in[i].shape), to_string(*legal.begin()));
    };
    check(0, "query", {{s.batch, s.length, heads_ * s.k}});
    check(1, "key", {{s.batch, s.length, kv_heads_ * s.k}});
    check(2, "value", {{s.batch, s.length, kv_heads_ * s.v}});
    check(3, "past_state", {{s.batch, kv_heads_, s.k, s.v}});
    check(4, "decay", {{s.batch, s.length, kv_heads_}, {s.batch, s.length, kv_heads_ * s.k}});
    check(5, "beta", {{s.batch, s.length, kv_heads_}, {s.batch, s.length, 1}});
    if (has(in, 4) != gated_ || has(in, 5) != delta_)
      throw Error("{} update_rule {} wants {} decay and {} beta", place, rule_, gated_ ? "a" : "no",
                  delta_ ? "a" : "no");
    return {output_spec(in[0].dtype, {s.batch, s.length, heads_ * s.v}, place),
            output_spec(has(in, 3) ? in[3].dtype : in[0].dtype, {s.batch, kv_heads_, s.k, s.v}, place)};
  }

  void forward(Context& c) const override {
    const Sizes s = sizes(c.input(0).shape(), c.input(2).shape());
    for (Index b = 0; b < s.batch; ++b)
      for (Index head = 0; head < kv_heads_; ++head) run(c, s, b, head);
  }

  // Decay, correction, update and reading, each a pass over the state.
  Cost cost(SpecSpan in, Pass) const override {
    const Sizes s = sizes(in[0].shape, in[2].shape);
    const double state = static_cast<double>(s.k) * static_cast<double>(s.v);
    const double steps = static_cast<double>(s.batch) * static_cast<double>(s.length);
    const double passes = 2.0 + (gated_ ? 1 : 0) + (delta_ ? 2 : 0);
    const auto out = infer(in);
    return {steps * state * (passes * static_cast<double>(kv_heads_) + 2.0 * static_cast<double>(heads_)),
            input_bytes(in) + input_bytes(out)};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    const Sizes s = sizes(in[0].shape, in[2].shape);
    return {.terms = static_cast<double>(s.length * (delta_ ? s.k : 1) + s.k), .units = 8};
  }

  static std::vector<Parameter> parameters() {
    return {{"batch", "samples", 1},
            {"length", "positions", 64},
            {"heads", "heads of the queries", 4},
            {"kv_heads", "heads of keys and values", 4},
            {"size", "size of a head of queries and keys", 64},
            {"v_size", "size of a head of values", 64},
            {"rule", "linear, gated, delta or gated_delta", "gated_delta"},
            {"past", "begin with a state", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index n = v.integer("batch", 0), length = v.integer("length", 0), heads = v.integer("heads", 0);
    const Index kv = v.integer("kv_heads", 0), size = v.integer("size", 0), v_size = v.integer("v_size", 0);
    const std::string rule = v.text("rule", "");
    const auto input = [&](Shape shape, double low, double high) {
      return OperatorInput{.spec = {type, std::move(shape)}, .low = low, .high = high, .differentiable = false};
    };
    const double most = 1 / std::sqrt(static_cast<double>(std::max<Index>(1, size)));  // the norm of a key is below 1
    return {.inputs = {input({n, length, heads * size}, -1, 1), input({n, length, kv * size}, -most, most),
                       input({n, length, kv * v_size}, -1, 1),
                       v.flag("past", false) ? input({n, kv, size, v_size}, -1, 1) : absent_input(),
                       rule.starts_with("gated") ? input({n, length, kv}, -1, 0) : absent_input(),
                       rule.ends_with("delta") ? input({n, length, kv}, 0, 1) : absent_input()},
            .attributes = {{"q_num_heads", heads}, {"kv_num_heads", kv}, {"update_rule", rule}},
            .outputs = 2};
  }

  static std::vector<Attributes> cases() {
    std::vector<Attributes> all;
    for (const std::string& rule : rules)
      all.push_back({{"batch", 2},
                     {"length", 5},
                     {"heads", 4},
                     {"kv_heads", 2},
                     {"size", 3},
                     {"v_size", 2},
                     {"rule", rule},
                     {"past", rule.size() % 2 == 0}});
    return all;
  }

 private:
  struct Sizes {
    Index batch, length, k, v;
  };
  Sizes sizes(const Shape& query, const Shape& value) const {
    return {query[0], query[1], query[2] / heads_, value[2] / kv_heads_};
  }

  void run(const Context& c, const Sizes& s, Index b, Index head) const {
    const auto data = [&](size_t i) { return c.input(i).present() ? c.input(i).values<double>().data() : nullptr; };
    const double *q = data(0), *k = data(1), *v = data(2), *past = data(3), *decay = data(4), *beta = data(5);
    const Index first = (b * kv_heads_ + head) * s.k * s.v, group = heads_ / kv_heads_;
    std::vector<double> state(static_cast<size_t>(s.k * s.v), 0.0), fresh(static_cast<size_t>(s.v));
    if (past) std::copy_n(past + first, state.size(), state.begin());
    const bool each_key = decay && c.input(4).shape()[2] == kv_heads_ * s.k && s.k != 1;
    const double scale = scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<double>(s.k));
    for (Index t = 0; t < s.length; ++t) {
      const Index at = (b * s.length + t) * kv_heads_ + head;
      const double *key = k + at * s.k, *value = v + at * s.v;
      for (Index i = 0; decay && i < s.k; ++i) {
        const double keep = std::exp(each_key ? decay[at * s.k + i] : decay[at]);
        for (Index j = 0; j < s.v; ++j) state[i * s.v + j] *= keep;
      }
      for (Index j = 0; j < s.v; ++j) {
        fresh[j] = value[j];
        for (Index i = 0; delta_ && i < s.k; ++i) fresh[j] -= state[i * s.v + j] * key[i];
      }
      const double rate = !beta ? 1 : c.input(5).shape()[2] == 1 ? beta[b * s.length + t] : beta[at];
      for (Index i = 0; i < s.k; ++i)
        for (Index j = 0; j < s.v; ++j) state[i * s.v + j] += rate * key[i] * fresh[j];
      for (Index h = head * group; c.output(0).present() && h < (head + 1) * group; ++h) {
        const double* query = q + ((b * s.length + t) * heads_ + h) * s.k;
        double* y = &c.output(0).values<double>()[((b * s.length + t) * heads_ + h) * s.v];
        for (Index j = 0; j < s.v; ++j) {
          double sum = 0;
          for (Index i = 0; i < s.k; ++i) sum += state[i * s.v + j] * query[i];
          y[j] = scale * sum;
        }
      }
    }
    if (c.output(1).present()) std::ranges::copy(state, &c.output(1).values<double>()[first]);
  }

  Index heads_, kv_heads_;
  double scale_;
  std::string rule_;
  bool gated_ = false, delta_ = false;
};

}  // namespace
D5_REGISTER(operators, "LinearAttention", LinearAttention);
}  // namespace d5
