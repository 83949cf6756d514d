// SPDX-License-Identifier: Apache-2.0
#include "d5/report/validation_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/report/case_fields.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using nlohmann::json;

// JSON has no infinity: null is one, or not a number.
double number(const json& value) { return value.is_number() ? value.get<double>() : INFINITY; }
double share_of(const json& node) { return number(node.at("worst_share_of_tolerance")); }

std::string heading(const Record& record) {
  std::string text;
  for (const char* name : {"network", "dtype", "pass", "backend"}) {
    const std::string value = field_text(record.fields, name);
    text += (text.empty() || value.empty() ? "" : " ") + value;
  }
  for (const char* name : {"batch", "threads", "math", "layout", "device", "transform"}) {
    const json hidden = record.details.value("unremarkable", json::array());
    if (std::string(name) != "batch" && std::ranges::find(hidden, name) != hidden.end()) continue;
    if (const std::string value = field_text(record.fields, name); !value.empty())
      text += fmt::format(", {} {}", name, value);
  }
  return text;
}

std::string error_text(const json& value) {
  const double error = number(value);
  return std::isfinite(error) ? fmt::format("{:.1e}", error) : "inf";
}

void add_row(TextTable& table, const json& node, bool is_first) {
  const json& error = node.at("error");
  const bool deviates = node.contains("reason");
  const bool sampled = node.at("compared") < node.at("elements");
  table.row({{one_line(node.at("node").get<std::string>())},
             {one_line(node.at("operator").get<std::string>())},
             {node.at("pass").get<std::string>()},
             {one_line(node.at("value").get<std::string>())},
             {fmt::format("{}{}", node.at("compared").get<int64_t>(), sampled ? "*" : "")},
             {error_text(error.at("l1"))},
             {error_text(error.at("l2"))},
             {error_text(error.at("linf"))},
             {fmt::format("{:.3g}", share_of(node)), deviates ? Tone::bad : Tone::plain}},
            {is_first   ? "<- the first that deviates"
             : deviates ? "deviates"
                        : "",
             Tone::bad});
}

// Worst first, but the first that deviates before all.
std::vector<size_t> order_of(const json& nodes, std::optional<size_t> first) {
  std::vector<size_t> order;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!nodes[i].contains("skipped")) order.push_back(i);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if ((a == first) != (b == first)) return a == first;
    return share_of(nodes[a]) > share_of(nodes[b]);
  });
  return order;
}

std::string skipped_text(const json& nodes) {
  std::string text;
  for (const json& node : nodes)
    if (node.contains("skipped"))
      text += fmt::format("not compared: {} ({}, {}): {}\n", one_line(node.at("node").get<std::string>()),
                          one_line(node.at("operator").get<std::string>()), node.at("pass").get<std::string>(),
                          one_line(node.at("skipped").get<std::string>()));
  return text;
}

std::string record_text(const Record& record, const ValidationTableOptions& options) {
  std::string text = heading(record) + "\n";
  const bool bad = record.status == "failed" || record.status == "error";
  const std::string status = record.reason.empty() ? record.status : record.status + ": " + one_line(record.reason);
  const auto nodes = record.details.find("nodes");
  if (nodes == record.details.end())
    return text + coloured(status, bad ? Tone::bad : Tone::plain, options.colour) + "\n";

  std::optional<size_t> first;
  if (record.details.contains("first")) first = record.details["first"].get<size_t>();
  const std::vector<size_t> order = order_of(*nodes, first);
  TextTable table;
  for (const char* name : {"node", "operator", "pass", "value"}) table.column(name);
  for (const char* name : {"compared", "L1", "L2", "L-inf", "of tolerance"}) table.column(name, Align::right);
  bool sampled = false;
  const size_t shown = std::min(order.size(), options.top);
  for (size_t i = 0; i < shown; ++i) {
    add_row(table, (*nodes)[order[i]], order[i] == first);
    sampled |= (*nodes)[order[i]].at("compared") < (*nodes)[order[i]].at("elements");
  }
  if (shown > 0) text += table.text(options.colour);
  if (shown < order.size())
    text += fmt::format("... and {} values that are nearer to what is expected\n", order.size() - shown);
  if (sampled) text += "* a sample of its elements\n";
  text += skipped_text(*nodes);
  return text + coloured(status, bad ? Tone::bad : Tone::good, options.colour) +
         fmt::format("{} {} values compared with the operators' own loops in double\n",
                     record.reason.empty() ? ":" : ";", order.size());
}

}  // namespace

std::string validation_text(std::span<const Record> records, const ValidationTableOptions& options) {
  std::string text;
  for (const Record& record : records) text += (text.empty() ? "" : "\n") + record_text(record, options);
  return text;
}

}  // namespace d5
