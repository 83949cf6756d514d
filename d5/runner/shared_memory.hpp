// SPDX-License-Identifier: Apache-2.0
// Tensors between processes: a file in memory, named by who asks, filled by one side and read by the other. Transport
// only: nobody computes in it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "d5/core/tensor.hpp"

namespace d5 {

class SharedFile {
 public:
  SharedFile();   // a new, empty file; Error where there is no room for one
  ~SharedFile();  // gone, whoever still holds it
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }
  Tensor read(DType, Shape) const;  // row-major from the first byte; Error where the size is another
  // Any number of tensors behind one line of JSON that says where each lies (docs/protocol.md).
  void write(const std::vector<std::pair<std::string, Tensor>>&) const;

 private:
  std::string path_;
  int descriptor_;
};

void write_shared(const std::string& path, const Tensor&);

}  // namespace d5
