// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/session.hpp"

#include <array>

namespace d5 {
namespace {

constexpr std::array<std::string_view, 4> depth_names{"list", "build", "check", "measure"};

}  // namespace

Depth parse_depth(std::string_view text) {
  for (size_t i = 0; i < depth_names.size(); ++i)
    if (depth_names[i] == text) return static_cast<Depth>(i);
  fail_unknown("[session]", "mode", text, std::vector<std::string>(depth_names.begin(), depth_names.end()));
}

std::string_view name(Depth depth) { return depth_names[static_cast<size_t>(depth)]; }

Tensor Session::fetch(const std::string& tensor) {
  throw Error("[session] there is no tensor '{}' to fetch from this case", tensor);
}

const Bench& bench_of(const Json& fields) {
  const auto kind = fields.find("kind");
  if (kind == fields.end() || !kind->is_string())
    throw UsageError("[session] the case {} has no kind; legal: a registered bench", fields.dump());
  return *registered<benches>(kind->get<std::string>()).bench;
}

}  // namespace d5
