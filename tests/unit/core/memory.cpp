// SPDX-License-Identifier: Apache-2.0
#include "d5/core/memory.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Memory, HostBytesAreAlignedTo64) {
  EXPECT_TRUE(host_memory().is_host());
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (size_t bytes : {0, 1, 63, 64, 65, 1000, 4097}) {
    buffers.push_back(std::make_unique<Buffer>(host_memory(), bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back()->data()) % 64, 0u) << bytes;
    EXPECT_EQ(buffers.back()->bytes(), bytes);
  }
}

TEST(Memory, TooMuchIsAnErrorWithTheSize) {
  EXPECT_THAT([] { Buffer(host_memory(), size_t{1} << 50); },
              ThrowsMessage<Error>(HasSubstr("[memory] out of memory: 1048576.0 GiB asked for")));
  EXPECT_THAT([] { Buffer(host_memory(), SIZE_MAX); }, ThrowsMessage<Error>(HasSubstr("out of memory")));
}

TEST(Memory, Copies) {
  const std::vector<char> from{'a', 'b', 'c'};
  std::vector<char> back(3);
  const Buffer buffer(host_memory(), 3);
  host_memory().upload(buffer.data(), from.data(), 3);
  host_memory().download(back.data(), buffer.data(), 3);
  EXPECT_EQ(back, from);
}

}  // namespace
}  // namespace d5
