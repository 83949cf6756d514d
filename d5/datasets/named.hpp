// SPDX-License-Identifier: Apache-2.0
// Data sets that have a name. One file each (or one for a family): a class with static members
//   about                  one line: what it is, whose it is, its licence
//   options()              named values with defaults (part=train)
//   files()                what must lie in the data folder, with the checksums that were published; none: generated
//   open(folder, options)  the samples; `folder` is the data folder, where its files are
// then one line: D5_REGISTER(datasets, "mnist", Mnist);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "d5/datasets/container.hpp"

namespace d5 {

struct PublishedFile {
  std::string path;                  // in the data folder: "mnist/train-images-idx3-ubyte.gz"
  std::string checksum;              // "md5:f68b...", "sha256:..."; empty: none is known
  std::string source;                // who says so
  std::string contents;              // checksum of what it unpacks to, for files packed anew; empty: none is known
  std::string url;                   // where it is fetched from; empty: not without an account, see `how`
  std::string how;                   // in words: what to do where it cannot be fetched
  std::vector<std::string> instead;  // what serves as well: the unpacked folder, another compression, shards (PATTERN*)
  std::string part;                  // the value of the option `part` that needs it; empty: needed whatever that is
  std::vector<std::pair<std::string, std::string>> members;  // of an archive: name, checksum
  std::string members_source;
};

struct DatasetEntry {
  std::string about;
  std::vector<DataOption> options;
  std::vector<PublishedFile> files;
  std::function<std::shared_ptr<const Dataset>(const std::string& folder, const Attributes&)> open;
};
struct datasets {
  static constexpr const char* kind = "dataset";
  using Entry = DatasetEntry;
  template <class T>
  static Entry entry() {
    return {T::about, T::options(), T::files(), T::open};
  }
};

// `given` (--data), else D5_DATA, else `sets` in the user's cache.
std::string data_folder(const std::string& given = {});
std::shared_ptr<const Dataset> open_dataset(const std::string& name, const std::string& folder,
                                            const Attributes& options = {});

// UsageError with the legal names where it is neither a set nor a file, a folder or a pattern with *.
void require_set_or_file(const std::string& source);

// Those that the options need.
std::vector<PublishedFile> files_of_part(const DatasetEntry&, const Attributes& options);
// Where the file lies: its own path or one of `instead`, which may be a pattern. Error that names what to fetch and
// where to put it.
std::string find_published(const std::string& folder, const PublishedFile&, std::string_view dataset);
std::string path_of(const std::string& folder, const PublishedFile&);  // the same; empty where it is not there
std::string how_to_get(const std::string& folder, const PublishedFile&, std::string_view dataset);  // that Error's text

}  // namespace d5
