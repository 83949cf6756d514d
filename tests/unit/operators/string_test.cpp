// SPDX-License-Identifier: Apache-2.0
// Expected values: ONNX's node tests string_*, regex_full_match_*, strnormalizer_*, tfidfvectorizer_* (1.23).
#include "run_operator.hpp"

namespace d5 {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

Tensor words(Shape shape, const Words& values) { return Tensor::from<std::string>(std::move(shape), values); }
Words texts(const Tensor& t) { return {t.values<std::string>().begin(), t.values<std::string>().end()}; }

TEST(StringConcat, Broadcasts) {
  const Context c = forward(*made("StringConcat"), {words({2, 1}, {"a", "b"}), words({2}, {"x", ""})});
  EXPECT_EQ(to_string(c.output(0).shape()), "2x2");
  EXPECT_EQ(texts(c.output(0)), (Words{"ax", "a", "bx", "b"}));
}

TEST(StringSplit, SpacesDelimitersAndLimit) {
  const Tensor x = words({2, 2}, {"hello world", "def.net", "o n n x", "the quick brown fox"});
  const Context most = forward(*made("StringSplit", {{"maxsplit", 2}}), {x});
  EXPECT_EQ(texts(most.output(0)),
            (Words{"hello", "world", "", "def.net", "", "", "o", "n", "n x", "the", "quick", "brown fox"}));
  EXPECT_EQ(list(most.output(1)), (Numbers{2, 1, 3, 3}));
  const Context dashes = forward(*made("StringSplit", {{"delimiter", "-"}}), {words({2}, {"o-n-n--x-", "o-n----nx"})});
  EXPECT_EQ(texts(dashes.output(0)), (Words{"o", "n", "n", "", "x", "", "o", "n", "", "", "", "nx"}));
  const Context spaces = forward(*made("StringSplit"), {words({3}, {"  a  b ", "", "   "})});
  EXPECT_EQ(texts(spaces.output(0)), (Words{"a", "b", "", "", "", ""}));
  EXPECT_EQ(list(spaces.output(1)), (Numbers{2, 0, 0}));
  const Context none = forward(*made("StringSplit"), {words({0}, {})});
  EXPECT_EQ(to_string(none.output(0).shape()), "0x0");
}

TEST(RegexFullMatch, OnnxExamples) {
  const auto matches = [](const char* pattern, const Words& x) {
    return list(
        forward(*made("RegexFullMatch", {{"pattern", pattern}}), {words({static_cast<Index>(x.size())}, x)}).output(0));
  };
  EXPECT_EQ(matches("(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)",
                    {"account@gmail.com", "account@hotmail.com", "not email", "account2@yahoo.com"}),
            (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(matches("www\\.[\\w.-]+\\.\\bcom\\b", {"www.google.com", "www.facebook.com", "www.bbc.co.uk"}),
            (Numbers{1, 1, 0}));
  EXPECT_NE(message_of([] {
              made("RegexFullMatch", {{"pattern", "("}});
            }).find("no regular expression"),
            std::string::npos);
}

TEST(StringNormalizer, StopWordsAndCase) {
  const auto normalized = [](const Attributes& a, const Tensor& x) {
    return forward(*made("StringNormalizer", a), {x}).output(0);
  };
  const Tensor week = words({1, 3}, {"Monday", "tuesday", "Stra\u00dfe \u00c4rger"});
  const Tensor upper = normalized({{"case_change_action", "UPPER"}, {"stopwords", Words{"monday"}}}, week);
  EXPECT_EQ(to_string(upper.shape()), "1x2");
  EXPECT_EQ(texts(upper)[0], "TUESDAY");
  const Tensor lower =
      normalized({{"case_change_action", "LOWER"}, {"stopwords", Words{"monday"}}, {"is_case_sensitive", 1}}, week);
  EXPECT_EQ(texts(lower)[0], "monday");
  EXPECT_EQ(texts(lower)[2], "stra\u00dfe \u00e4rger");
  EXPECT_EQ(texts(normalized({{"stopwords", Words{"monday"}}}, words({1}, {"monday"}))), Words{""});
}

TEST(TfIdfVectorizer, OnnxExamples) {
  using List = std::vector<int64_t>;
  const Tensor x = Tensor::from<int32_t>({2, 6}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
  Attributes a{{"mode", "TF"},
               {"min_gram_length", 1},
               {"max_gram_length", 2},
               {"max_skip_count", 5},
               {"ngram_counts", List{0, 4}},
               {"ngram_indexes", List{0, 1, 2, 3, 4, 5, 6}},
               {"pool_int64s", List{2, 3, 5, 4, 5, 6, 7, 8, 6, 7}}};
  EXPECT_EQ(list(forward(*made("TfIdfVectorizer", a), {x}).output(0)),
            (Numbers{0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1}));
  a.set("weights", Numbers{1, 2, 3, 4, 5, 6, 7});
  a.set("mode", "TFIDF");
  EXPECT_EQ(list(forward(*made("TfIdfVectorizer", a), {x}).output(0)),
            (Numbers{0, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7}));
  a.set("mode", "IDF");
  EXPECT_EQ(list(forward(*made("TfIdfVectorizer", a), {x}).output(0)),
            (Numbers{0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7}));
  const Attributes empty{{"mode", "TF"},
                         {"min_gram_length", 2},
                         {"max_gram_length", 2},
                         {"max_skip_count", 0},
                         {"ngram_counts", List{0, 0}},
                         {"ngram_indexes", List{0, 1, 2}},
                         {"pool_strings", Words{"5", "6", "7", "8", "6", "7"}}};
  EXPECT_EQ(list(forward(*made("TfIdfVectorizer", empty), {words({6}, {"7", "8", "6", "7", "5", "6"})}).output(0)),
            (Numbers{1, 1, 1}));
}

}  // namespace
}  // namespace d5
