// SPDX-License-Identifier: Apache-2.0
// The fields of a case: names, defaults and what is legal. Whatever is wrong is a FieldError that names the field.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "d5/bench/session.hpp"

namespace d5 {

class Backend;

struct CaseField {
  std::string name;
  Json otherwise;
  std::vector<std::string> legal = {};  // empty: anything of the default's type
};

std::string printable(const Json& value);  // bytes that are no UTF-8 replaced

void check_names(const std::string& place, const std::vector<std::string>& legal, const Json& fields);
// Values of these fields into `result`, given or default. Threads, backend and device are looked at closely where they
// are among them.
void complete_fields(const std::string& place, const std::vector<CaseField>&, const Json& given, Json& result);

// Opens the backend that the case names; where it is off the case is unsupported, with the reason.
std::optional<Outcome> open_backend_of(const Json& fields, std::unique_ptr<Backend>&);

}  // namespace d5
