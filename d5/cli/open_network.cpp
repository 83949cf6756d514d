// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/open_network.hpp"

#include <charconv>
#include <filesystem>

#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/sizes.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {
namespace {

std::map<std::string, Index> parse_sizes(const std::string& text) {
  std::map<std::string, Index> sizes;
  for (const std::string& part : split_names(text)) {
    const size_t equals = part.find('=');
    Index size = 0;
    const char* const end = part.data() + part.size();
    const auto read = equals == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                  : std::from_chars(part.data() + equals + 1, end, size);
    if (equals == 0 || read.ec != std::errc() || read.ptr != end)
      throw UsageError("[model] size '{}' is not of the form NAME=NUMBER", part);
    sizes[part.substr(0, equals)] = size;
  }
  return sizes;
}

}  // namespace

Graph open_network(const std::string& name, const std::string& sizes) {
  if (!std::filesystem::exists(name)) throw UsageError("[model] '{}' is no file; an ONNX file is wanted", name);
  Graph graph = modernise(read_onnx(name));
  if (graph.name.empty()) graph.name = std::filesystem::path(name).stem().string();
  bind_sizes(graph, parse_sizes(sizes));
  return graph;
}

}  // namespace d5
