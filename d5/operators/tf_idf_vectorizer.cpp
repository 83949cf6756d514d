// SPDX-License-Identifier: Apache-2.0
// How often each of a pool of n-grams occurs in each row (ONNX TfIdfVectorizer), with up to max_skip_count items left
// out between neighbours. No gradient.
//   TF: counts      IDF: the weight where it occurs at all      TFIDF: count times weight
#include <algorithm>
#include <limits>
#include <map>

#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[tf_idf_vectorizer]";

class TfIdfVectorizer final : public Exact {
 public:
  explicit TfIdfVectorizer(const Attributes& a)
      : mode_(a.text("mode", "")),
        least_(a.integer("min_gram_length", 1)),
        most_(a.integer("max_gram_length", 1)),
        skips_(a.integer("max_skip_count", 0)),
        indexes_(a.integers("ngram_indexes")),
        weights_(a.reals("weights")) {
    check_attributes(a,
                     {"max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes",
                      "pool_int64s", "pool_strings", "weights"},
                     place);
    if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF")
      throw UsageError("{} mode is '{}'; legal: TF, IDF, TFIDF", place, mode_);
    if (least_ < 1 || most_ < least_ || skips_ < 0)
      throw UsageError(
          "{} min_gram_length is {}, max_gram_length {} and max_skip_count {}; at least 1, as much and 0 "
          "are wanted",
          place, least_, most_, skips_);
    if (!weights_.empty() && weights_.size() != indexes_.size())
      throw UsageError("{} there are {} weights for {} n-grams", place, weights_.size(), indexes_.size());
    texts_ = a.has("pool_strings");
    std::vector<std::string> pool = text_list(a, "pool_strings", place);
    for (const int64_t item : a.integers("pool_int64s")) pool.push_back(std::to_string(item));
    collect(pool, a.integers("ngram_counts"));
    for (const Index index : indexes_) {
      constexpr Index most = std::numeric_limits<Index>::max() - 1;
      if (index < 0 || index > most)
        throw UsageError("{} an n-gram has index {}; 0 to {} are legal", place, index, most);
      size_ = std::max(size_, index + 1);
    }
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (texts_)
      check_type(in[0], {DType::string}, place);
    else
      check_type(in[0], {DType::i32, DType::i64}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 1 || x.rank() > 2) throw Error("{} X is {}; a list, or rows, are wanted", place, to_string(x));
    return {x.rank() == 1 ? TensorSpec{DType::f32, {size_}} : output_spec(DType::f32, {x[0], size_}, place)};
  }

  void forward(Context& c) const override {
    const Tensor& x = c.input(0);
    const Index length = x.shape().back();
    const auto y = c.output(0).values<double>();
    std::ranges::fill(y, 0.0);
    const auto numbers = x.dtype() == DType::string ? std::vector<Index>() : integers(x);
    std::vector<std::string> row(static_cast<size_t>(length));
    for (Index r = 0; r * length < x.elements(); ++r) {
      if (x.dtype() == DType::string)
        std::copy_n(x.values<std::string>().begin() + r * length, length, row.begin());
      else
        for (Index i = 0; i < length; ++i) row[i] = std::to_string(numbers[r * length + i]);
      count(row, y.subspan(static_cast<size_t>(r * size_), static_cast<size_t>(size_)));
    }
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 8},
            {"length", "items of a row", 64},
            {"measure", "TF, IDF or TFIDF (the attribute mode)", "TF"},
            {"skips", "items that may be left out", 1}};
  }

  // Six pairs of small numbers.
  static OperatorCase describe(const Attributes& v, DType) {
    return {.inputs = {{.spec = {DType::i64, {v.integer("rows", 1), v.integer("length", 1)}},
                        .low = 0,
                        .high = 3,
                        .differentiable = false}},
            .attributes = {{"mode", v.text("measure", "")},
                           {"min_gram_length", 1},
                           {"max_gram_length", 2},
                           {"max_skip_count", v.integer("skips", 0)},
                           {"ngram_counts", std::vector<Index>{0, 3}},
                           {"ngram_indexes", std::vector<Index>{0, 1, 2, 3, 4, 5}},
                           {"weights", std::vector<double>{1, 2, 3, 4, 5, 6}},
                           {"pool_int64s", std::vector<Index>{0, 1, 2, 0, 1, 1, 2, 3, 0}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"rows", 2}, {"length", 7}}, {{"rows", 1}, {"length", 9}, {"measure", "TFIDF"}, {"skips", 2}}};
  }

 private:
  // Which n-gram of the pool these items are.
  void collect(const std::vector<std::string>& pool, const std::vector<Index>& starts) {
    Index gram = 0;
    for (size_t n = 1; n <= starts.size(); ++n) {
      const Index end = n < starts.size() ? starts[n] : static_cast<Index>(pool.size());
      if (starts[n - 1] < 0 || end < starts[n - 1] || end > static_cast<Index>(pool.size()) ||
          (end - starts[n - 1]) % static_cast<Index>(n) != 0)
        throw UsageError("{} ngram_counts do not cut the pool of {} items into n-grams", place, pool.size());
      for (Index at = starts[n - 1]; at < end; at += static_cast<Index>(n))
        grams_[{pool.begin() + at, pool.begin() + at + static_cast<Index>(n)}] = gram++;
    }
    if (gram != static_cast<Index>(indexes_.size()))
      throw UsageError("{} the pool has {} n-grams; ngram_indexes has {}", place, gram, indexes_.size());
  }

  void count(const std::vector<std::string>& row, std::span<double> y) const {
    const auto length = static_cast<Index>(row.size());
    for (Index n = least_; n <= std::min(most_, length); ++n)
      for (Index step = 1; step <= (n == 1 ? 1 : std::min(skips_, length) + 1); ++step)
        for (Index first = 0; first + (n - 1) * step < length; ++first) {
          std::vector<std::string> items;
          for (Index k = 0; k < n; ++k) items.push_back(row[first + k * step]);
          const auto found = grams_.find(items);
          if (found == grams_.end()) continue;
          const double weight = weights_.empty() || mode_ == "TF" ? 1 : weights_[found->second];
          double& sum = y[indexes_[found->second]];
          sum = mode_ == "IDF" ? weight : sum + weight;
        }
  }

  std::string mode_;
  Index least_, most_, skips_;
  std::vector<Index> indexes_;
  std::vector<double> weights_;
  bool texts_ = false;
  Index size_ = 0;
  std::map<std::vector<std::string>, Index> grams_;
};

}  // namespace
D5_REGISTER(operators, "TfIdfVectorizer", TfIdfVectorizer);
}  // namespace d5
