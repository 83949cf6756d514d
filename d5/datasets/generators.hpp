// SPDX-License-Identifier: Apache-2.0
// The generated data sets, one file each in generators/: a class with static members
//   about      one line
//   options()  its named values with their defaults
// and a constructor from complete values; then one line: D5_REGISTER(generators, "generated-images", Images);
#pragma once

#include <functional>
#include <memory>

#include "d5/core/registry.hpp"
#include "d5/datasets/generator.hpp"

namespace d5 {

struct generators {
  static constexpr const char* kind = "generated data set";
  struct Entry {
    std::string about;
    std::vector<DataOption> options;
    std::function<std::shared_ptr<const Generator>(const Attributes&)> make;
  };
  template <class T>
  static Entry entry() {
    return {T::about, T::options(), [](const Attributes& values) { return std::make_shared<const T>(values); }};
  }
};
std::shared_ptr<const Generator> generate(const std::string& name, const Attributes& values = {});

// The accuracy of the best classifier of `classes` equally likely signals in white noise that are orthogonal, of equal
// energy, at distance `strength` from zero in units of the noise's deviation:
//   P = integral of phi(z - strength) Phi(z)^(classes - 1) dz        (Proakis, orthogonal signalling)
double orthogonal_signal_accuracy(double strength, Index classes);

}  // namespace d5
