// SPDX-License-Identifier: Apache-2.0
// A case of `d5 data bench`: which data set, in which container, how it is read, and by how many threads.
#pragma once

#include "d5/bench/fields.hpp"
#include "d5/datasets/loader.hpp"

namespace d5 {

const std::vector<CaseField>& data_fields();

// What the fields name, opened.
struct DataSource {
  std::shared_ptr<const Dataset> data;
  std::vector<std::string> files;  // that are read for samples: none where these are computed, or in memory
  std::vector<std::string> named;  // that the fields name; may be others: an archive that was unpacked
  Index in_files = 0;              // samples that the files hold, of which the case may take only some
  Json stored;                     // path, bytes, seconds and rate of the writing, where the case has a store
};
// UsageError where a store cannot hold the samples.
DataSource open_data_source(const Json& fields);

// "crop padding=4 + flip + normalise mean=0.5/0.4/0.4": steps separated by plus signs, lists of numbers by slashes.
std::vector<AugmentationStep> parse_augmentations(const std::string& text);

}  // namespace d5
