// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml. Expected values: ONNX's node tests ai_onnx_ml_* (1.23); linear models and transforms by hand.
#include "run_operator.hpp"

namespace d5 {
namespace {

using Numbers = std::vector<double>;
using List = std::vector<int64_t>;
using Words = std::vector<std::string>;

std::shared_ptr<const Tensor> attribute(const Numbers& values, DType type) {
  return std::make_shared<const Tensor>(doubles({static_cast<Index>(values.size())}, values).cast(type));
}

TEST(LabelEncoder, WordsAndNumbers) {
  const Tensor x = Tensor::from<std::string>({5}, {"a", "b", "d", "c", "g"});
  const Attributes a{{"keys_strings", Words{"a", "b", "c"}}, {"values_int64s", List{0, 1, 2}}, {"default_int64", 42}};
  EXPECT_EQ(list(forward(*made("ai.onnx.ml:LabelEncoder", a), {x}).output(0)), (Numbers{0, 1, 42, 2, 42}));
  const Attributes numbers{{"keys_floats", Numbers{1, std::nan(""), 1}}, {"values_floats", Numbers{10, 20, 30}}};
  const Tensor floats = Tensor::from<float>({3}, {1, NAN, 2});
  EXPECT_EQ(list(forward(*made("ai.onnx.ml:LabelEncoder", numbers), {floats}).output(0)), (Numbers{30, 20, 0}));
}

TEST(CategoryMapper, BothWays) {
  const Attributes a{{"cats_strings", Words{"x", "y"}}, {"cats_int64s", List{7, 8}}, {"default_int64", -3}};
  EXPECT_EQ(
      list(forward(*made("ai.onnx.ml:CategoryMapper", a), {Tensor::from<std::string>({2}, {"y", "?"})}).output(0)),
      (Numbers{8, -3}));
}

TEST(OneHotEncoder, NewLastAxis) {
  const Attributes a{{"cats_int64s", List{2, 4}}};
  expect_near(forward(*made("ai.onnx.ml:OneHotEncoder", a), {Tensor::from<int64_t>({3}, {4, 3, 2})}).output(0), {3, 2},
              {0, 1, 0, 0, 1, 0});
}

TEST(Features, Prepared) {
  const Tensor x = doubles({2, 3}, {1, -2, 2, 4, 5, 6});
  expect_near(forward(*made("ai.onnx.ml:ArrayFeatureExtractor"), {x, Tensor::from<int64_t>({2}, {2, 0})}).output(0),
              {2, 2}, {2, 1, 6, 4});
  expect_near(forward(*made("ai.onnx.ml:Binarizer", {{"threshold", 1.0}}), {x}).output(0), {2, 3}, {0, 0, 1, 1, 1, 1});
  expect_near(forward(*made("ai.onnx.ml:FeatureVectorizer"), {x, Tensor::from<double>({2, 1}, {8, 9})}).output(0),
              {2, 4}, {1, -2, 2, 8, 4, 5, 6, 9});
  const Attributes imputed{{"imputed_value_floats", Numbers{7, 8, 9}}, {"replaced_value_float", 2.0}};
  expect_near(forward(*made("ai.onnx.ml:Imputer", imputed), {x}).output(0), {2, 3}, {1, -2, 9, 4, 5, 6});
  expect_near(forward(*made("ai.onnx.ml:Normalizer", {{"norm", "L2"}}), {doubles({1, 2}, {3, -4})}).output(0), {1, 2},
              {0.6, -0.8});
  expect_near(forward(*made("ai.onnx.ml:Normalizer", {{"norm", "L1"}}), {doubles({2, 2}, {3, -1, 0, 0})}).output(0),
              {2, 2}, {0.75, -0.25, 0, 0});
  const Attributes scaled{{"offset", Numbers{1, 0, 2}}, {"scale", Numbers{2, 3, 4}}};
  expect_near(forward(*made("ai.onnx.ml:Scaler", scaled), {x}).output(0), {2, 3}, {0, -6, 0, 6, 15, 16});
}

TEST(LinearModels, ByHand) {
  const Tensor x = doubles({2, 2}, {1, 2, 3, 4});
  const Attributes regressor{{"targets", 2}, {"coefficients", Numbers{1, 0, 0, 2}}, {"intercepts", Numbers{0.5, -1}}};
  expect_near(forward(*made("ai.onnx.ml:LinearRegressor", regressor), {x}).output(0), {2, 2}, {1.5, 3, 3.5, 7});
  const Attributes classifier{{"classlabels_ints", List{5, 6}},
                              {"coefficients", Numbers{1, -1}},
                              {"intercepts", Numbers{0.25}},
                              {"post_transform", "LOGISTIC"}};
  const Context c = forward(*made("ai.onnx.ml:LinearClassifier", classifier), {x});
  EXPECT_EQ(list(c.output(0)), (Numbers{5, 5}));
  EXPECT_NEAR(list(c.output(1))[0], 1 / (1 + std::exp(-0.75)), 1e-12);
}

// The 0.975 quantile of the normal distribution is 1.959963984540054.
TEST(LinearModels, Probit) {
  const Attributes a{{"coefficients", Numbers{1}}, {"post_transform", "PROBIT"}};
  expect_near(forward(*made("ai.onnx.ml:LinearRegressor", a), {doubles({3, 1}, {0.975, 0.5, 0.025})}).output(0), {3, 1},
              {1.959963984540054, 0, -1.959963984540054}, 1e-9);
}

TEST(TreeEnsemble, SingleTree) {
  const Attributes a{{"nodes_featureids", List{0, 0, 0}},
                     {"nodes_truenodeids", List{1, 0, 1}},
                     {"nodes_falsenodeids", List{2, 2, 3}},
                     {"nodes_trueleafs", List{0, 1, 1}},
                     {"nodes_falseleafs", List{0, 1, 1}},
                     {"nodes_modes", attribute({0, 0, 0}, DType::u8)},
                     {"nodes_splits", attribute({3.14, 1.2, 4.2}, DType::f64)},
                     {"leaf_weights", attribute({5.23, 12.12, -12.23, 7.21}, DType::f64)},
                     {"leaf_targetids", List{0, 1, 0, 1}},
                     {"tree_roots", List{0}},
                     {"n_targets", 2}};
  expect_near(
      forward(*made("ai.onnx.ml:TreeEnsemble", a), {doubles({3, 2}, {1.2, 3.4, -0.12, 1.66, 4.14, 1.77})}).output(0),
      {3, 2}, {5.23, 0, 5.23, 0, 0, 12.12});
}

TEST(TreeEnsemble, SetMembershipAndMissingValues) {
  const double nan = std::nan("");
  const Attributes a{{"nodes_featureids", List{0, 0, 0}},
                     {"nodes_truenodeids", List{1, 0, 1}},
                     {"nodes_falsenodeids", List{2, 2, 3}},
                     {"nodes_trueleafs", List{0, 1, 1}},
                     {"nodes_falseleafs", List{1, 0, 1}},
                     {"nodes_modes", attribute({0, 6, 6}, DType::u8)},
                     {"nodes_splits", attribute({11, 232344, nan}, DType::f32)},
                     {"membership_values", attribute({1.2, 3.7, 8, 9, nan, 12, 7, nan}, DType::f32)},
                     {"leaf_weights", attribute({1, 10, 1000, 100}, DType::f32)},
                     {"leaf_targetids", List{0, 1, 2, 3}},
                     {"tree_roots", List{0}},
                     {"n_targets", 4}};
  const Tensor x = Tensor::from<float>({6, 1}, {1.2f, 3.4f, -0.12f, NAN, 12, 7});
  expect_near(forward(*made("ai.onnx.ml:TreeEnsemble", a), {x}).output(0), {6, 4},
              {1, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 100, 0, 0, 1000, 0, 0, 0, 1000, 0, 0, 10, 0, 0});
}

TEST(TreeEnsemble, OlderForms) {
  const Attributes a{
      {"nodes_treeids", List{0, 0, 0, 1}},     {"nodes_nodeids", List{0, 1, 2, 0}},
      {"nodes_featureids", List{0, 0, 0, 0}},  {"nodes_modes", Words{"BRANCH_LT", "LEAF", "LEAF", "LEAF"}},
      {"nodes_values", Numbers{2, 0, 0, 0}},   {"nodes_truenodeids", List{1, 0, 0, 0}},
      {"nodes_falsenodeids", List{2, 0, 0, 0}}};
  Attributes regressor = a, classifier = a;
  for (auto [one, votes] : {std::pair{&regressor, std::string("target")}, {&classifier, std::string("class")}}) {
    one->set(votes + "_treeids", List{0, 0, 1});
    one->set(votes + "_nodeids", List{1, 2, 0});
    one->set(votes + "_ids", List{0, 1, 1});
    one->set(votes + "_weights", Numbers{10, 20, 3});
  }
  regressor.set("n_targets", 2);
  regressor.set("base_values", Numbers{0.5, 0.25});
  const Tensor x = doubles({2, 1}, {1, 2});
  expect_near(forward(*made("ai.onnx.ml:TreeEnsembleRegressor", regressor), {x}).output(0), {2, 2},
              {10.5, 3.25, 0.5, 23.25});
  classifier.set("classlabels_strings", Words{"no", "yes"});
  const Context c = forward(*made("ai.onnx.ml:TreeEnsembleClassifier", classifier), {x});
  EXPECT_EQ(c.output(0).values<std::string>()[0], "no");
  EXPECT_EQ(c.output(0).values<std::string>()[1], "yes");
  EXPECT_EQ(list(c.output(1)), (Numbers{10, 3, 0, 23}));
}

TEST(TreeEnsemble, ARingIsAnError) {
  const Attributes a{{"nodes_featureids", List{0}},
                     {"nodes_truenodeids", List{0}},
                     {"nodes_falsenodeids", List{0}},
                     {"nodes_trueleafs", List{0}},
                     {"nodes_falseleafs", List{0}},
                     {"nodes_modes", attribute({0}, DType::u8)},
                     {"nodes_splits", attribute({1}, DType::f32)},
                     {"leaf_weights", attribute({1}, DType::f32)},
                     {"leaf_targetids", List{0}},
                     {"tree_roots", List{0}}};
  EXPECT_EQ(message_of([&] {
              forward(*made("ai.onnx.ml:TreeEnsemble", a), {doubles({1, 1}, {0})});
            }),
            "[tree_ensemble] the nodes from 0 on form a ring");
}

}  // namespace
}  // namespace d5
