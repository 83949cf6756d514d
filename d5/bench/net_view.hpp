// SPDX-License-Identifier: Apache-2.0
// A case of level 1 looked at in another way than by its speed: the fields of `d5 net`, a session of its own, records
// of their own kind. What a view says it finds while it prepares, so there is nothing deeper than a check.
#pragma once

#include <string>
#include <vector>

#include "d5/bench/fields.hpp"

namespace d5 {

class NetView : public Bench {
 public:
  // `kind` of its records; `option` of d5 net that asks for it; fields beside those of level 1.
  NetView(std::string kind, std::string option, std::vector<CaseField> own = {});

  Json complete(const Json& fields) const override;
  void check_case(const Json& fields) const override;
  Record record(const CaseResult&) const override;
  std::string rerun(const Json& fields) const override;
  std::vector<std::string> compared_fields() const override { return {"backend", "device", "environment"}; }
  Depth deepest() const override { return Depth::check; }

 private:
  Json as_net(Json fields) const;  // the same case, to be measured

  std::string kind_, option_;
  std::vector<CaseField> own_;
};

}  // namespace d5
