// SPDX-License-Identifier: Apache-2.0
// Reshape and its relatives, Expand, Tile, DepthToSpace, the scatters, constants, OneHot, NonZero, Trilu. Expected
// numbers: the examples of ONNX's documentation, numpy 2.4, and by hand; gradients by hand.
#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor indices(const std::vector<int64_t>& list) {
  return Tensor::from<int64_t>({static_cast<Index>(list.size())}, list);
}

Tensor counting(const Shape& shape) {
  Tensor t(DType::f64, shape);
  for (Index i = 0; i < t.elements(); ++i) t.values<double>()[i] = static_cast<double>(i);
  return t;
}

std::string shape_of(const std::string& op, const Attributes& attributes, const Shape& x,
                     const std::vector<std::vector<Index>>& lists) {
  std::vector<TensorSpec> in{{DType::f32, x}};
  for (const auto& list : lists) in.push_back(known_spec(list));
  return message_of([&] { throw Error(to_string(made(op, attributes)->infer(in)[0].shape)); });
}

TEST(Reshape, Sizes) {
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3, 4}, {{4, 2, 3}}), "4x2x3");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3, 4}, {{2, -1, 2}}), "2x6x2");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3, 4}, {{2, 0, 1, -1}}), "2x3x1x4");
  EXPECT_EQ(shape_of("Reshape", {{"allowzero", 1}}, {0, 3, 4}, {{3, 4, 0}}), "3x4x0");
  EXPECT_EQ(shape_of("Reshape", {}, {1, 1}, {{}}), "scalar");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3}, {{4}}), "[reshape] 2x3 cannot take the shape 4: 6 and 4 elements");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3}, {{4, -1}}),
            "[reshape] 2x3 cannot take the shape 4x-1: 6 elements are no multiple of 4");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3}, {{-1, -1}}),
            "[reshape] 2x3 cannot take the shape -1x-1: it has -1 more than once");
  EXPECT_EQ(shape_of("Reshape", {}, {2, 3}, {{2, 3, 0}}),
            "[reshape] 2x3 cannot take the shape 2x3x0: X has no axis 2 to copy a size from");
  EXPECT_EQ(shape_of("Reshape", {{"allowzero", 1}}, {0, 3}, {{0, -1}}),
            "[reshape] 0x3 cannot take the shape 0x-1: -1 and a size of 0 leave it undecided");
  EXPECT_EQ(infer_error("Reshape", {}, {{DType::f32, {2}}, {DType::i64, {1}}}),
            "[reshape] the value of shape must be known before the run; it is not");
  EXPECT_EQ(shape_of("Reshape", {}, {2}, {{INT64_MAX, 2}}).substr(0, 19), "[reshape] output: [");
}

TEST(Reshape, KeepsElementsAndGradient) {
  Context c = forward(*made("Reshape"), {counting({2, 3}), indices({3, 2})});
  expect_near(c.output(0), {3, 2}, {0, 1, 2, 3, 4, 5});
  backward(*made("Reshape"), c, pattern({3, 2}, 1));
  expect_near(c.input_gradient(0), {2, 3}, list(pattern({3, 2}, 1)));
}

TEST(Flatten, Sizes) {
  EXPECT_EQ(shape_of("Flatten", {}, {2, 3, 4, 5}, {}), "2x60");
  EXPECT_EQ(shape_of("Flatten", {{"axis", 0}}, {2, 3}, {}), "1x6");
  EXPECT_EQ(shape_of("Flatten", {{"axis", 2}}, {2, 3}, {}), "6x1");
  EXPECT_EQ(shape_of("Flatten", {{"axis", -1}}, {2, 3, 4}, {}), "6x4");
  EXPECT_EQ(shape_of("Flatten", {{"axis", 3}}, {2, 3}, {}),
            "[flatten] axis 3 is out of range; for a tensor of rank 2 it is -2 to 2");
}

