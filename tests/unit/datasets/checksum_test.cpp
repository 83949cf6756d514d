// SPDX-License-Identifier: Apache-2.0
// Sums against the numbers of their standards.
#include "d5/datasets/checksum.hpp"

#include "d5/datasets/crc32c.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

TEST(Checksum, Md5OfRfc1321) {
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Checksum, Sha256OfFips180) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Checksum, Crc32cOfRfc3720) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  for (auto* crc : {crc32c, crc32c_plain}) {
    EXPECT_EQ(crc(std::string(32, '\0').data(), 32), 0x8a9136aau);
    EXPECT_EQ(crc(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
    EXPECT_EQ(crc(rising.data(), 32), 0x46dd794eu);
    EXPECT_EQ(crc(falling.data(), 32), 0x113fdb5cu);
    EXPECT_EQ(crc("123456789", 9), 0xe3069283u);
  }
}

TEST(Checksum, BothWaysToCrcAgreeAtEveryLength) {
  std::string bytes(20000, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (size_t n = 0; n < bytes.size(); n += n < 100 ? 1 : 331)
    EXPECT_EQ(crc32c(bytes.data() + 1, n), crc32c_plain(bytes.data() + 1, n)) << n;
}

TEST(Checksum, OfAFile) {
  const TemporaryFolder folder;
  write_file(folder / "x", "abc");
  EXPECT_EQ(file_checksum(folder / "x", "md5"), "md5:900150983cd24fb0d6963f7d28e17f72");
  EXPECT_THROW(file_checksum(folder / "x", "sha1"), UsageError);
}

}  // namespace
}  // namespace d5
