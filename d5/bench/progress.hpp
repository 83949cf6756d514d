// SPDX-License-Identifier: Apache-2.0
// How a session says how far it is, from its own thread. Without a listener (no parent) nothing happens.
#pragma once

#include <functional>
#include <string>

#include "d5/core/error.hpp"

namespace d5 {

// The parent has called the request off.
class Cancelled : public Error {
  using Error::Error;
};

// fraction: 0..1 of the request under way. Throws Cancelled.
void report_progress(const std::string& text, double fraction);

using ProgressListener = std::function<void(const std::string& text, double fraction)>;
void set_progress_listener(ProgressListener);

}  // namespace d5