TEST(Squeeze, Sizes) {
  EXPECT_EQ(shape_of("Squeeze", {}, {1, 3, 1, 5}, {}), "3x5");
  EXPECT_EQ(shape_of("Squeeze", {}, {1, 3, 1, 5}, {{-2}}), "1x3x5");
  EXPECT_EQ(shape_of("Squeeze", {}, {1, 3}, {{1}}), "[squeeze] axis 1 of 1x3 has size 3; only axes of size 1 can go");
  EXPECT_EQ(shape_of("Unsqueeze", {}, {3, 4, 5}, {{5, 4, 2}}), "3x4x1x5x1x1");
  EXPECT_EQ(shape_of("Unsqueeze", {}, {3}, {{-1, 0}}), "1x3x1");
  EXPECT_EQ(shape_of("Unsqueeze", {}, {3}, {{0, -3}}), "[unsqueeze] axis -3 is given twice");
}

TEST(Expand, CopiesAndAddsUp) {
  Context c = forward(*made("Expand"), {doubles({3, 1}, {1, 2, 3}), indices({2, 1, 2})});
  expect_near(c.output(0), {2, 3, 2}, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
  backward(*made("Expand"), c, counting({2, 3, 2}));
  expect_near(c.input_gradient(0), {3, 1}, {0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11});
  EXPECT_EQ(shape_of("Expand", {}, {2, 3}, {{2, 4}}),
            "[expand] shapes 2x3 and 2x4 do not broadcast: sizes 3 and 4 differ and neither is 1");
  EXPECT_EQ(made("Expand")
                ->rounding(std::vector{TensorSpec{DType::f32, {3, 1}}, known_spec({2, 1, 2})}, Pass::backward, 0)
                .terms,
            3);
}

TEST(Tile, CopiesAndAddsUp) {
  Context c = forward(*made("Tile"), {doubles({2, 2}, {0, 1, 2, 3}), indices({2, 2})});
  expect_near(c.output(0), {4, 4}, {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  backward(*made("Tile"), c, counting({4, 4}));
  expect_near(c.input_gradient(0), {2, 2}, {0 + 2 + 8 + 10, 1 + 3 + 9 + 11, 4 + 6 + 12 + 14, 5 + 7 + 13 + 15});
  EXPECT_EQ(shape_of("Tile", {}, {2, 3}, {{2}}), "[tile] repeats is 2; 2 values are wanted for X of 2x3");
}

TEST(DepthToSpace, OnnxDocumentation) {
  // Eight channels of 2 x 3, as in the examples of the documentation: the first is 0 .. 5, the next 9 .. 14, ...
  std::vector<double> x;
  for (int channel = 0; channel < 8; ++channel)
    for (int i = 0; i < 6; ++i) x.push_back(9 * channel + i);
  const Tensor input = doubles({1, 8, 2, 3}, x);
  const Context dcr = forward(*made("DepthToSpace", {{"blocksize", 2}}), {input});
  expect_near(dcr.output(0).reshaped({2, 24}).slice(0, 1), {1, 24},
              {0, 18, 1, 19, 2, 20, 36, 54, 37, 55, 38, 56, 3, 21, 4, 22, 5, 23, 39, 57, 40, 58, 41, 59});
  const Context crd = forward(*made("DepthToSpace", {{"blocksize", 2}, {"mode", "CRD"}}), {input});
  expect_near(crd.output(0).reshaped({2, 24}).slice(0, 1), {1, 24},
              {0, 9, 1, 10, 2, 11, 18, 27, 19, 28, 20, 29, 3, 12, 4, 13, 5, 14, 21, 30, 22, 31, 23, 32});
  for (const char* mode : {"DCR", "CRD"}) {  // one undoes the other
    const Attributes a{{"blocksize", 2}, {"mode", mode}};
    const Tensor there = forward(*made("DepthToSpace", a), {input}).output(0);
    expect_near(forward(*made("SpaceToDepth", a), {there}).output(0), {1, 8, 2, 3}, x);
  }
  EXPECT_EQ(shape_of("DepthToSpace", {{"blocksize", 3}}, {1, 8, 2, 3}, {}),
            "[depth_to_space] X is 1x8x2x3: 8 channels are no multiple of 3 x 3");
  EXPECT_EQ(shape_of("SpaceToDepth", {{"blocksize", 2}}, {1, 8, 2, 3}, {}),
            "[space_to_depth] X is 1x8x2x3: 2 x 3 pixels do not divide into blocks of 2");
}

TEST(ScatterElements, OnnxDocumentation) {
  const Tensor zeros = doubles({3, 3}, std::vector<double>(9, 0.0));
  expect_near(forward(*made("ScatterElements"), {zeros, Tensor::from<int64_t>({2, 3}, {1, 0, 2, 0, 2, 1}),
                                                 doubles({2, 3}, {1.0, 1.1, 1.2, 2.0, 2.1, 2.2})})
                  .output(0),
              {3, 3}, {2.0, 1.1, 0, 1.0, 0, 2.2, 0, 2.1, 1.2});
  expect_near(
      forward(*made("ScatterElements", {{"axis", 1}}),
              {doubles({1, 5}, {1, 2, 3, 4, 5}), Tensor::from<int64_t>({1, 2}, {1, -2}), doubles({1, 2}, {1.1, 2.1})})
          .output(0),
      {1, 5}, {1, 1.1, 3, 2.1, 5});
}

TEST(ScatterElements, ReductionsAndGradients) {
  struct Wanted {
    const char* reduction;
    std::vector<double> y, dx, du;
  };
  // Elements 1 and 3 of (2, 3, 5, 4) receive (7, 3) and (4, -1).
  for (const Wanted& wanted : std::vector<Wanted>{{"none", {2, 3, 5, -1}, {1, 0, 3, 0}, {0, 2, 0, 4}},
                                                  {"add", {2, 13, 5, 7}, {1, 2, 3, 4}, {2, 2, 4, 4}},
                                                  {"mul", {2, 63, 5, -16}, {1, 42, 3, -16}, {18, 42, -16, 64}},
                                                  {"max", {2, 7, 5, 4}, {1, 0, 3, 2}, {2, 0, 2, 0}},
                                                  {"min", {2, 3, 5, -1}, {1, 1, 3, 0}, {0, 1, 0, 4}}}) {
    SCOPED_TRACE(wanted.reduction);
    const auto op = made("ScatterElements", {{"reduction", wanted.reduction}});
    Context c = forward(*op, {doubles({4}, {2, 3, 5, 4}), indices({1, 1, 3, -1}), doubles({4}, {7, 3, 4, -1})});
    expect_near(c.output(0), {4}, wanted.y);
    backward(*op, c, doubles({4}, {1, 2, 3, 4}));
    expect_near(c.input_gradient(0), {4}, wanted.dx);
    expect_near(c.input_gradient(2), {4}, wanted.du);
  }
}

TEST(ScatterND, OnnxDocumentation) {
  Context c = forward(*made("ScatterND"), {doubles({8}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                           Tensor::from<int64_t>({4, 1}, {4, 3, 1, 7}), doubles({4}, {9, 10, 11, 12})});
  expect_near(c.output(0), {8}, {1, 11, 3, 10, 9, 6, 7, 12});
  backward(*made("ScatterND"), c, doubles({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
  expect_near(c.input_gradient(0), {8}, {1, 0, 3, 0, 0, 6, 7, 0});
  expect_near(c.input_gradient(2), {4}, {5, 4, 2, 8});
  expect_near(
      forward(*made("ScatterND", {{"reduction", "add"}}),
              {doubles({2, 2}, {1, 2, 3, 4}), Tensor::from<int64_t>({2, 1}, {1, 1}), doubles({2, 2}, {5, 6, 7, 8})})
          .output(0),
      {2, 2}, {1, 2, 15, 18});
}

TEST(Scatter, BadInputsAreNamed) {
  const TensorSpec x{DType::f32, {3, 4}}, two{DType::i64, {2, 2}};
  EXPECT_EQ(infer_error("ScatterElements", {}, {x, two, {DType::f32, {2, 3}}}),
            "[scatter_elements] updates are 2x3; 2x2 are wanted for data of 3x4 and indices of 2x2");
  EXPECT_EQ(infer_error("ScatterND", {}, {x, {DType::i64, {2, 1}}, {DType::f32, {2}}}),
            "[scatter_nd] updates are 2; 2x4 are wanted for data of 3x4 and indices of 2x1");
  EXPECT_EQ(message_of([] {
              forward(*made("ScatterElements"), {pattern({3}, 1), indices({1, 3}), doubles({2}, {1, 2})});
            }),
            "[scatter_elements] index 3 at element 1 of the indices is out of range; an axis of 3 has -3 to 2");
  EXPECT_EQ(infer_error("ScatterND", {{"reduction", "sum"}}, {}).substr(0, 36), "[scatter_nd] unknown reduction 'sum'");
  const TensorSpec flags{DType::boolean, {3}};
  EXPECT_EQ(infer_error("ScatterElements", {{"reduction", "add"}}, {flags, {DType::i64, {3}}, flags}),
            "[scatter_elements] reduction add is not defined for bool");
}

TEST(Constant, EveryAttribute) {
  const auto value = [](const Attributes& a) { return *made("Constant", a)->infer({})[0].known; };
  expect_near(value({{"value_float", 2.5}}), {}, {2.5});
  expect_near(value({{"value_floats", std::vector<double>{1, 2.5}}}), {2}, {1, 2.5});
  expect_near(value({{"value_int", 7}}), {}, {7});
  expect_near(value({{"value_ints", std::vector<int64_t>{3, -4}}}), {2}, {3, -4});
  EXPECT_EQ(value({{"value_string", "word"}}).values<std::string>()[0], "word");
  EXPECT_EQ(value({{"value_strings", std::vector<std::string>{"a", "b"}}}).values<std::string>()[1], "b");
  const auto tensor = std::make_shared<const Tensor>(Tensor::from<int32_t>({1, 2}, {5, 6}));
  EXPECT_EQ(value({{"value", tensor}}).dtype(), DType::i32);
  EXPECT_EQ(message_of([] { made("Constant", {}); }), "[constant] 0 attributes are given; one is wanted");
  expect_near(forward(*made("Constant", {{"value", tensor}}), {}).output(0), {1, 2}, {5, 6});
}

TEST(Constant, OfShape) {
  const auto plain = made("ConstantOfShape")->infer(std::vector{known_spec({2, 0})});
  EXPECT_EQ(to_string(plain[0]), "f32[2x0]");
  const auto four = std::make_shared<const Tensor>(Tensor::from<int64_t>({1}, {4}));
  const auto filled = made("ConstantOfShape", {{"value", four}})->infer(std::vector{known_spec({3})});
  EXPECT_EQ(integers(*filled[0].known), (std::vector<Index>{4, 4, 4}));
  EXPECT_EQ(infer_error("ConstantOfShape", {}, {known_spec({2, -1})}),
            "[constant_of_shape] output: [shape] negative size -1 in 2x-1");
}

TEST(Shape, StartAndEnd) {
  const auto sizes = [](const Attributes& a) {
    const auto spec = made("Shape", a)->infer(std::vector{TensorSpec{DType::f32, {2, 3, 5}}})[0];
    return to_string(Shape(integers(*spec.known)));
  };
  EXPECT_EQ(sizes({}), "2x3x5");
  EXPECT_EQ(sizes({{"start", -1}}), "5");
  EXPECT_EQ(sizes({{"end", -1}}), "2x3");
  EXPECT_EQ(sizes({{"start", 1}, {"end", 2}}), "3");
  EXPECT_EQ(sizes({{"start", -9}, {"end", 9}}), "2x3x5");
  EXPECT_EQ(sizes({{"start", 2}, {"end", 1}}), "scalar");  // no sizes at all
  expect_near(forward(*made("Size"), {counting({2, 3})}).output(0), {}, {6});
}

// How a network flattens all axes but the first, in the way exporters write it.
TEST(Known, ShapeArithmetic) {
  const TensorSpec x{DType::f32, {8, 3, 5, 7}};
  const auto shape = made("Shape")->infer(std::vector{x})[0];
  const auto batch = made("Gather")->infer(std::vector{shape, known_spec(Tensor::from<int64_t>({}, {0}))})[0];
  const auto list = made("Unsqueeze")->infer(std::vector{batch, known_spec({0})})[0];
  const auto to = made("Concat", {{"axis", 0}})->infer(std::vector{list, known_spec({-1})})[0];
  EXPECT_EQ(to_string(made("Reshape")->infer(std::vector{x, to})[0].shape), "8x105");
}

TEST(Range, OnnxDocumentation) {
  const auto run = [](double start, double limit, double delta) {
    return list(forward(*made("Range"), {doubles({}, {start}), doubles({}, {limit}), doubles({}, {delta})}).output(0));
  };
  EXPECT_EQ(run(3, 9, 3), (std::vector<double>{3, 6}));
  EXPECT_EQ(run(10, 4, -2), (std::vector<double>{10, 8, 6}));
  EXPECT_EQ(run(0, 1.25, 0.5), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(run(5, 1, 1), std::vector<double>());
  const TensorSpec zero = known_spec(Tensor::from<int64_t>({}, {0})), one = known_spec(Tensor::from<int64_t>({}, {1}));
  EXPECT_EQ(infer_error("Range", {}, {zero, one, zero}), "[range] delta is 0; it must not be");
  EXPECT_EQ(infer_error("Range", {}, {zero, {DType::i64, {}}, one}),
            "[range] the value of limit must be known before the run; it is not");
}

TEST(OneHot, NegativeAndOutOfRange) {
  const auto run = [](int64_t axis) {
    return forward(*made("OneHot", {{"axis", axis}}), {indices({0, -1, 3, 1}), indices({3}), doubles({2}, {2, 5})});
  };
  expect_near(run(-1).output(0), {4, 3}, {5, 2, 2, 2, 2, 5, 2, 2, 2, 2, 5, 2});
  expect_near(run(0).output(0), {3, 4}, {5, 2, 2, 2, 2, 2, 2, 5, 2, 5, 2, 2});
  Context c = run(-1);
  backward(*made("OneHot"), c, counting({4, 3}));
  expect_near(c.input_gradient(2), {2}, {66 - (0 + 5 + 10), 0 + 5 + 10});
  EXPECT_EQ(infer_error("OneHot", {}, {{DType::i64, {2}}, known_spec({0}), {DType::f32, {2}}}),
            "[one_hot] depth is 0; at least 1 is wanted");
}

TEST(NonZero, OnnxDocumentation) {
  const Context c = forward(*made("NonZero"), {Tensor::from<bool>({2, 2}, {true, false, true, true})});
  expect_near(c.output(0), {2, 3}, {0, 1, 1, 0, 0, 1});
  expect_near(forward(*made("NonZero"), {doubles({}, {3})}).output(0), {1, 1}, {0});
  expect_near(forward(*made("NonZero"), {doubles({2}, {0, 0})}).output(0), {1, 0}, {});
  EXPECT_EQ(infer_error("NonZero", {}, {{DType::f32, {2}}}),
            "[non_zero] the value of X must be known before the run: the shape of the result depends on it");
  Context free{.inputs = {doubles({3}, {1, 0, 2})}};  // without infer: the values alone give the shape
  made("NonZero")->forward(free);
  expect_near(free.output(0), {1, 2}, {0, 2});
}

TEST(Trilu, BothTriangles) {
  const auto run = [](int64_t upper, std::vector<Tensor> in) {
    return list(forward(*made("Trilu", {{"upper", upper}}), std::move(in)).output(0));
  };
  const Tensor x = doubles({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(run(1, {x}), (std::vector<double>{1, 2, 3, 0, 5, 6, 0, 0, 9}));
  EXPECT_EQ(run(0, {x}), (std::vector<double>{1, 0, 0, 4, 5, 0, 7, 8, 9}));
  EXPECT_EQ(run(1, {x, Tensor::from<int64_t>({}, {1})}), (std::vector<double>{0, 2, 3, 0, 0, 6, 0, 0, 0}));
  EXPECT_EQ(run(0, {x, indices({-1})}), (std::vector<double>{0, 0, 0, 4, 0, 0, 7, 8, 0}));
}

TEST(Shapes, CasesHold) {
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "DepthToSpace", "SpaceToDepth",
                         "ScatterElements", "ScatterND", "Constant", "ConstantOfShape", "Shape", "Size", "Range",
                         "OneHot", "NonZero", "Trilu"})
    expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
