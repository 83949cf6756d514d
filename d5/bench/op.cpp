// SPDX-License-Identifier: Apache-2.0
// Level 0: one operator. How values become a case, and how the result of a case becomes a record.
#include <algorithm>

#include "d5/backends/kernel.hpp"
#include "d5/bench/op_case.hpp"
#include "d5/bench/op_session.hpp"
#include "d5/bench/problem.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/core/origin.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/trial.hpp"

namespace d5 {
namespace {

// An operator with the values of a case. `calling` is told what of it runs next.
struct Described {
  OperatorCase one;
  std::vector<TensorSpec> in, out;
  std::unique_ptr<Operator> op;

  Described(const Json& fields, const Calling& calling) {
    calling("describe");
    one = describe(fields);
    in = one.specs();
    calling("its constructor");
    op = registered<operators>(fields.at("operator").get<std::string>()).make(one.attributes);
    calling("infer");
    out = op->infer(in);
  }
};

// Buffers of the executable and of the problem, a result read back, and the oracle in double: the peak of a check.
double bytes_to_check(const Json& fields, const Calling& calling) {
  const Described made(fields, calling);
  double bytes = 0, elements = 0;
  for (const std::vector<TensorSpec>* specs : {&made.in, &made.out})
    for (const TensorSpec& spec : *specs) {
      if (!spec.present) continue;
      bytes += spec.bytes();
      elements += static_cast<double>(spec.elements());
    }
  // Small cases are computed whole, with their scale and tolerance; of large ones a sample, from inputs in double.
  calling("cost");
  const bool whole = made.op->cost(made.in, pass_of(fields)).flops <= ProblemOptions{}.full_flops;
  const double passes = pass_of(fields) == Pass::backward ? 2 : 1;  // values, and gradients as large again
  const bool twice = is_users<operators>(fields.at("operator").get<std::string>()) || fields.at("kernel") != "builtin";
  return passes * ((twice ? 4 : 3) * bytes + (whole ? 40 : 8) * elements);
}

class OpBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    if (!fields.contains("operator"))
      throw FieldError("operator", "[op] no operator is named; legal: see 'd5 list operators'");
    if (!fields["operator"].is_string())
      throw FieldError("operator", fmt::format("[op] operator is {}; a name is wanted", printable(fields["operator"])));
    Json result = {{"kind", "op"}, {"operator", fields["operator"]}};
    const std::string op = fields["operator"].get<std::string>();
    const OperatorEntry* entry = find_registered<operators>(op);
    if (!entry) try {
        registered<operators>(op);
      } catch (const UsageError& error) {
        throw FieldError("operator", error.what());
      }

    std::vector<std::string> legal{"kind", "operator"};
    for (const CaseField& field : common_fields()) legal.push_back(field.name);
    for (const Parameter& parameter : entry->parameters) legal.push_back(parameter.name);
    check_names(fmt::format("[{}]", op), legal, fields);

    complete_fields("[op]", common_fields(), fields, result);
    Json own = Json::object();
    for (const Parameter& parameter : entry->parameters)
      if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
    for (const auto& [name, value] : own.items()) try {
        complete_values(op, *entry, attributes_from_json({{name, value}}));
      } catch (const UsageError& error) {
        throw FieldError(name, error.what());
      }
    const Json values = to_json(complete_values(op, *entry, attributes_from_json(own)));
    for (const Parameter& parameter : entry->parameters) result[parameter.name] = values.at(parameter.name);
    return result;
  }

  void check_case(const Json& fields) const override {
    ask(fields, [&](const Calling& calling) {
      const Described fits(fields, calling);
      return std::string();
    });
  }

  double memory_bytes(const Json& fields) const override {
    try {
      return std::stod(
          ask(fields, [&](const Calling& calling) { return fmt::format("{:g}", bytes_to_check(fields, calling)); }));
    } catch (const TrialFailed&) {
      throw;
    } catch (const Error&) {  // no case at all: its child says why
      return 0;
    }
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return open_op_session(fields); }

  Record record(const CaseResult& result) const override {
    Record record = timed_record(result, rerun(result.fields), unremarkable_fields(result.fields));
    const auto field = [&](const char* name) { return result.fields.at(name).get<std::string>(); };
    const std::string kernel = fmt::format("{}:{}:{}", field("backend"), field("operator"), field("kernel"));
    for (const Takeover& one : takeovers())
      if ((one.kind == operators::kind && one.name == field("operator")) ||
          (one.kind == kernels::kind && one.name == kernel))
        record.warnings.push_back(one.text);
    return record;
  }

  std::string rerun(const Json& fields) const override {
    return rerun_command("op", "operator", fields, default_fields(fields));
  }

  std::vector<std::string> compared_fields() const override { return {"backend", "device", "environment", "kernel"}; }

 private:
  static std::string ask(const Json& fields, const std::function<std::string(const Calling&)>& act) {
    const std::string op = fields.at("operator");
    return is_users<operators>(op) ? try_apart("[" + op + "]", act) : act([](std::string_view) {});
  }

  // Fields at their default that a table need not repeat. Sizes, arithmetic and layout are always shown.
  std::vector<std::string> unremarkable_fields(const Json& fields) const {
    std::vector<std::string> names;
    for (const std::string& name : default_fields(fields))
      if (std::ranges::any_of(common_fields(), [&](const CaseField& f) { return f.name == name; }) &&
          name != "backend" && name != "math" && name != "layout")
        names.push_back(name);
    return names;
  }

  // Names of the fields that nobody had to give.
  std::vector<std::string> default_fields(const Json& fields) const {
    const Json defaults = complete({{"operator", fields.at("operator")}});
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.items())
      if (defaults.contains(name) && defaults[name] == value) names.push_back(name);
    return names;
  }
};

}  // namespace
D5_REGISTER(benches, "op", OpBench);
}  // namespace d5
