// SPDX-License-Identifier: Apache-2.0
// The fields of a case of level 0, and what they mean to operators and backends.
#pragma once

#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/bench/fields.hpp"

namespace d5 {

const std::vector<CaseField>& common_fields();  // every operator case has them

OperatorCase describe(const Json& fields);
Pass pass_of(const Json& fields);
CompileOptions compile_options(const Json& fields);

}  // namespace d5
