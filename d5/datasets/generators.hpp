// SPDX-License-Identifier: Apache-2.0
// The generated data sets, one file each in generators/: a class with static members
//   about      one line
//   options()  its named values with their defaults
// and a constructor from complete values; then one line: D5_REGISTER(datasets, "generated-images", Generated<Images>);
#pragma once

#include <memory>

#include "d5/datasets/generator.hpp"
#include "d5/datasets/named.hpp"

namespace d5 {

// The entry of a class that is made from complete values, in the registry of named sets (named.hpp).
template <class T>
struct Generated {
  static constexpr const char* about = T::about;
  static std::vector<DataOption> options() { return T::options(); }
  static std::vector<PublishedFile> files() { return {}; }
  static std::shared_ptr<const Dataset> open(const std::string&, const Attributes& values) {
    return std::make_shared<const T>(values);
  }
};
std::shared_ptr<const Generator> generate(const std::string& name, const Attributes& values = {});

// The accuracy of the best classifier of `classes` equally likely signals in white noise that are orthogonal, of equal
// energy, at distance `strength` from zero in units of the noise's deviation:
//   P = integral of phi(z - strength) Phi(z)^(classes - 1) dz        (Proakis, orthogonal signalling)
double orthogonal_signal_accuracy(double strength, Index classes);

}  // namespace d5
