// SPDX-License-Identifier: Apache-2.0
// A user's code whose answer this process needs (the cost of an operator, the value of a metric) is run in a copy of
// this process: where it crashes, never ends or ends the program, the copy does. What it prints is lost.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "d5/core/error.hpp"

namespace d5 {

// "[Mine] infer crashes: SIGSEGV (Segmentation fault)": the copy is gone, or its code threw what is no Error of ours.
class TrialFailed : public Error {
  using Error::Error;
};

// `act` says which call comes next ("infer") and gives its answer as text. An Error that it throws is thrown here.
using Calling = std::function<void(std::string_view call)>;
std::string try_apart(std::string_view place, const std::function<std::string(const Calling&)>& act,
                      double seconds = 10);

}  // namespace d5
