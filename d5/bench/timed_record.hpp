// SPDX-License-Identifier: Apache-2.0
// What levels share when the result of a timed case becomes a record.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

// Status, samples, details of the first launch, metrics, and the bound from details.cost and the probes. `unremarkable`
// fields need not be shown in a table.
Record timed_record(const CaseResult&, std::string rerun, std::vector<std::string> unremarkable);

// A value as one word of a command that a shell reads.
std::string shell_word(const Json& value);

// "d5 COMMAND SUBJECT --field value ...": the subject is the value of that field; fields at their defaults are left
// out, except the backend.
std::string rerun_command(const std::string& command, const std::string& subject, const Json& fields,
                          const std::vector<std::string>& defaults);

}  // namespace d5
