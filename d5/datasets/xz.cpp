// SPDX-License-Identifier: Apache-2.0
// xz files, unpacked by liblzma.
#include <lzma.h>

#include <algorithm>
#include <array>

#include "d5/datasets/byte_source.hpp"

namespace d5 {
namespace {

constexpr uint64_t most_memory = uint64_t{512} << 20;  // of the dictionary, which the file chooses

class Unpacking : public ByteSource {
 public:
  explicit Unpacking(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {
    if (lzma_stream_decoder(&stream_, most_memory, LZMA_CONCATENATED) != LZMA_OK)
      throw Error("[xz] liblzma cannot begin");
  }
  ~Unpacking() override { lzma_end(&stream_); }
  Unpacking(const Unpacking&) = delete;
  Unpacking& operator=(const Unpacking&) = delete;

  size_t read(void* to, size_t bytes) override {
    stream_.next_out = static_cast<uint8_t*>(to);
    stream_.avail_out = bytes;
    while (stream_.avail_out > 0 && !ended_) {
      if (stream_.avail_in == 0) refill();
      const lzma_ret status = lzma_code(&stream_, at_ == file_->size() ? LZMA_FINISH : LZMA_RUN);
      if (status == LZMA_STREAM_END) {
        ended_ = true;
      } else if (status == LZMA_MEMLIMIT_ERROR) {
        throw Error("[xz] {}: needs more than {} MiB to unpack", file_->name(), most_memory >> 20);
      } else if (status != LZMA_OK) {
        throw SampleError("[xz] {}: broken or cut short before byte {} (liblzma's status {})", file_->name(), at_,
                          static_cast<int>(status));
      }
    }
    return bytes - stream_.avail_out;
  }

 private:
  void refill() {
    const uint64_t piece = std::min<uint64_t>(packed_.size(), file_->size() - at_);
    file_->copy(at_, piece, packed_.data());
    at_ += piece;
    stream_.next_in = packed_.data();
    stream_.avail_in = piece;
  }
  std::shared_ptr<const FileBytes> file_;
  uint64_t at_ = 0;
  bool ended_ = false;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::array<uint8_t, 65536> packed_;
};

struct Xz {
  static std::string magic() {
    return std::string(
        "\xfd"
        "7zXZ\0",
        6);
  }
  static constexpr double most_growth = 16384;  // seen with runs of zeros: 7000
  static std::unique_ptr<ByteSource> open(std::shared_ptr<const FileBytes> file) {
    return std::make_unique<Unpacking>(std::move(file));
  }
};

}  // namespace

D5_REGISTER(compressions, "xz", Xz);

}  // namespace d5
