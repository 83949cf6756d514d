// SPDX-License-Identifier: Apache-2.0
// A recipe's condition on a metric (">= 0.8"), judged by the end of the 95 % interval that could break it, not by the
// median: with too few samples for an interval the answer is `unclear`, never `accepted`.
#pragma once

#include <string>

#include "d5/report/record.hpp"

namespace d5 {

struct Judgement {
  enum class Outcome { accepted, refused, unclear };
  Outcome outcome;
  std::string text;  // "share 0.89 (0.88 .. 0.90) >= 0.8: accepted"
};

// `relation` is one of >= <= > <. `metric` is a metric of the record, or "share", the attained part of its bound. An
// error (error_*) is a maximum over all that was checked, not a sample of something: it needs no interval. UsageError
// where the record has no such metric though it passed.
Judgement judge(const Record& record, const std::string& metric, const std::string& relation, double threshold);

std::string to_string(Judgement::Outcome outcome);

}  // namespace d5
