// SPDX-License-Identifier: Apache-2.0
// The engine behind formulas: ranges, threads, instruction sets and element types change no bit.
#include "d5/training/update.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/training/generated_loop.hpp"
#include "d5/training/optimizer.hpp"
#include "parameters.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace d5 {
namespace {

using testing::HasSubstr;

std::vector<uint32_t> bits_of(const Tensor& t) {
  const auto* words = static_cast<const uint32_t*>(t.data());
  return {words, words + t.bytes() / 4};
}

// All optimizers of this library, with modifiers on every second one.
std::vector<OptimizerSettings> formulas() {
  std::vector<OptimizerSettings> all;
  for (const std::string& name : registry_names(optimizers::kind)) {
    ParameterSet set = one_parameter({1});
    if (name.find(':') != std::string::npos || make_optimizer({name, {}}, set)->evaluates()) continue;
    all.push_back({name, {}});
    all.push_back({name, {{"weight_decay", 0.01}, {"clip_value", 0.5}, {"no_decay", std::string("*bias")}}});
  }
  return all;
}

// Three steps; `divide` calls update for parts of the arena.
template <class Divide>
std::vector<uint32_t> trained(const OptimizerSettings& settings, ParameterSet& set, Divide divide) {
  const auto optimizer = make_optimizer(settings, set);
  for (Index step = 1; step <= 3; ++step) {
    optimizer->new_input({.step = step});
    optimizer->prepare();
    draw_gradients(set, static_cast<uint64_t>(step));
    divide(*optimizer);
  }
  std::vector<uint32_t> result = bits_of(set.masters(set.all()));
  for (const Optimizer::State& state : optimizer->state()) {
    const auto more = bits_of(state.values);
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

TEST(Update, RangesChangeNoBit) {
  for (const OptimizerSettings& settings : formulas()) {
    ParameterSet whole = odd_parameters(), divided = odd_parameters();
    const auto expected = trained(settings, whole, [&](Optimizer& o) { o.update(whole.all()); });
    const auto actual = trained(settings, divided, [&](Optimizer& o) {
      if (o.division() == Optimizer::Division::whole) return o.update(divided.all());
      if (o.division() == Optimizer::Division::parameters) {
        const auto& parameters = divided.parameters();
        for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) o.update(divided.range(p->name));
        return;
      }
      for (Index first = divided.elements(); first > 0;) {  // from the last to the first, cut anywhere
        const Index count = std::min<Index>(first, 4099);
        o.update({first - count, count});
        first -= count;
      }
    });
    EXPECT_EQ(expected, actual) << settings.name;
  }
}

TEST(Update, ThreadsChangeNoBit) {
  const int before = threads();
  for (OptimizerSettings settings : formulas()) {
    settings.values.set("clip_norm", 1.0);
    std::vector<uint32_t> expected;
    for (const int n : {1, 2, 3, 7}) {
      set_threads(n);
      ParameterSet set = odd_parameters();
      const auto actual = trained(settings, set, [&](Optimizer& o) { o.update(set.all()); });
      if (n == 1) expected = actual;
      EXPECT_EQ(expected, actual) << settings.name << ", " << n << " threads";
    }
  }
  set_threads(before);
}

// A formula with every operation of elements.
void record_everything(Formula& f) {
  auto [p, g] = f.parameter_and_gradient();
  auto m = f.state("m"), v = f.state("v");
  const auto rate = f.scalar("learning_rate");
  m = 0.9 * m + (1 - 0.9) * g;
  v = max(v, abs(g) / 3.0);
  const auto u = min(sqrt(v) + 1e-8, 2.0 / (1.5 + abs(p)));
  const auto s = sign(m) + sign(g - g) - sign(p);
  p = p - rate * s / u + f.norm(m) * 1e-3 - (0.25 - g) * (1e-3 / f.global_norm(u));
}

TEST(Update, MachineCodeDoesWhatTheInterpreterDoes) {
  const auto run = [](const Update::MakeLoop& make) {
    ParameterSet set = odd_parameters();
    UpdateState state(set);
    Formula f;
    record_everything(f);
    Update update(f, set, state, {}, make);
    update.set("learning_rate", 0.1);
    for (uint64_t step = 0; step < 3; ++step) {
      draw_gradients(set, step);
      // What instructions may treat in their own way.
      const auto g = set.gradient("fc.weight").values<float>();
      g[0] = 0.0f;
      g[1] = -0.0f;
      g[2] = std::numeric_limits<float>::denorm_min();
      g[3] = std::numeric_limits<float>::infinity();
      g[4] = -1e-42f;
      update.run(set.all());
    }
    return bits_of(set.masters(set.all()));
  };
  const auto expected = run(make_interpreted_loop);
  const auto with = [](Instructions instructions) {
    return [=](const Program& program) {
      auto loop = make_generated_loop(program, instructions);
      EXPECT_TRUE(loop) << "the formula needs too many registers";
      return loop;
    };
  };
  if (best_instructions() == Instructions::none) GTEST_SKIP() << "no machine code for this processor";
  EXPECT_EQ(expected, run(with(Instructions::avx2)));
  if (best_instructions() != Instructions::avx512) GTEST_SKIP() << "no AVX-512 here";
  EXPECT_EQ(expected, run(with(Instructions::avx512)));
}

// That formula is larger than any optimizer.
TEST(Update, TakesTheFastestLoop) {
  ParameterSet set = odd_parameters();
  UpdateState state(set);
  Formula f;
  record_everything(f);
  const Instructions best = best_instructions();
  Update(f, set, state, {}, [&](const Program& program) {
    auto loop = make_loop(program);
    EXPECT_EQ(loop->name(), best == Instructions::avx512 ? "avx512"
                            : best == Instructions::avx2 ? "avx2"
                                                         : "interpreted");
    return loop;
  });
}

TEST(Update, ReadsOldValuesAndStoresNewOnes) {
  // Two states change places; the parameter takes the old one of both.
  ParameterSet set = one_parameter({7, 8, 9});
  UpdateState state(set);
  Formula f;
  auto [p, g] = f.parameter_and_gradient();
  auto a = f.state("a", Formula::Start::zero, 2), b = f.state("b", Formula::Start::parameter);
  const Expression old = a;
  a = b;
  b = old;
  p = b;
  Update update(f, set, state, {});
  update.run(set.all());
  EXPECT_EQ(values_of(set), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(state.entries()[0].values.values<float>()[2], 9);
  EXPECT_EQ(state.entries()[1].values.values<float>()[2], 2);
}

TEST(Update, NormsAreOfParametersAndOfAll) {
  ParameterSet set = parameters_of({{"a", {2}}, {"b", {1}}});
  set.gradient("a").values<float>()[0] = 3;
  set.gradient("a").values<float>()[1] = 4;
  set.gradient("b").values<float>()[0] = 12;
  UpdateState state(set);
  Formula f;
  auto [p, g] = f.parameter_and_gradient();
  p = f.norm(g) + 100 * f.global_norm(g) + 10000 * f.norm(f.norm(g) * g) + 0 * p;  // the last needs a pass of its own
  Update update(f, set, state, {});
  update.run(set.all());
  EXPECT_EQ(set.master("a").values<float>()[1], 5 + 1300 + 250000);
  EXPECT_EQ(set.master("b").values<float>()[0], 12 + 1300 + 1440000);
}

// 36 elements: old 1, new 3, so that norms are 6 and 18; what is assigned to the parameter, by hand.
TEST(Update, WhatANormPassStoresIsReadAsItWas) {
  using Rule = Expression (*)(Formula&, const Expression& old, const Expression& now);
  const std::vector<std::pair<Rule, float>> rules{
      {[](Formula& f, const Expression&, const Expression& now) { return f.norm(now) * now; }, 54},
      {[](Formula& f, const Expression& old, const Expression& now) { return f.norm(now) * old; }, 18},
      {[](Formula& f, const Expression& old, const Expression& now) { return f.norm(old) * 10 + f.norm(now) + now; },
       81},
      {[](Formula& f, const Expression&, const Expression& now) { return f.norm(f.norm(now) * now) + now; }, 327},
      {[](Formula& f, const Expression& old, const Expression& now) { return f.norm(f.norm(now) * old) + now; }, 111}};
  for (const auto& [rule, expected] : rules)
    for (const auto& make : {make_interpreted_loop, make_loop}) {
      ParameterSet set = one_parameter(std::vector<float>(36));
      set_gradient(set, std::vector<float>(36, 2));
      UpdateState state(set);
      Formula f;
      auto [p, g] = f.parameter_and_gradient();
      auto m = f.state("m", Formula::Start::zero, 1);
      const Expression old = m;
      m = old + g;
      p = rule(f, old, m);
      Update update(f, set, state, {}, make);
      update.run(set.all());
      EXPECT_EQ(values_of(set), std::vector<float>(36, expected));
      EXPECT_EQ(state.entries()[0].values.values<float>()[35], 3) << expected;
    }
}

TEST(Update, OfAPartANormIsRefused) {
  ParameterSet set = odd_parameters();
  UpdateState state(set);
  Formula f;
  auto [p, g] = f.parameter_and_gradient();
  p -= g / f.norm(g);
  Update update(f, set, state, {});
  EXPECT_NO_THROW(update.run(set.range("fc.weight")));
  try {
    update.run({set.at("fc.weight").offset, 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("100 of the 100233 elements of 'fc.weight'"));
  }
}

TEST(Update, FrozenParametersAndGapsStay) {
  ParameterSet set;
  set.add({.name = "w", .spec = {DType::f32, {3}}});
  set.add({.name = "mean", .spec = {DType::f32, {5}}, .trainable = false});
  set.freeze();
  std::ranges::fill(set.gradients(set.all()).values<float>(), 1.0f);
  const auto optimizer = make_optimizer({"sgd", {{"learning_rate", 1.0}}}, set);
  optimizer->new_input({});
  optimizer->update(set.all());
  const auto all = set.masters(set.all()).values<float>();
  for (Index i = 0; i < set.elements(); ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i < 3 ? -1.0f : 0.0f) << i;
}

// In 16 bits the f32 master moves as the same gradients in f32 would move it, and the other region is its rounded copy.
TEST(Update, SixteenBitsHaveAnF32Master) {
  for (const auto& [type, rule] :
       {std::pair{DType::bf16, "adam"}, {DType::f16, "adam"}, {DType::bf16, "lamb"}, {DType::f16, "lars"}}) {
    ParameterSet narrow = odd_parameters(type), wide = odd_parameters();
    const auto a = make_optimizer({rule, {}}, narrow), b = make_optimizer({rule, {}}, wide);
    for (Index step = 1; step <= 3; ++step) {
      draw_gradients(narrow, static_cast<uint64_t>(step));
      for (const ParameterSet::Parameter& p : narrow.parameters())
        wide.gradient(p.name).copy_from(narrow.gradient(p.name).cast(DType::f32));
      for (Optimizer* o : {a.get(), b.get()}) o->new_input({.step = step});
      a->update(narrow.all());
      b->update(wide.all());
    }
    for (const ParameterSet::Parameter& p : narrow.parameters()) {
      EXPECT_EQ(bits_of(narrow.master(p.name)), bits_of(wide.master(p.name))) << name(type) << " " << p.name;
      const Tensor expected = narrow.master(p.name).cast(type);
      EXPECT_EQ(std::memcmp(expected.data(), narrow.compute(p.name).data(), expected.bytes()), 0) << p.name;
    }
  }
}

#if defined(__SSE2__)
TEST(Update, DenormalsAreTreatedAsTheCallerDoes) {
  const int before = threads();
  set_threads(3);
  const auto left = [] {
    ParameterSet set = parameters_of({{"w", {100000}}});
    std::ranges::fill(set.gradients(set.all()).values<float>(), 1e-40f);
    const auto optimizer = make_optimizer({"sgd", {{"learning_rate", 1.0}}}, set);
    optimizer->new_input({});
    optimizer->update(set.all());
    return std::ranges::count(set.master("w").values<float>(), 0.0f);
  };
  const unsigned mode = _mm_getcsr();
  EXPECT_EQ(left(), 0);
  _mm_setcsr(mode | 0x8040);
  EXPECT_EQ(left(), 100000);
  _mm_setcsr(mode);
  EXPECT_EQ(left(), 0);
  set_threads(before);
}
#endif

TEST(Formula, WhatIsTheSameForAllElementsIsComputedOnce) {
  // Adam over elements: no power, no division but one, one square root.
  Formula f;
  auto [p, g] = f.parameter_and_gradient();
  auto m = f.state("m");
  const auto t = f.scalar("step");
  p -= f.scalar("learning_rate") * (m / (1 - pow(0.9, t))) / (sqrt(g / (1 - pow(0.999, t))) + 1e-8);
  size_t divisions = 0, products = 0;
  for (const Formula::Node& node : f.nodes()) {
    if (node.extent != Formula::Extent::element) continue;
    divisions += node.op == Formula::Op::divide;
    products += node.op == Formula::Op::multiply;
  }
  EXPECT_EQ(divisions, 1u);
  EXPECT_EQ(products, 3u);  // one of them was gathered away again and is not run
}

TEST(Formula, MistakesAreNamed) {
  Formula f, other;
  auto [p, g] = f.parameter_and_gradient();
  const Expression foreign = other.parameter_and_gradient().gradient;
  EXPECT_THROW(static_cast<void>(g + foreign), Error);
  EXPECT_THROW(static_cast<void>(pow(g, 2.0)), Error);
  auto s = f.scalar_state("s");
  EXPECT_THROW(s = g, Error);
}

}  // namespace
}  // namespace d5
