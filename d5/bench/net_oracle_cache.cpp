// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_oracle_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "d5/core/plugins.hpp"
#include "d5/core/version.hpp"
#include "d5/measure/roofline_cache.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr const char* schema = "d5-oracle/2";

void append(std::string& text, const std::vector<std::string>& names) {
  for (const std::string& name : names) text += name + ",";
}

void append(std::string& text, const Graph& graph) {
  for (const GraphInput& input : graph.inputs) text += input.name + to_string(input.spec) + input.initialiser + ";";
  for (const auto* tensors : {&graph.constants, &graph.initial})
    for (const auto& [name, tensor] : *tensors) {
      text += name + to_string(TensorSpec{tensor.dtype(), tensor.shape()});
      if (tensor.dtype() != DType::string)
        text += content_hash({static_cast<const char*>(tensor.data()), tensor.bytes()});
    }
  for (const Node& node : graph.nodes) {
    text += node.op + "(";
    append(text, node.inputs);
    for (const auto& [name, value] : node.attributes.values()) {
      text += name + "=" + to_string(value) + " ";
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) append(text, **body);
      if (const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&value);
          tensor && (*tensor)->dtype() != DType::string)
        text += content_hash({static_cast<const char*>((*tensor)->data()), (*tensor)->bytes()});
    }
    text += ")=";
    append(text, node.outputs);
  }
  append(text, graph.outputs);
}

std::filesystem::path file_of(const std::string& key) {
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / "oracle" / (key + ".bin");
}

Json header_of(const std::string& key, const NetProblem& problem) {
  Json header = {{"schema", schema}, {"key", key}, {"results", Json::array()}};
  for (const NetExpected& e : problem.expected)
    header["results"].push_back({{"value", e.value},
                                 {"role", static_cast<int>(e.role)},
                                 {"dtype", name(e.values.dtype())},
                                 {"sizes", e.values.shape().sizes()},
                                 {"tolerance", e.tolerance}});
  return header;
}

// JSON has no number for an infinity or NaN, and a result that holds one is not worth keeping.
bool is_finite(const NetExpected& e) {
  if (!std::isfinite(e.tolerance)) return false;
  if (e.values.dtype() != DType::f64) return true;
  return std::ranges::all_of(e.values.values<double>(), [](double value) { return std::isfinite(value); });
}

// Error or an exception of Json where the header is not what save_expected() writes.
std::vector<NetExpected> read_results(const Json& header, const NetProblem& problem, std::istream& in) {
  std::vector<NetExpected> found;
  for (size_t i = 0; i < problem.expected.size(); ++i) {
    const Json& result = header.at("results").at(i);
    NetExpected e = problem.expected[i];
    if (result.at("value") != e.value || result.at("role") != static_cast<int>(e.role)) throw Error("another result");
    e.values =
        Tensor(parse_dtype(result.at("dtype").get<std::string>()), Shape(result.at("sizes").get<std::vector<Index>>()));
    e.tolerance = result.at("tolerance").get<double>();
    if (!in.read(static_cast<char*>(e.values.data()), static_cast<std::streamsize>(e.values.bytes())))
      throw Error("the file is cut off");
    found.push_back(std::move(e));
  }
  return found;
}

}  // namespace

std::string oracle_key(const Graph& graph, const std::string& how) {
  std::string text = fmt::format("{} {} {}\n", schema, version(), how);
  append(text, graph);
  return content_hash(text);
}

bool load_expected(const std::string& key, NetProblem& problem) {
  const auto path = file_of(key);
  if (path.empty()) return false;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) return false;
  try {
    const Json header = Json::parse(line);
    if (header.at("schema") != schema || header.at("key") != key ||
        header.at("results").size() != problem.expected.size())
      return false;
    problem.expected = read_results(header, problem, in);
    return true;
  } catch (const Json::exception&) {
    return false;
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void save_expected(const std::string& key, const NetProblem& problem) {
  const auto path = file_of(key);
  if (path.empty() || !std::ranges::all_of(problem.expected, is_finite)) return;
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  const std::filesystem::path beside = path.string() + fmt::format(".{}", getpid());
  bool written = false;
  {
    std::ofstream out(beside, std::ios::binary);
    out << header_of(key, problem).dump() << "\n";
    for (const NetExpected& e : problem.expected)
      out.write(static_cast<const char*>(e.values.data()), static_cast<std::streamsize>(e.values.bytes()));
    written = out.flush().good();
  }
  if (written)
    std::filesystem::rename(beside, path, failed);
  else
    std::filesystem::remove(beside, failed);
}

}  // namespace d5
