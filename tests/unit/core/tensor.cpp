// SPDX-License-Identifier: Apache-2.0
#include "d5/core/tensor.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A device whose bytes happen to be ours: what must go through upload and download shows in the counts.
class FakeDevice final : public Memory {
 public:
  std::string device() const override { return "fake:0"; }
  void* allocate(size_t bytes) override { return host_memory().allocate(bytes); }
  void release(void* pointer, size_t bytes) noexcept override { host_memory().release(pointer, bytes); }
  void upload(void* to, const void* from, size_t bytes) override { ++uploads, std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { ++downloads, std::memcpy(to, from, bytes); }
  int uploads = 0, downloads = 0;
};

TEST(Tensor, OwnsAlignedBytes) {
  for (Index n : {0, 1, 3, 100}) {
    const Tensor t(DType::bf16, {n});
    EXPECT_EQ(t.bytes(), static_cast<size_t>(2 * n));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
  }
  EXPECT_EQ(Tensor(DType::u4, {3, 3}).bytes(), 5u);
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  const auto t = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  const Tensor same = t, other = t.clone();
  same.values<float>()[0] = 9;
  EXPECT_EQ(t.values<float>()[0], 9);
  EXPECT_EQ(other.values<float>()[0], 1);
}

TEST(Tensor, SlicesAndShapesShareBytes) {
  const auto t = Tensor::from<int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  const Tensor rows = t.slice(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(rows.values<int32_t>(), ElementsAre(2, 3, 4, 5));
  rows.reshaped({4}).values<int32_t>()[3] = 50;
  EXPECT_EQ(t.values<int32_t>()[5], 50);
  EXPECT_EQ(t.slice(3, 0).elements(), 0);
  EXPECT_THROW(t.slice(2, 2), Error);
  EXPECT_THROW(t.slice(-1, 1), Error);
  EXPECT_THROW(t.slice(1, INT64_MAX), Error);
  EXPECT_THROW(Tensor::scalar(1).slice(0, 1), Error);
  EXPECT_THAT([&] { t.reshaped({4}); }, ThrowsMessage<Error>("[tensor] 3x2 cannot be reshaped to 4: 6 and 4 elements"));
  EXPECT_THAT(
      [&] {
        Tensor(DType::i4, {2, 3}).slice(1, 1);
      },
      ThrowsMessage<Error>(HasSubstr("no whole number of bytes")));
}

TEST(Tensor, SlicesOutliveTheirTensor) {
  Tensor rows;
  {
    const auto t = Tensor::from<float>({2}, {5, 6});
    rows = t.slice(1, 1);
  }
  EXPECT_EQ(rows.values<float>()[0], 6);
}

TEST(Tensor, ViewsLookAtTheCallersBytes) {
  std::vector<double> values{1, 2, 3};
  const Tensor t = Tensor::view(DType::f64, {3}, values.data());
  t.values<double>()[1] = 7;
  EXPECT_EQ(values[1], 7);
  EXPECT_THAT(t.values<const double>(), ElementsAre(1, 7, 3));
}

TEST(Tensor, Strings) {
  const auto t = Tensor::from<std::string>({3}, {"a", "", "a string too long for the small buffer of std::string"});
  const Tensor copy = t.clone();
  t.values<std::string>()[0] = "changed";
  EXPECT_EQ(copy.values<std::string>()[0], "a");
  EXPECT_THAT(copy.slice(2, 1).values<std::string>()[0], HasSubstr("small buffer of std::string"));
  EXPECT_THAT([&] { t.cast(DType::f32); }, ThrowsMessage<Error>(HasSubstr("string to f32")));
  EXPECT_THROW(Tensor::scalar(1).cast(DType::string), Error);
  EXPECT_THROW(t.fill_bytes(0), Error);
  FakeDevice device;
  EXPECT_THAT([&] { t.to(device); }, ThrowsMessage<Error>(HasSubstr("not on fake:0")));
}

TEST(Tensor, WrongTypesAndSizesAreErrors) {
  const Tensor t(DType::f32, {2});
  EXPECT_THAT([&] { t.values<double>(); }, ThrowsMessage<Error>("[tensor] holds f32, asked for as f64"));
  EXPECT_THROW(Tensor::from<float>({3}, {1, 2}), Error);
  EXPECT_THAT([&] { t.copy_from(Tensor(DType::f32, {3})); },
              ThrowsMessage<Error>("[tensor] cannot copy f32[3] into f32[2]"));
}

TEST(Tensor, OutOfMemorySaysHowMuch) {
  EXPECT_THAT(
      [] {
        Tensor(DType::f32, {Index{1} << 25, Index{1} << 25});
      },
      ThrowsMessage<Error>(HasSubstr("out of memory: 4194304.0 GiB asked for")));
  EXPECT_THAT(
      [] {
        Tensor(DType::f32, {Index{1} << 30, Index{1} << 30});
      },
      ThrowsMessage<Error>(HasSubstr("out of memory: f32[1073741824x1073741824]")));
}

TEST(Tensor, AbsentOnesHoldNothing) {
  const Tensor absent;
  EXPECT_FALSE(absent.present());
  EXPECT_FALSE(absent.clone().present() || absent.cast(DType::f64).present() || absent.to(host_memory()).present());
  EXPECT_THROW(absent.values<float>(), Error);
  EXPECT_THROW(absent.fill_bytes(0), Error);
  EXPECT_THROW(Tensor(DType::f32, {}).copy_from(absent), Error);
}

TEST(Tensor, PoisonIsNaN) {
  const Tensor t(DType::f32, {4}), h(DType::bf16, {4});
  t.fill_bytes(0xff);
  h.fill_bytes(0xff);
  for (const float v : t.values<float>()) EXPECT_TRUE(std::isnan(v));
  for (const float v : h.values<BFloat16>()) EXPECT_TRUE(std::isnan(v));
}

TEST(Tensor, DevicesAreReachedByCopies) {
  FakeDevice device;
  const auto host = Tensor::from<float>({2}, {1.5, 2.5});
  const Tensor there = host.to(device);
  EXPECT_EQ(device.uploads, 1);
  EXPECT_THAT([&] { there.values<float>(); }, ThrowsMessage<Error>(HasSubstr("lies on fake:0")));
  EXPECT_THAT(there.to(host_memory()).values<float>(), ElementsAre(1.5, 2.5));
  EXPECT_THAT(there.cast(DType::f64).values<double>(), ElementsAre(1.5, 2.5));
  EXPECT_EQ(device.downloads, 2);
  FakeDevice second;
  const Tensor moved = there.to(second);
  EXPECT_EQ(second.uploads, 1);
  moved.fill_bytes(0);
  EXPECT_THAT(moved.to(host_memory()).values<float>(), ElementsAre(0, 0));
  EXPECT_EQ(host.to(host_memory()).data(), host.data());
}

TEST(Tensor, Specs) {
  EXPECT_EQ(to_string(TensorSpec{DType::bf16, {2, 3}}), "bf16[2x3]");
  EXPECT_EQ(to_string(TensorSpec::absent()), "absent");
  EXPECT_EQ((TensorSpec{DType::i4, {3}}).bytes(), 2.0);
  EXPECT_EQ(Tensor::scalar(2.5, DType::f16).values<Half>()[0], 2.5f);
}

}  // namespace
}  // namespace d5
