// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/fields.hpp"

#include <algorithm>

#include "d5/backends/backend.hpp"

namespace d5 {
namespace {

template <class Check>
void as_field(const std::string& name, const Check& check) {
  try {
    check();
  } catch (const UsageError& error) {
    throw FieldError(name, error.what());
  }
}

void check_value(const std::string& place, const CaseField& field, const Json& value) {
  if (value.type() != field.otherwise.type() && !(value.is_number_integer() && field.otherwise.is_number_integer()))
    throw FieldError(field.name, fmt::format("{} {} is {}; a value like {} is wanted", place, field.name,
                                             printable(value), field.otherwise.dump()));
  if (!field.legal.empty() && std::ranges::find(field.legal, value.get<std::string>()) == field.legal.end())
    as_field(field.name, [&] { fail_unknown(place, field.name, value.get<std::string>(), field.legal); });
}

// Records and children are told of a case in JSON, which has no other bytes.
void refuse_bytes(const std::string& place, const Json& given) {
  for (const auto& [name, value] : given.items()) try {
      value.dump();
    } catch (const Json::type_error&) {
      throw FieldError(name, fmt::format("{} {} is {}, which is no UTF-8", place, name, printable(value)));
    }
}

void check_backend(const std::string& place, const std::string& backend) {
  std::vector<std::string> names;
  for (const BackendStatus& status : backend_statuses()) names.push_back(status.name);
  if (std::ranges::find(names, backend) == names.end())
    as_field("backend", [&] { fail_unknown(place, "backend", backend, names); });
}

}  // namespace

std::string printable(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void check_names(const std::string& place, const std::vector<std::string>& legal, const Json& fields) {
  for (const auto& [name, value] : fields.items())
    if (std::ranges::find(legal, name) == legal.end())
      as_field(name, [&, &unknown = name] { fail_unknown(place, "field", unknown, legal); });
}

void complete_fields(const std::string& place, const std::vector<CaseField>& fields, const Json& given, Json& result) {
  refuse_bytes(place, given);
  for (const CaseField& field : fields) {
    result[field.name] = given.value(field.name, field.otherwise);
    check_value(place, field, result[field.name]);
  }
  if (result.contains("backend")) check_backend(place, result["backend"].get<std::string>());
  if (result.contains("device")) as_field("device", [&] { parse_device(result["device"].get<std::string>()); });
  if (!result.contains("threads")) return;
  const auto threads = result["threads"].get<int64_t>();
  if (threads < 1 || threads > 4096)
    throw FieldError("threads", fmt::format("{} threads is {}; 1 to 4096 are legal", place, threads));
}

std::optional<Outcome> open_backend_of(const Json& fields, std::unique_ptr<Backend>& backend) {
  try {
    backend = open_backend(fields.at("backend").get<std::string>());
    return {};
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return Outcome{.status = "unsupported", .reason = error.what()};
  }
}

}  // namespace d5
