// SPDX-License-Identifier: Apache-2.0
// The closed forms of a window against counting every tap of every output.
#include "d5/operators/window.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace d5 {
namespace {

using Integers = std::vector<int64_t>;

bool is_inside(const Window& w, Index o, Index t) { return w.source(2, o, t) >= 0 && w.source(2, o, t) < w.input[2]; }

template <class F>
void for_each_window(F&& f) {
  for (Index size = 1; size < 7; ++size)
    for (Index kernel = 1; kernel < 6; ++kernel)
      for (Index stride = 1; stride < 5; ++stride)
        for (Index dilation = 1; dilation < 6; ++dilation)
          for (Index pad = 0; pad < 8; ++pad)
            for (const Index end : {0, 5}) {
              const Attributes a{
                  {"strides", Integers{stride}}, {"dilations", Integers{dilation}}, {"pads", Integers{pad, end}}};
              if ((kernel - 1) * dilation + 1 <= size + pad + end)
                f(Window(a, std::vector<Index>{size}, std::vector<Index>{kernel}, "[test]"));
            }
}

TEST(Window, TapsInside) {
  for_each_window([](const Window& w) {
    double pairs = 0;
    for (Index o = 0; o < w.output[2]; ++o) {
      std::vector<std::pair<Index, Index>> wanted, given;
      for (Index t = 0; t < w.kernel[2]; ++t)
        if (is_inside(w, o, t)) wanted.emplace_back(w.source(2, o, t), t);
      w.for_each_tap(o, [&](Index element, Index tap) { given.emplace_back(element, tap); });
      ASSERT_EQ(given, wanted);
      pairs += static_cast<double>(wanted.size());
    }
    ASSERT_EQ(w.pairs(), pairs);
  });
}

TEST(Window, EmptyWindowsAreFound) {
  size_t empty = 0;
  for_each_window([&](const Window& w) {
    bool any_empty = false;
    for (Index o = 0; o < w.output[2]; ++o) {
      bool inside = false;
      for (Index t = 0; t < w.kernel[2]; ++t) inside = inside || is_inside(w, o, t);
      any_empty = any_empty || !inside;
    }
    empty += any_empty;
    if (any_empty)
      ASSERT_THROW(w.check_no_empty_window("[test]"), Error);
    else
      ASSERT_NO_THROW(w.check_no_empty_window("[test]"));
  });
  EXPECT_GT(empty, 100u);
}

// A kernel of 2^31 - 1 taps that lies in the padding but for one of them: counted at once, or refused.
TEST(Window, HugeKernels) {
  constexpr Index most = (Index{1} << 31) - 1;
  const std::vector<Index> size{8}, kernel{most};
  const Window one_side({{"pads", Integers{most - 1, 0}}}, size, kernel, "[test]");
  EXPECT_EQ(one_side.output[2], 8);
  EXPECT_EQ(one_side.pairs(), 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8);
  one_side.check_no_empty_window("[test]");
  try {
    const Window both({{"pads", Integers{most - 1, most - 1}}}, size, kernel, "[test]");
    FAIL() << both.output[2];
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("2147483647 taps at each of 2147483654 places"));
  }
}

}  // namespace
}  // namespace d5
