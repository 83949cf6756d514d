// SPDX-License-Identifier: Apache-2.0
// Expected values: the reference evaluator of onnx 1.23 on doubles; of Erf and Gelu (there good to 1e-8), Swish and of
// slopes: mpmath with 40 digits.
#include "run_operator.hpp"

namespace d5 {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

// y at `x`, and the gradient for dy = 1 where slopes are given.
void expect_function(const std::string& op, const std::vector<double>& x, const std::vector<double>& y,
                     const std::vector<double>& slopes = {}, const Attributes& attributes = {}) {
  SCOPED_TRACE(op);
  const Shape shape{static_cast<Index>(x.size())};
  const auto made_op = made(op, attributes);
  Context c = forward(*made_op, {doubles(shape, x)});
  expect_near(c.output(0), shape, y, 1e-11 * (1 + std::abs(y.back())));
  if (slopes.empty()) return;
  backward(*made_op, c, doubles(shape, std::vector<double>(x.size(), 1)));
  expect_near(c.input_gradient(0), shape, slopes, 1e-11 * (1 + std::abs(slopes[1])));
}

std::vector<double> of(const std::string& op, const std::vector<double>& x, const Attributes& attributes = {}) {
  return list(forward(*made(op, attributes), {doubles({static_cast<Index>(x.size())}, x)}).output(0));
}

const std::vector<double> points{-3.25, -1.5, -0.5, -0.125, 0.5, 1.25, 3.5};

TEST(Unary, ElementaryFunctions) {
  const std::vector<double> exponentials{0.038774207831722, 0.223130160148429, 0.606530659712633, 0.882496902584595,
                                         1.648721270700128, 3.490342957461841, 33.11545195869231};
  expect_function("Exp", points, exponentials, exponentials);
  expect_function("Log", {0.25, 1, 1.5, 3}, {-1.38629436111989, 0, 0.405465108108164, 1.098612288668109},
                  {4, 1, 2.0 / 3, 1.0 / 3});
  expect_function("Sqrt", {0.25, 1, 1.5, 3}, {0.5, 1, 1.224744871391589, 1.732050807568877},
                  {1, 0.5, 0.40824829046386, 0.28867513459481});
  expect_function("Reciprocal", {0.25, 1, 1.5, 3}, {4, 1, 2.0 / 3, 1.0 / 3}, {-16, -1, -4.0 / 9, -1.0 / 9});
  expect_function("Erf", points,
                  {-0.999995697220536, -0.966105146475311, -0.520499877813047, -0.140316204801334, 0.520499877813047,
                   0.922900128256458, 0.999999256901628},
                  {2.918902538358e-5, 0.1189302892236, 0.8787825789354, 1.110885269597, 0.8787825789354,
                   0.2365211224473, 5.399426777385e-6});
}

TEST(Unary, Trigonometric) {
  const std::vector<double> sines{0.108195134530108, -0.99749498660405, -0.47942553860420, -0.12467473338522,
                                  0.479425538604203, 0.948984619355586, -0.35078322768961};
  const std::vector<double> cosines{-0.99412967608054, 0.070737201667702, 0.877582561890372, 0.992197667229329,
                                    0.877582561890372, 0.315322362395268, -0.93645668729079};
  std::vector<double> minus_sines = sines;
  for (double& value : minus_sines) value = -value;
  expect_function("Sin", points, sines, cosines);
  expect_function("Cos", points, cosines, minus_sines);
  expect_function(
      "Tan", points,
      {-0.10883402551332, -14.1014199471717, -0.54630248984379, -0.12565513657513, 0.546302489843790, 3.009569673862831,
       0.374585640158594},
      {1.011844845109, 199.8500445265, 1.29844641041, 1.015789213348, 1.29844641041, 10.05750962183, 1.140314401813});
  expect_function("Atan", points,
                  {-1.27229739520871, -0.98279372324732, -0.46364760900080, -0.12435499454676, 0.463647609000806,
                   0.896055384571343, 1.292496667789785},
                  {0.08648648648649, 0.3076923076923, 0.8, 0.9846153846154, 0.8, 0.390243902439, 0.07547169811321});
  const std::vector<double> inside{-0.75, -0.25, 0.125, 0.875};
  expect_function("Asin", inside, {-0.84806207898148, -0.25268025514207, 0.125327831168065, 1.065435816510739},
                  {1.511857892037, 1.032795558989, 1.007905261358, 2.065591117977});
  expect_function("Acos", inside, {2.418858405776377, 1.823476581936975, 1.445468495626831, 0.505360510284157},
                  {-1.511857892037, -1.032795558989, -1.007905261358, -2.065591117977});
  expect_function("Atanh", inside, {-0.97295507452765, -0.25541281188299, 0.125657214140453, 1.354025100551105},
                  {2.285714285714, 1.066666666667, 1.015873015873, 4.266666666667});
  expect_function("Acosh", {1.25, 2, 3.5}, {0.693147180559945, 1.316957896924816, 1.924847300238413},
                  {1.333333333333, 0.5773502691896, 0.298142397});
}

TEST(Unary, Hyperbolic) {
  const std::vector<double> sinh{-12.8757828546806, -2.12927945509481, -0.52109530549374, -0.12532577524111,
                                 0.521095305493747, 1.601919080300825, 16.54262728763499};
  const std::vector<double> cosh{12.91455706251239, 2.352409615243247, 1.127625965206380, 1.007822677825710,
                                 1.127625965206380, 1.888423877161015, 16.57282467105731};
  expect_function("Sinh", points, sinh, cosh);
  expect_function("Cosh", points, cosh, sinh);
  expect_function("Asinh", points,
                  {-1.89467213542304, -1.19476321728710, -0.48121182505960, -0.12467674692144, 0.481211825059603,
                   1.047593012649258, 1.965720471649651},
                  {0.2940858488375, 0.5547001962252, 0.8944271909999, 0.9922778767137, 0.8944271909999, 0.6246950475544,
                   0.2747211278974});
}

// ONNX: "in case of halfs, the rule is to round them to the nearest even integer"; its example for Round.
TEST(Unary, RoundsHalvesToEven) {
  EXPECT_EQ(of("Round", {0.1, 0.5, 0.9, 1.2, 1.5, 1.8, 2.3, 2.5, 2.7, -1.1, -1.5, -1.9, -2.2, -2.5, -2.8}),
            (std::vector<double>{0, 0, 1, 1, 2, 2, 2, 2, 3, -1, -2, -2, -2, -2, -3}));
  EXPECT_EQ(of("Floor", {-1.5, 1.2, 2, -0.1}), (std::vector<double>{-2, 1, 2, -1}));
  EXPECT_EQ(of("Ceil", {-1.5, 1.2, 2, -0.1}), (std::vector<double>{-1, 2, 2, 0}));
  for (const char* op : {"Round", "Ceil"}) EXPECT_TRUE(std::signbit(of(op, {-0.25})[0])) << op;  // -0
  for (const char* op : {"Round", "Floor", "Ceil"}) {
    EXPECT_EQ(of(op, {-inf, inf}), (std::vector<double>{-inf, inf}));
    EXPECT_TRUE(std::isnan(of(op, {nan})[0]));
  }
}

TEST(Unary, SpecialValues) {
  EXPECT_EQ(of("Abs", {-0.0, -inf, -2}), (std::vector<double>{0, inf, 2}));
  EXPECT_FALSE(std::signbit(of("Abs", {-0.0})[0]));
  EXPECT_TRUE(std::signbit(of("Neg", {0.0})[0]));
  EXPECT_EQ(of("Sign", {-inf, -3, -0.0, 0, 1e-300}), (std::vector<double>{-1, -1, 0, 0, 1}));
  for (const char* op : {"Abs", "Neg", "Sign", "Exp", "Log", "Sin", "Erf", "Tanh", "Sigmoid", "HardSigmoid",
                         "HardSwish", "Gelu", "Softplus", "Mish", "ThresholdedRelu", "LeakyRelu", "Elu"})
    EXPECT_TRUE(std::isnan(of(op, {nan})[0])) << op;
  EXPECT_EQ(of("Exp", {-inf, inf}), (std::vector<double>{0, inf}));
  EXPECT_EQ(of("Log", {0, inf}), (std::vector<double>{-inf, inf}));
  EXPECT_TRUE(std::isnan(of("Log", {-1})[0]) && std::isnan(of("Sqrt", {-1})[0]) && std::isnan(of("Acosh", {0})[0]));
  EXPECT_EQ(of("Reciprocal", {0, -0.0, inf}), (std::vector<double>{inf, -inf, 0}));
  EXPECT_EQ(of("IsNaN", {nan, 1, inf, -inf, -nan}), (std::vector<double>{1, 0, 0, 0, 1}));
  // ONNX's example for IsInf.
  const std::vector<double> x{-1.2, nan, inf, 2.8, -inf, inf};
  EXPECT_EQ(of("IsInf", x), (std::vector<double>{0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(of("IsInf", x, {{"detect_positive", 0}}), (std::vector<double>{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(of("IsInf", x, {{"detect_negative", 0}}), (std::vector<double>{0, 0, 1, 0, 0, 1}));
}

TEST(Unary, SlopesOfSteps) {
  Context c = forward(*made("Abs"), {doubles({3}, {-2, 0, 3})});
  backward(*made("Abs"), c, doubles({3}, {5, 6, 7}));
  expect_near(c.input_gradient(0), {3}, {-5, 0, 7});
  for (const char* op : {"Sign", "Floor", "Ceil", "Round"}) {
    Context step = forward(*made(op), {doubles({2}, {-1.25, 2.75})});
    backward(*made(op), step, doubles({2}, {5, 6}));
    expect_near(step.input_gradient(0), {2}, {0, 0});
  }
  Context logic = forward(*made("IsNaN"), {doubles({1}, {1})});
  EXPECT_EQ(message_of([&] { backward(*made("IsNaN"), logic, Tensor()); }), "[operator] this operator has no gradient");
}

TEST(Unary, IntegersInTheirOwnType) {
  const auto out = [](const char* op, const Tensor& x) { return forward(*made(op), {x}).output(0); };
  EXPECT_EQ(list(out("Abs", Tensor::from<int8_t>({3}, {-128, -5, 7}))), (std::vector<double>{-128, 5, 7}));
  EXPECT_EQ(out("Neg", Tensor::from<int64_t>({1}, {INT64_MIN})).values<int64_t>()[0], INT64_MIN);
  EXPECT_EQ(out("Abs", Tensor::from<int64_t>({1}, {-9007199254740993})).values<int64_t>()[0], 9007199254740993);
  EXPECT_EQ(list(out("Sign", Tensor::from<uint8_t>({2}, {0, 200}))), (std::vector<double>{0, 1}));
  EXPECT_EQ(list(out("BitwiseNot", Tensor::from<uint8_t>({2}, {0, 170}))), (std::vector<double>{255, 85}));
  EXPECT_EQ(list(out("BitwiseNot", Tensor::from<int32_t>({2}, {0, 5}))), (std::vector<double>{-1, -6}));
  EXPECT_EQ(list(out("Not", Tensor(DType::f64, {2}).cast(DType::boolean))).size(), 2u);
  EXPECT_EQ(list(out("Not", doubles({2}, {0, 1}).cast(DType::boolean))), (std::vector<double>{1, 0}));
}

TEST(Unary, BadInputsAreNamed) {
  EXPECT_EQ(infer_error("Exp", {}, {{DType::i32, {2}}}),
            "[exp] element type i32 is not defined by ONNX; legal: f32, f64, f16, bf16");
  EXPECT_EQ(infer_error("Not", {}, {{DType::f32, {2}}}), "[not] element type f32 is not defined by ONNX; legal: bool");
  EXPECT_EQ(infer_error("Sin", {}, {}), "[sin] input 0 is missing; 1 to 1 inputs are wanted");
  EXPECT_NE(message_of([] { made("Exp", {{"alpha", 1.0}}); }).find("[exp]"), std::string::npos);
  EXPECT_EQ(message_of([] {
              made("Gelu", {{"approximate", "erf"}});
            }),
            "[gelu] approximate is 'erf'; legal: none, tanh");
  EXPECT_EQ(message_of([] {
              made("Celu", {{"alpha", 0.0}});
            }),
            "[celu] alpha is 0; another number is wanted, x is divided by it");
}

TEST(Activations, Values) {
  expect_function("LeakyRelu", points, {-0.8125, -0.375, -0.125, -0.03125, 0.5, 1.25, 3.5},
                  {0.25, 0.25, 0.25, 0.25, 1, 1, 1}, {{"alpha", 0.25}});
  expect_function("ThresholdedRelu", points, {0, 0, 0, 0, 0, 1.25, 3.5}, {0, 0, 0, 0, 0, 1, 1});
  const double a = 2 * 0.038774207831722, b = 2 * 0.223130160148429, c = 2 * 0.606530659712633,
               d = 2 * 0.882496902584595;
  expect_function("Elu", points, {a - 2, b - 2, c - 2, d - 2, 0.5, 1.25, 3.5}, {a, b, c, d, 1, 1, 1}, {{"alpha", 2.0}});
  expect_function("Celu", points,
                  {-1.60617664959161, -1.05526689451797, -0.44239843385719, -0.12117387437304, 0.5, 1.25, 3.5}, {},
                  {{"alpha", 2.0}});
  expect_function("Selu", points,
                  {-1.68993043689911, -1.36581435763666, -0.69175818996524, -0.20658211875930, 0.525350511074066,
                   1.313376277685165, 3.677453577518463});
  expect_function("Sigmoid", points,
                  {0.037326887344129, 0.182425523806356, 0.377540668798145, 0.468790626626243, 0.622459331201854,
                   0.777299861174691, 0.970687769248643},
                  {0.03593359082533, 0.1491464520703, 0.2350037122016, 0.2490259750136, 0.2350037122016,
                   0.1731047869925, 0.02845302387974});
  expect_function("Tanh", points,
                  {-0.99699763548652, -0.90514825364486, -0.46211715726000, -0.12435300177159, 0.462117157260009,
                   0.848283639957512, 0.998177897611198},
                  {0.005995714834276, 0.1807066389236, 0.7864477329659, 0.9845363309504, 0.7864477329659,
                   0.2804148661804, 0.003640884720487});
  expect_function("HardSigmoid", points, {0, 0, 0.35, 0.5375, 0.85, 1, 1}, {0, 0, 0.5, 0.5, 0.5, 0, 0},
                  {{"alpha", 0.5}, {"beta", 0.6}});
  expect_function("HardSwish", points, {0, -0.375, -5.0 / 24, -23.0 / 384, 7.0 / 24, 85.0 / 96, 3.5},
                  {0, 0, 1.0 / 3, 11.0 / 24, 2.0 / 3, 11.0 / 12, 1});
  expect_function("Softplus", points,
                  {0.038041371687783, 0.201413277982752, 0.474076984180106, 0.632599035317169, 0.974076984180106,
                   1.501929081345373, 3.529750418272620},
                  {0.03732688734413, 0.1824255238064, 0.3775406687981, 0.4687906266262, 0.6224593312019,
                   0.7772998611747, 0.9706877692486});
  expect_function(
      "Softsign", points, {-13.0 / 17, -0.6, -1.0 / 3, -1.0 / 9, 1.0 / 3, 5.0 / 9, 7.0 / 9},
      {0.05536332179931, 0.16, 0.4444444444444, 0.7901234567901, 0.4444444444444, 0.1975308641975, 0.04938271604938});
  expect_function("Mish", points,
                  {-0.12357485345218, -0.29809974216680, -0.22074377465173, -0.06997990718000, 0.375245211304895,
                   1.131870304241039, 3.493990715117519},
                  {-0.0831139645428, -0.06409781589226, 0.2895106779135, 0.5196064735448, 0.8864243753577,
                   1.080463093148, 1.009939324995});
  expect_function("Swish", points,
                  {-0.121312383868421, -0.273638285709535, -0.188770334399073, -0.0585988283282805, 0.311229665600927,
                   0.971624826468364, 3.39740719237025},
                  {-0.07945728283819, -0.04129415429914, 0.2600388126973, 0.4376623797495, 0.7399611873027,
                   0.9936808449153, 1.070273352828});
  expect_function("Swish", points,
                  {-0.0128193795219346, -0.108337801552923, -0.14961156339362, -0.0558765266218953, 0.35038843660638,
                   1.11693430144317, 3.49096655386522},
                  {-0.01778809772166, -0.0988480646241, 0.1207780880346, 0.394422052336, 0.8792219119654, 1.09591611675,
                   1.012754258266},
                  {{"alpha", 1.702}});
}

TEST(Activations, GeluByErfAndByTanh) {
  expect_function("Gelu", points,
                  {-0.00187533138776999, -0.100210801903287, -0.154268769362993, -0.0562827218962359, 0.345731230637007,
                   1.11793778291643, 3.49918579822338},
                  {-0.006017381143833, -0.12746919223, 0.1325048753438, 0.4007820643018, 0.8674951246562,
                   1.122661583069, 1.002821760354});
  expect_function("Gelu", points,
                  {-0.00156862714474747, -0.100428423019767, -0.154285990174856, -0.0562828013757766, 0.345714009825144,
                   1.11771420296971, 3.49938380234463},
                  {-0.005564345644144, -0.1277107931514, 0.1326300964654, 0.4007845938372, 0.8673699035346,
                   1.12249263225, 1.00242264376},
                  {{"approximate", "tanh"}});
}

TEST(Activations, FarOutNothingOverflows) {
  for (const char* op : {"Sigmoid", "Tanh", "Gelu", "Softplus", "Mish", "Swish", "HardSwish", "Elu", "Softsign"}) {
    Context c = forward(*made(op), {doubles({2}, {-700, 700})});
    backward(*made(op), c, doubles({2}, {1, 1}));
    for (const Tensor& t : {c.output(0), c.input_gradient(0)})
      for (const double value : list(t)) EXPECT_TRUE(std::isfinite(value)) << op;
  }
}

}  // namespace
}  // namespace d5
