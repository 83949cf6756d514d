// SPDX-License-Identifier: Apache-2.0
// A data set: samples by number, or a stream of them. Everything else decorates one (views.hpp), and a loader makes
// batches of it (loader.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "d5/core/error.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

// What a field of every sample holds: an image u8[3x32x32], a label i64[], an encoded picture u8 of any length.
struct Field {
  std::string name;
  DType dtype = DType::f32;
  std::optional<Shape> shape;    // empty: differs from sample to sample
  std::optional<Index> classes;  // a label: its values are 0 .. classes - 1
};

using Sample = std::vector<Tensor>;  // a tensor per field, in their order

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const std::vector<Field>& fields() const = 0;
  virtual Index size() const = 0;
  // Sample i, from any thread. A tensor that is present in `into` (a row of a batch, of the field's shape) is written;
  // for an absent one a tensor is put there, which may be a view of a mapped file. Throws SampleError.
  virtual void read(Index i, Sample& into) const = 0;
  // This thread reads sample i soon: the time to ask for its bytes. Any i; nothing happens that could be seen.
  virtual void expect(Index) const {}
  // Where sample i lies, for messages: "t10k-images.idx, image 7", "train.tar, n01440764/1.jpg".
  virtual std::string where(Index i) const = 0;

  // The files that reading a sample reads, each time: none where samples are computed, or lie in memory since the set
  // was opened.
  virtual std::vector<std::string> files() const { return {}; }
  // Compares sums that are stored of more than a sample, which reading samples does not look at. Error that names what
  // is damaged.
  virtual void verify() const {}

  Sample at(Index i) const {
    Sample sample(fields().size());
    read(i, sample);
    return sample;
  }
};

// Samples one after the other, where their number shows only at the end: a pipe, a compressed file, a shard of TFRecord
// without index.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual const std::vector<Field>& fields() const = 0;
  virtual bool next(Sample& into) = 0;    // false: the end; presence as in Dataset::read
  virtual std::string where() const = 0;  // of the sample that next() gave or failed at
};

// A sample that cannot be had: the policy of the loader decides whether that ends the run or is counted.
class SampleError : public Error {
 public:
  using Error::Error;
};

}  // namespace d5
