// SPDX-License-Identifier: Apache-2.0
// For tests of this room: samples made by hand, a folder that goes away, the real files where they are.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "d5/datasets/container.hpp"

namespace d5 {

class InMemory : public Dataset {
 public:
  InMemory(std::vector<Field> fields, std::vector<Sample> samples)
      : fields_(std::move(fields)), samples_(std::move(samples)) {}
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return static_cast<Index>(samples_.size()); }
  void read(Index i, Sample& into) const override {
    for (size_t f = 0; f < fields_.size(); ++f) {
      const Tensor& from = samples_.at(static_cast<size_t>(i))[f];
      if (into[f].present())
        into[f].copy_from(from);
      else
        into[f] = from;
    }
  }
  std::string where(Index i) const override { return "sample " + std::to_string(i); }

 private:
  std::vector<Field> fields_;
  std::vector<Sample> samples_;
};

inline InMemory pictures(Index count, const Shape& shape, Index classes) {
  std::vector<Sample> samples;
  for (Index i = 0; i < count; ++i) {
    const Tensor image(DType::u8, shape);
    for (Index k = 0; k < image.elements(); ++k)
      image.values<uint8_t>()[static_cast<size_t>(k)] = static_cast<uint8_t>(k * 7 + i * 31 + k * k % 11);
    samples.push_back({image, Tensor::from<int64_t>({}, {i * 5 % classes})});
  }
  return {{{"image", DType::u8, shape, {}}, {"label", DType::i64, Shape{}, classes}}, std::move(samples)};
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "d5-data-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string test_file(const std::string& name) {
  return std::string(D5_SOURCE_DIR) + "/tests/unit/datasets/files/" + name;
}

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// The folder of real files, or empty; a test that needs one skips itself.
inline std::string real_data() {
  const char* folder = std::getenv("D5_DATA");
  return folder ? folder : "";
}
#define D5_NEEDS_REAL(path)                                                        \
  if (real_data().empty() || !std::filesystem::exists(real_data() + "/" + (path))) \
  GTEST_SKIP() << "D5_DATA names no folder with " << (path) << "; the real file is not tested"

inline void expect_same(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  ASSERT_EQ(a.elements(), b.elements()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << what;
}

// Every sample twice: as it comes, and into tensors that are there.
inline void expect_same_samples(const Dataset& found, const Dataset& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  ASSERT_EQ(found.fields().size(), wanted.fields().size());
  for (Index i = 0; i < wanted.size(); ++i) {
    const Sample a = found.at(i), b = wanted.at(i);
    Sample rows;
    for (const Tensor& tensor : b) {
      rows.emplace_back(tensor.dtype(), tensor.shape());
      rows.back().fill_bytes(0xee);
    }
    found.read(i, rows);
    for (size_t f = 0; f < b.size(); ++f) {
      expect_same(a[f], b[f], found.where(i) + ", field " + std::to_string(f));
      expect_same(rows[f], b[f], found.where(i) + ", field " + std::to_string(f) + " into a row");
    }
  }
}

template <class T>
int64_t sum_of(const Tensor& tensor) {
  int64_t sum = 0;
  for (const T value : tensor.values<T>()) sum += value;
  return sum;
}

}  // namespace d5
