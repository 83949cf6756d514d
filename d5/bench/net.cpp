// SPDX-License-Identifier: Apache-2.0
// Level 1: one network. How values become a case, and how the result of a case becomes a record.
#include <algorithm>
#include <filesystem>

#include "d5/bench/net_case.hpp"
#include "d5/bench/net_metrics.hpp"
#include "d5/bench/net_session.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

class NetBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    if (!fields.contains("network") || !fields["network"].is_string())
      throw FieldError("network", "[net] no network is named; legal: an ONNX file, or a name of 'd5 list networks'");
    const std::string network = fields["network"];
    Json result = {{"kind", "net"}, {"network", network}};
    std::vector<Parameter> parameters;
    try {
      parameters = own_parameters(network);
    } catch (const UsageError& error) {
      throw FieldError("network", error.what());
    }
    if (is_file(network) && !std::filesystem::exists(network))
      throw FieldError("network", fmt::format("[net] there is no file {}", network));

    std::vector<std::string> legal{"kind", "network"};
    for (const CaseField& field : network_fields()) legal.push_back(field.name);
    for (const Parameter& parameter : parameters) legal.push_back(parameter.name);
    check_names(fmt::format("[{}]", network), legal, fields);
    Json given = fields;
    if (given.contains("arena_limit") && given["arena_limit"].is_number_integer())
      given["arena_limit"] = given["arena_limit"].get<double>();
    complete_fields("[net]", network_fields(), given, result);
    if (!(result["arena_limit"].get<double>() >= 0))
      throw FieldError("arena_limit", fmt::format("[net] arena-limit is {} MiB; 0 (none) or more is legal",
                                                  result["arena_limit"].dump()));
    check_file_fields(result);
    if (result["batch"].get<Index>() < 1)
      throw FieldError("batch", fmt::format("[net] batch is {}; at least 1 is needed", result["batch"].dump()));
    for (const Parameter& parameter : parameters)
      result[parameter.name] = fields.contains(parameter.name)
                                   ? fields[parameter.name]
                                   : to_json(Attributes{{parameter.name, parameter.otherwise}})[parameter.name];
    return result;
  }

  void check_case(const Json& fields) const override {
    const Graph graph = network_of(fields);
    if (!why_evaluated(graph)) infer_specs(graph);
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return open_net_session(fields); }

  Record record(const CaseResult& result) const override {
    Record record = timed_record(result, rerun(result.fields), unremarkable(result.fields));
    add_net_metrics(result, record);
    return record;
  }

  std::string rerun(const Json& fields) const override {
    return rerun_command("net", "network", fields, defaults(fields));
  }

  std::vector<std::string> compared_fields() const override {
    return {"backend", "device", "environment", "transform", "kernel", "arena_limit"};
  }

 private:
  // Sizes belong to files, an element type to built-in networks.
  static void check_file_fields(const Json& fields) {
    const bool file = is_file(fields.at("network"));
    const std::string sizes = fields.at("sizes"), dtype = fields.at("dtype");
    if (!file && !sizes.empty())
      throw FieldError("sizes", fmt::format("[net] sizes is '{}'; only a file has free sizes, '{}' is built in", sizes,
                                            fields.at("network").get<std::string>()));
    if (file && dtype != "f32")
      throw FieldError("dtype", fmt::format("[net] dtype is {}, which is for built-in networks; for a file say "
                                            "--transform precision:{}",
                                            dtype, dtype));
    try {
      parse_sizes(sizes);
    } catch (const UsageError& error) {
      throw FieldError("sizes", error.what());
    }
  }
  std::vector<std::string> defaults(const Json& fields) const {
    const Json otherwise = complete({{"network", fields.at("network")}});
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.items())
      if (otherwise.contains(name) && otherwise[name] == value) names.push_back(name);
    return names;
  }
  std::vector<std::string> unremarkable(const Json& fields) const {
    std::vector<std::string> names = defaults(fields);
    std::erase_if(names,
                  [](const std::string& name) { return name == "backend" || name == "batch" || name == "math"; });
    return names;
  }
};

}  // namespace
D5_REGISTER(benches, "net", NetBench);
}  // namespace d5
