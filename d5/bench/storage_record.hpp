// SPDX-License-Identifier: Apache-2.0
// What the storage behind folders gives, as records: a case is a folder, a load on it, and hot or cold. Nothing of d5's
// loader takes part: these rates are what other numbers are held against.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

struct StoragePlan {
  std::vector<std::string> folders;
  std::vector<std::string> loads;   // of storage_loads()
  std::vector<std::string> caches;  // hot, cold: of the loads that read the large file
  int64_t mebibytes = 256;          // of the large file, and of the checkpoint
  int64_t block = 4096;             // bytes of a random read and of a small file
  int files = 1000, threads = 1;
  std::string stage;  // a file or folder: what staging copies
  int launches = 6;   // passes over all cases, each with files of its own
};

const std::vector<std::string>& storage_loads();  // in the order in which they are measured
void check(const StoragePlan&);                   // UsageError where it is none

// Called before each measurement; where it says no, it is left out.
using GoOn = std::function<bool(const Record& of, int launch)>;

// One record a case, load by load. A folder that cannot be measured is a record with its reason.
std::vector<Record> storage_records(const StoragePlan&, const GoOn& go_on);

}  // namespace d5
