// SPDX-License-Identifier: Apache-2.0
// The generated data sets, one file each in generators/. Values are complete or empty: what is missing is the default.
#pragma once

#include <memory>

#include "d5/datasets/generator.hpp"

namespace d5 {

std::shared_ptr<const Generator> generated_images(const Attributes& values = {});
std::shared_ptr<const Generator> generated_volumes(const Attributes& values = {});
std::shared_ptr<const Generator> generated_climate(const Attributes& values = {});
std::shared_ptr<const Generator> generated_text(const Attributes& values = {});

// The accuracy of the best classifier of `classes` equally likely signals in white noise that are orthogonal, of equal
// energy, at distance `strength` from zero in units of the noise's deviation:
//   P = integral of phi(z - strength) Phi(z)^(classes - 1) dz        (Proakis, orthogonal signalling)
double orthogonal_signal_accuracy(double strength, Index classes);

}  // namespace d5
