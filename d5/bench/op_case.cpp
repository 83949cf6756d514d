// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/op_case.hpp"

namespace d5 {

const std::vector<CaseField>& common_fields() {
  static const std::vector<CaseField> fields{
      {"backend", "reference", {}},
      {"dtype", "f32", dtype_names()},
      {"pass", "forward", {"forward", "backward"}},
      {"threads", 1, {}},
      {"device", "cpu", {}},
      {"environment", "", {}},
      {"math", "strict", {"strict", "tf32", "bf16", "winograd"}},
      {"layout", "fast", {"fast", "plain"}},
      {"reorders", "untimed", {"untimed", "timed"}},
      {"cache", "hot", {"hot", "cold"}},
      {"inputs", "uniform", {"uniform", "normal", "integers", "nan"}},
      {"gradients", "dense", {"dense", "sparse"}},
      {"deterministic", false, {}},
      {"kernel", "builtin", {}},
      {"seed", 1, {}},
  };
  return fields;
}

namespace {

Attributes operator_values(const Json& fields) {
  Json own = Json::object();
  for (const Parameter& parameter : registered<operators>(fields.at("operator").get<std::string>()).parameters)
    if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
  return attributes_from_json(own);
}

}  // namespace

OperatorCase describe(const Json& fields) {
  const auto op = fields.at("operator").get<std::string>();
  OperatorCase one =
      registered<operators>(op).describe(operator_values(fields), parse_dtype(fields.at("dtype").get<std::string>()));
  // Where an axis has no elements no index into it is legal.
  for (size_t i = 0; i < one.inputs.size(); ++i)
    if (const OperatorInput& input = one.inputs[i];
        input.spec.present && !is_float(input.spec.dtype) && input.spec.elements() > 0 && input.low > input.high)
      throw UsageError("[{}] input {} would hold integers from {} to {}: of an empty axis none is legal", op, i,
                       input.low, input.high);
  return one;
}

Pass pass_of(const Json& fields) { return fields.at("pass") == "forward" ? Pass::forward : Pass::backward; }

CompileOptions compile_options(const Json& fields) {
  CompileOptions options;
  options.mode = pass_of(fields) == Pass::backward ? Mode::training : Mode::inference;
  options.input_gradients = pass_of(fields) == Pass::backward;
  options.math = parse_math(fields.at("math").get<std::string>());
  options.layout = parse_layout(fields.at("layout").get<std::string>());
  options.time_reorders = fields.at("reorders") == "timed";
  options.sparse_gradients = fields.at("gradients") == "sparse";
  options.deterministic = fields.at("deterministic");
  options.kernel = fields.at("kernel");
  options.device = fields.at("device");
  options.gradients_in_set = false;  // nobody reads the set at this level
  return options;
}

}  // namespace d5
