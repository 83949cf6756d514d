// SPDX-License-Identifier: Apache-2.0
// A training that can go on: named tensors and a text about them in one file.
//
//   offset 0   8 bytes   "d5check1"
//          8   8 bytes   H, the length of the header, little endian
//         16   H bytes   the header, JSON: {"format": "d5-checkpoint/1", "about": {...},
//                        "sections": [{"name", "dtype", "shape", "offset", "bytes", "crc32c"}, ...]}
//       16+H   4 bytes   CRC-32C of the header, little endian
//              sections, each at its offset from the beginning of the file, a multiple of 64; row-major
//
// Written to FILE.part, flushed to the disk, renamed: FILE is the last good one or the new one, never half of either.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "d5/core/parameter_set.hpp"

namespace d5 {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// `about` is a JSON object. Error where it cannot be written (a full disk); what was there stays.
void write_checkpoint(const std::string& file, const std::string& about, const NamedTensors& tensors);

struct Checkpoint {
  std::string about;  // JSON
  NamedTensors tensors;
  const Tensor& at(const std::string& name) const;  // Error where it is not there
};
// Error that says what is wrong with the file: no checkpoint, cut short, damaged in which section.
Checkpoint read_checkpoint(const std::string& file);
std::string read_checkpoint_about(const std::string& file);  // without its tensors

// ---- parameters as everyone knows them: f32, row-major, on the host
// `arena` is a tensor with an f32 for each element of the set: its masters, or an optimizer's state.
Tensor canonical_part(const ParameterSet&, const Tensor& arena, const ParameterSet::Parameter&);
void set_canonical_part(ParameterSet&, const Tensor& arena, const ParameterSet::Parameter&, const Tensor& canonical);
std::vector<std::pair<std::string, Tensor>> canonical_parameters(const ParameterSet&);
void set_parameter(ParameterSet&, const std::string& name, const Tensor& canonical);  // every region; touches
uint64_t weights_hash(const ParameterSet&);                                           // of names and canonical values

}  // namespace d5
