// SPDX-License-Identifier: Apache-2.0
// A folder that is there as long as the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "d5/core/error.hpp"

namespace d5 {

class OwnFolder {
 public:
  OwnFolder(const std::string& inside, const std::string& name) : path_(inside + "/" + name + "-XXXXXX") {
    if (!::mkdtemp(path_.data())) throw Error("[{}] no folder can be made in {}", name, inside);
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace d5
