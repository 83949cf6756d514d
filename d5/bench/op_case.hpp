// SPDX-License-Identifier: Apache-2.0
// The fields of a case of level 0, and what they mean to operators and backends.
#pragma once

#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/bench/session.hpp"

namespace d5 {

// The fields every operator case has, with their defaults and what is legal.
struct Field {
  std::string name;
  Json otherwise;
  std::vector<std::string> legal;  // empty: anything of the default's type
};
const std::vector<Field>& common_fields();
void check_field(const Field&, const Json& value);  // FieldError

OperatorCase describe(const Json& fields);
Pass pass_of(const Json& fields);
CompileOptions compile_options(const Json& fields);

}  // namespace d5
