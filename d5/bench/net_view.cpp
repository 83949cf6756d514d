// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_view.hpp"

#include "d5/bench/timed_record.hpp"

namespace d5 {

NetView::NetView(std::string kind, std::string option, std::vector<CaseField> own)
    : kind_(std::move(kind)), option_(std::move(option)), own_(std::move(own)) {}

Json NetView::as_net(Json fields) const {
  fields["kind"] = "net";
  for (const CaseField& field : own_) fields.erase(field.name);
  return fields;
}

Json NetView::complete(const Json& fields) const {
  const Json net = as_net(fields);
  Json result = bench_of(net).complete(net);
  result["kind"] = kind_;
  complete_fields("[net]", own_, fields, result);
  return result;
}

void NetView::check_case(const Json& fields) const {
  const Json net = as_net(fields);
  bench_of(net).check_case(net);
}

std::string NetView::rerun(const Json& fields) const {
  const Json net = as_net(fields);
  std::string text = bench_of(net).rerun(net) + " " + option_;
  for (const CaseField& field : own_)
    if (fields.at(field.name) != field.otherwise)
      text += fmt::format(" --{} {}", field.name, fields[field.name].dump());
  return text;
}

Record NetView::record(const CaseResult& result) const {
  const Json otherwise = complete({{"network", result.fields.at("network")}});
  std::vector<std::string> unremarkable;
  for (const auto& [name, value] : result.fields.items())
    if (name != "backend" && name != "batch" && otherwise.contains(name) && otherwise[name] == value)
      unremarkable.push_back(name);
  return timed_record(result, rerun(result.fields), std::move(unremarkable));
}

}  // namespace d5
