// SPDX-License-Identifier: Apache-2.0
// The contents of a file: mapped, or in memory where they had to be unpacked first. Any thread may read.
//
// A mapped file may be cut short, or its disk may fail, while it is read. What cannot be read then reads as zeros, by
// whoever (a decoder, a sum, a view in a user's hands), and the file keeps in mind from where on it is not there: who
// reads in place asks require_there() afterwards. Zeros that the kernel itself gives, up to the end of the last page
// of a file that was cut, are not noticed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "d5/datasets/dataset.hpp"

namespace d5 {

// Asks for bytes in memory that are copied soon. Copies of scattered samples wait for memory most of the time; asked
// for one or two samples ahead, into the second cache, they take half as long. Processors go on alone after the first
// pages.
inline void expect_bytes(const void* from, uint64_t bytes) {
  constexpr uint64_t line = 64, most = 16 << 10;
  for (uint64_t at = 0; at < std::min(bytes, most); at += line)
    __builtin_prefetch(static_cast<const char*>(from) + at, 0, 1);
}

class FileBytes : public std::enable_shared_from_this<FileBytes> {
 public:
  static std::shared_ptr<const FileBytes> map(
      const std::string& path);  // Error with the reason where it cannot be read
  static std::shared_ptr<const FileBytes> of(std::string name, std::vector<uint8_t> contents);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& name() const { return name_; }  // for messages
  uint64_t size() const { return size_; }

  // Copies a range. SampleError where it does not lie in the file, or where the file was cut short meanwhile.
  void copy(uint64_t offset, uint64_t bytes, void* to) const;
  std::vector<uint8_t> range(uint64_t offset, uint64_t bytes) const;
  void touch(uint64_t offset, uint64_t bytes) const;  // the same errors, nothing is copied
  // After bytes were read in place: the same errors, without looking at them again.
  void require_there(uint64_t offset, uint64_t bytes) const;
  // Plain access, for what may be scanned in place and for views; nobody may write.
  const uint8_t* data() const { return data_; }
  // The file that is read whenever bytes are; none where they lie in memory.
  std::vector<std::string> files() const { return mapping_ ? std::vector{name_} : std::vector<std::string>(); }
  bool holds(uint64_t offset, uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

  // Field `field` of a sample: copied into the tensor that is there, else a view of these bytes. Only where the stored
  // bytes are the elements as they are in memory; an address that is not aligned to its element gives a copy.
  void give(Sample& into, size_t field, DType, const Shape&, uint64_t offset) const;
  void expect(uint64_t offset, uint64_t bytes) const {
    if (holds(offset, bytes)) expect_bytes(data_ + offset, bytes);
  }

 private:
  struct Mapping;
  friend void require_there(const void*, uint64_t);
  FileBytes() = default;
  void check_range(uint64_t offset, uint64_t bytes) const;
  std::string name_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  Mapping* mapping_ = nullptr;
  std::vector<uint8_t> owned_;
};

// The same of bytes wherever they lie, of a view for example: SampleError where they are those of a mapped file that
// was cut short.
void require_there(const void* from, uint64_t bytes);

// The tensor of a field to write to: the one that is there, whose type and number of elements must be right, or a new
// one.
Tensor& target(Sample& into, size_t field, DType, const Shape&);
void give_copy(Sample& into, size_t field, DType, const Shape&, const void* data);
// How many classes there are where this is the largest label found; absurd labels do not overflow.
Index classes_up_to(int64_t largest_label);
// The label of sample i. SampleError where `classes` is known and the label is not below it.
void give_label(Sample& into, size_t field, int64_t label, const Dataset&, Index i);

}  // namespace d5
