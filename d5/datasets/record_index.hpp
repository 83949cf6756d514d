// SPDX-License-Identifier: Apache-2.0
// Where the samples of an archive lie: made by one pass over it, then kept in a file beside it (ARCHIVE.d5index) or in
// the user's cache, which is mapped: a million samples are opened without reading them. An archive whose size or time
// of change differs is indexed again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "d5/datasets/file_bytes.hpp"

namespace d5 {

class RecordIndex {
 public:
  struct Range {
    uint64_t offset = 0, size = 0;
  };
  // As a size: no such part; a hostile name; a link that leads to no member, whose offset then says why.
  static constexpr uint64_t missing = ~uint64_t{0}, refused = missing - 1, lost = missing - 2;
  static bool is_there(const Range& range) { return range.size < lost; }

  // What a pass over the archive finds.
  struct Contents {
    std::vector<std::string> fields;
    std::vector<Range> ranges;       // sample after sample, a range per field
    std::vector<int64_t> labels;     // one per sample, or none at all
    std::vector<std::string> names;  // one per sample, or none at all
    Index samples = 0;
  };
  static std::shared_ptr<const RecordIndex> of(const std::string& archive, bool keep,
                                               const std::function<Contents()>& pass);

  Index size() const { return static_cast<Index>(samples_); }
  const std::vector<std::string>& fields() const { return fields_; }
  bool has_labels() const { return labels_ != 0; }
  Range range(Index i, size_t field) const;
  int64_t label(Index i) const;
  int64_t largest_label() const { return largest_label_; }
  std::string name(Index i) const;
  std::vector<std::string> files() const { return bytes_->files(); }

 private:
  explicit RecordIndex(std::shared_ptr<const FileBytes>);  // Error where it is no whole index
  uint64_t number(uint64_t at) const;
  std::shared_ptr<const FileBytes> bytes_;
  std::vector<std::string> fields_;
  uint64_t samples_ = 0, ranges_ = 0, labels_ = 0, starts_ = 0, names_ = 0, names_bytes_ = 0;
  int64_t largest_label_ = -1;
};

// An archive and its index: what reading a sample reads.
std::vector<std::string> files_of(const FileBytes& archive, const RecordIndex&);

}  // namespace d5
