// SPDX-License-Identifier: Apache-2.0
// One error type. A message starts with its place ("[softmax]", "[recipe] quick.toml:3:1") and names the value given
// and the legal ones. Only bench/ and main catch; whoever knows more on the way up adds context.
#pragma once

#include <fmt/core.h>

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace d5 {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}

  // The same error, with the place of a caller in front.
  Error within(std::string_view place) const { return Error(std::string(place) + ": " + what()); }
};

// The user asked for something that does not exist or makes no sense: exit status 2, not 1.
class UsageError : public Error {
  using Error::Error;
};

// A wrong value of a named field of a case: whoever knows where the field was written (a recipe) adds the place.
class FieldError : public UsageError {
 public:
  FieldError(std::string field, const std::string& message) : UsageError(message), field_(std::move(field)) {}
  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

// The legal name nearest to a mistyped one by edit distance, or empty when none is near.
std::string nearest_name(std::string_view wrong, std::span<const std::string> legal);

// "[place] unknown WHAT 'wrong'; did you mean 'x'? Legal: a, b, c" as a UsageError.
[[noreturn]] void fail_unknown(std::string_view place, std::string_view what, std::string_view wrong,
                               std::span<const std::string> legal);

}  // namespace d5
