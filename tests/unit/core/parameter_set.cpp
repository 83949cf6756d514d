// SPDX-License-Identifier: Apache-2.0
#include "d5/core/parameter_set.hpp"

#include <gmock/gmock.h>

namespace d5 {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

ParameterSet::Parameter parameter(std::string name, Shape shape, DType type = DType::f32, Index padded = 0) {
  return {.name = std::move(name), .spec = {.dtype = type, .shape = std::move(shape)}, .padded_elements = padded};
}

TEST(ParameterSet, OffsetsAreLinesOf64BytesInEveryRegion) {
  ParameterSet f32, bf16(DType::bf16);
  for (ParameterSet* set : {&f32, &bf16}) {
    const DType type = set->compute_dtype();
    set->add(parameter("bias", {10}, type));
    set->add(parameter("weight", {3, 5}, type, 40));
    set->add(parameter("scale", {1}));
    set->freeze();
    for (const auto& p : set->parameters())
      for (const Tensor& t : {set->master(p.name), set->compute(p.name), set->gradient(p.name)}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u) << p.name;
        EXPECT_EQ(t.shape(), Shape{p.padded_elements});
      }
  }
  EXPECT_EQ(f32.at("weight").offset, 16);
  EXPECT_EQ(f32.at("scale").offset, 64);
  EXPECT_EQ(f32.elements(), 80);
  EXPECT_EQ(bf16.at("weight").offset, 32);
  EXPECT_EQ(bf16.at("scale").offset, 96);
  EXPECT_EQ(bf16.elements(), 128);
}

TEST(ParameterSet, RegionsStartAsZeroAndAreContiguous) {
  ParameterSet set;
  set.add(parameter("a", {16}));
  set.add(parameter("b", {16}));
  set.freeze();
  EXPECT_THAT(set.masters(set.all()).values<float>(), Each(0.0f));
  EXPECT_THAT(set.gradients(set.all()).values<float>(), Each(0.0f));
  set.gradient("b").values<float>()[0] = 3;
  EXPECT_EQ(set.gradients(set.all()).values<float>()[16], 3);
  EXPECT_EQ(set.gradients(set.range("b")).data(), set.gradient("b").data());
  EXPECT_NE(set.gradient("b").data(), set.master("b").data());
  EXPECT_THROW(set.masters({0, 33}), Error);
}

TEST(ParameterSet, ComputeIsTheMasterInF32) {
  ParameterSet set;
  set.add(parameter("a", {4}));
  set.freeze();
  EXPECT_EQ(set.compute("a").data(), set.master("a").data());
  EXPECT_EQ(set.computes(set.all()).data(), set.masters(set.all()).data());
}

TEST(ParameterSet, ANarrowComputeTypeHasItsOwnRegion) {
  ParameterSet set(DType::bf16);
  set.add(parameter("weight", {4}, DType::bf16));
  set.add(parameter("scale", {4}, DType::f32));
  set.freeze();
  EXPECT_EQ(set.master("weight").dtype(), DType::f32);
  EXPECT_EQ(set.compute("weight").dtype(), DType::bf16);
  EXPECT_EQ(set.gradient("weight").dtype(), DType::bf16);
  EXPECT_EQ(set.compute("scale").data(), set.master("scale").data());
  EXPECT_EQ(set.compute("scale").dtype(), DType::f32);
}

TEST(ParameterSet, WrongUseIsAnError) {
  EXPECT_THAT([] { ParameterSet{DType::i8}; },
              ThrowsMessage<Error>("[parameters] a set cannot compute in i8. Legal: f32, f16, bf16"));
  ParameterSet set(DType::bf16);
  set.add(parameter("conv1.weight", {4}));
  EXPECT_THAT([&] { set.add(parameter("conv1.weight", {4})); },
              ThrowsMessage<Error>(HasSubstr("'conv1.weight' is added twice")));
  EXPECT_THAT([&] { set.add(parameter("x", {4}, DType::f16)); },
              ThrowsMessage<Error>("[parameters] 'x' is f16. Legal: f32 or the set's bf16"));
  EXPECT_THROW(set.add(parameter("x", {4}, DType::f32, 3)), Error);
  EXPECT_THROW(set.add(parameter("x", {Index{1} << 60})), Error);
  EXPECT_THROW(set.master("conv1.weight"), Error);
  EXPECT_EQ(set.parameters().size(), 1u);
  set.freeze();
  EXPECT_THROW(set.freeze(), Error);
  EXPECT_THROW(set.add(parameter("y", {4})), Error);
  EXPECT_THAT([&] { set.master("conv1.wieght"); }, ThrowsMessage<Error>(HasSubstr("did you mean 'conv1.weight'?")));
  EXPECT_FALSE(set.has("y"));
}

TEST(ParameterSet, TheHashSeesWhatRanksMustAgreeOn) {
  const auto hash = [](ParameterSet::Parameter p, DType compute = DType::f32) {
    ParameterSet set(compute);
    set.add(std::move(p));
    return set.layout_hash();
  };
  const uint64_t base = hash(parameter("a", {2, 3}));
  EXPECT_EQ(base, hash(parameter("a", {2, 3})));
  auto blocked = parameter("a", {2, 3});
  blocked.layout = "OI16o";
  auto frozen = parameter("a", {2, 3});
  frozen.trainable = false;
  for (const uint64_t other : {hash(parameter("b", {2, 3})), hash(parameter("a", {3, 2})), hash(blocked), hash(frozen),
                               hash(parameter("a", {2, 3}, DType::f32, 8)), hash(parameter("a", {2, 3}), DType::bf16),
                               hash(parameter("a", {2, 3}, DType::bf16), DType::bf16)})
    EXPECT_NE(other, base);
}

TEST(ParameterSet, AnEmptySetIsLegal) {
  ParameterSet set;
  set.freeze();
  EXPECT_EQ(set.masters(set.all()).elements(), 0);
}

}  // namespace
}  // namespace d5
