// SPDX-License-Identifier: Apache-2.0
// gzip (RFC 1952) and plain deflate (RFC 1951), unpacked by zlib.
#include <zlib.h>

#include <algorithm>
#include <array>

#include "d5/datasets/byte_source.hpp"

namespace d5 {
namespace {

class Inflating : public ByteSource {
 public:
  // window_bits as zlib has them: 31 gzip, -15 plain deflate
  Inflating(std::shared_ptr<const FileBytes> file, uint64_t offset, uint64_t packed, int window_bits)
      : file_(std::move(file)), at_(offset), end_(offset + packed), several_(window_bits > 15) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) throw Error("[gz] zlib cannot begin");
  }
  ~Inflating() override { inflateEnd(&stream_); }
  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;

  size_t read(void* to, size_t bytes) override {
    size_t done = 0;
    while (done < bytes && !ended_) {
      if (stream_.avail_in == 0) refill();
      const auto piece = static_cast<uInt>(std::min<size_t>(bytes - done, 1u << 30));
      stream_.next_out = static_cast<Bytef*>(to) + done;
      stream_.avail_out = piece;
      const uInt had = stream_.avail_in;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      done += piece - stream_.avail_out;
      if (status == Z_STREAM_END) {
        // Several packed files one after the other are one, as gzip has it.
        ended_ = !several_ || (stream_.avail_in == 0 && at_ == end_) || inflateReset(&stream_) != Z_OK;
      } else if (status == Z_BUF_ERROR && had == 0) {
        throw SampleError("[gz] {}: ends in the middle of its packed bytes", file_->name());
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw SampleError("[gz] {}: broken before byte {}: {}", file_->name(), at_,
                          stream_.msg ? stream_.msg : "no reason given");
      }
    }
    return done;
  }

 private:
  void refill() {
    const uint64_t piece = std::min<uint64_t>(packed_.size(), end_ - at_);
    file_->copy(at_, piece, packed_.data());
    at_ += piece;
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(piece);
  }
  std::shared_ptr<const FileBytes> file_;
  uint64_t at_, end_;
  bool several_, ended_ = false;
  z_stream stream_{};
  std::array<Bytef, 65536> packed_;
};

struct Gz {
  static std::string magic() { return "\x1f\x8b"; }
  static constexpr double most_growth = 1032;  // of deflate: 258 bytes from two bits
  static std::unique_ptr<ByteSource> open(std::shared_ptr<const FileBytes> file) {
    const uint64_t size = file->size();
    return std::make_unique<Inflating>(std::move(file), 0, size, 31);
  }
};

}  // namespace

std::vector<uint8_t> inflate_range(const std::shared_ptr<const FileBytes>& file, uint64_t offset, uint64_t packed,
                                   uint64_t contents) {
  if (!file->holds(offset, packed) ||
      static_cast<double>(contents) > Gz::most_growth * static_cast<double>(packed) + 64)
    throw Error("[zip] {}: {} packed bytes at {} cannot hold {}", file->name(), packed, offset, contents);
  Inflating source(file, offset, packed, -15);
  std::vector<uint8_t> found(contents);
  if (source.read(found.data(), contents) != contents)
    throw Error("[zip] {}: fewer than {} bytes are packed at {}", file->name(), contents, offset);
  uint8_t more = 0;
  if (source.read(&more, 1) != 0)
    throw Error("[zip] {}: more than {} bytes are packed at {}", file->name(), contents, offset);
  return found;
}

D5_REGISTER(compressions, "gz", Gz);

}  // namespace d5
