// SPDX-License-Identifier: Apache-2.0
#include "d5/core/shape.hpp"

#include <gmock/gmock.h>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Shape, ElementsAndStrides) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.elements(1, 3), 12);
  EXPECT_THAT(shape.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({3, 0}).elements(), 0);
  EXPECT_EQ(Shape({3, 0}), Shape({3, 0}));
}

TEST(Shape, ImpossibleOnesAreErrors) {
  const Index big = Index{1} << 31;
  EXPECT_EQ(Shape({big, big}).elements(), Index{1} << 62);
  EXPECT_THAT(
      [&] {
        Shape({big, big, 2});
      },
      ThrowsMessage<Error>(HasSubstr("2147483648x2147483648x2 has more than 2^62")));
  EXPECT_THAT([&] { Shape({big, big, big, big}); }, ThrowsMessage<Error>(HasSubstr("more than 2^62 elements")));
  EXPECT_THROW(Shape({0, big, big, big}), Error);  // its strides would overflow
  EXPECT_THAT([] { Shape({2, -3}); }, ThrowsMessage<Error>(HasSubstr("[shape] negative size -3 in 2x-3")));
}

TEST(Shape, TextGoesBothWays) {
  EXPECT_EQ(to_string(Shape{2, 3, 4}), "2x3x4");
  EXPECT_EQ(to_string(Shape()), "scalar");
  EXPECT_EQ(parse_shape("2x3x4"), (Shape{2, 3, 4}));
  EXPECT_EQ(parse_shape("7"), Shape{7});
  EXPECT_EQ(parse_shape("scalar").rank(), 0u);
  for (const char* wrong : {"", "2x", "x2", "2,3", "2x-3", "-1", "a", "99999999999999999999"})
    EXPECT_THAT([&] { parse_shape(wrong); }, ThrowsMessage<UsageError>(HasSubstr("is not a shape"))) << wrong;
}

TEST(Shape, AxesCountFromBothEnds) {
  EXPECT_EQ(valid_axis(-1, 3, "[softmax]"), 2u);
  EXPECT_EQ(valid_axis(0, 3, "[softmax]"), 0u);
  EXPECT_THAT([] { valid_axis(3, 3, "[softmax]"); },
              ThrowsMessage<Error>("[softmax] axis 3 is out of range; a tensor of rank 3 has axes -3 to 2"));
  EXPECT_THROW(valid_axis(-4, 3, "[softmax]"), Error);
}

// The examples of numpy's page on broadcasting.
TEST(Shape, Broadcasting) {
  EXPECT_EQ(broadcast({256, 256, 3}, {3}, "[add]"), (Shape{256, 256, 3}));
  EXPECT_EQ(broadcast({8, 1, 6, 1}, {7, 1, 5}, "[add]"), (Shape{8, 7, 6, 5}));
  EXPECT_EQ(broadcast({15, 3, 5}, {15, 1, 5}, "[add]"), (Shape{15, 3, 5}));
  EXPECT_EQ(broadcast({1}, {0}, "[add]"), Shape{0});
  EXPECT_THAT(
      [] {
        broadcast({2, 1}, {8, 4, 3}, "[add]");
      },
      ThrowsMessage<Error>(HasSubstr("[add] shapes 2x1 and 8x4x3 do not broadcast: sizes 2 and 4 differ")));
  EXPECT_THAT(broadcast_strides({7, 1, 5}, {8, 7, 6, 5}), ElementsAre(0, 5, 0, 1));
  EXPECT_THAT(broadcast_strides({}, {2, 3}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace d5
