// SPDX-License-Identifier: Apache-2.0
#include "d5/report/context_table.hpp"

#include <fmt/core.h>

#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using nlohmann::json;

std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : ""; }

class Table {
 public:
  Table(const json& context, bool colour) : context_(context), colour_(colour), whole_(number("whole_s")) {
    std::tie(unit_, scale_) = time_unit(whole_);
    for (const char* name : {"operator", "pass", "shapes"}) table_.column(name);
    table_.column("nodes", Align::right);
    table_.column(fmt::format("in situ {}", unit_), Align::right);
    for (const char* name : {"of step", "of FLOPs"}) table_.column(name, Align::right);
    table_.column(fmt::format("hot {}", unit_), Align::right);
    table_.column("situ/hot", Align::right);
    table_.column(fmt::format("cold {}", unit_), Align::right);
    table_.column("situ/cold", Align::right);
  }

  std::string text() {
    double others = 0, others_flops = 0;
    size_t other_nodes = 0, other_kinds = 0;
    for (const json& row : context_.at("rows")) {
      if (row.contains("hot_s") || row.contains("alone")) {
        add(row);
        continue;
      }
      others += row.at("in_situ_s").get<double>();
      others_flops += row.at("flops").get<double>();
      other_nodes += row.at("nodes").get<size_t>();
      ++other_kinds;
    }
    if (other_kinds > 0)
      add_sum(fmt::format("{} more kinds", other_kinds), others, fmt::format("{}", other_nodes),
              percent(others_flops, number("flops")));
    add_sum("outside of operators", number("residual_s"));
    add_sum("the whole step", whole_);
    return table_.text(colour_) +
           fmt::format(
               "Times are sums over the nodes of a kind in one step; in situ: means of the same {} of {} steps.\n"
               "Nobody looking, a step takes {} {}.\n",
               context_.at("steps_kept").get<size_t>(), context_.at("steps").get<size_t>(),
               time(number("unobserved_s")), unit_);
  }

 private:
  double number(const char* name) const { return context_.at(name).get<double>(); }
  std::string time(double seconds) const {
    return number_text(seconds * scale_, supported_decimals(whole_ * scale_, std::nullopt) + 1);
  }

  void add(const json& row) {
    const auto nodes = row.at("nodes").get<size_t>();
    const double in_situ = row.at("in_situ_s").get<double>();
    std::vector<Cell> cells{{one_line(row.at("operator").get<std::string>())},
                            {row.at("pass").get<std::string>()},
                            {row.at("shapes").get<std::string>()},
                            {fmt::format("{}", nodes)},
                            {time(in_situ)},
                            {percent(in_situ, whole_)},
                            {percent(row.at("flops").get<double>(), number("flops"))}};
    if (row.contains("alone")) {
      table_.row(std::move(cells), {one_line(row.at("alone").get<std::string>())});
      return;
    }
    for (const char* name : {"hot_s", "cold_s"}) {
      const double alone = row.at(name).get<double>() * static_cast<double>(nodes);
      cells.push_back({time(alone)});
      cells.push_back({fmt::format("{:.2f}", in_situ / alone)});
    }
    table_.row(std::move(cells));
  }

  void add_sum(const std::string& name, double seconds, const std::string& nodes = "", const std::string& flops = "") {
    table_.row({{name}, {""}, {""}, {nodes}, {time(seconds)}, {percent(seconds, whole_)}, {flops}});
  }

  const json& context_;
  bool colour_;
  double whole_;
  std::string_view unit_;
  double scale_ = 1;
  TextTable table_;
};

}  // namespace

std::string context_text(std::span<const Record> records, bool colour) {
  std::string text;
  for (const Record& record : records) {
    if (!text.empty()) text += "\n";
    for (const char* name : {"network", "dtype", "pass", "backend"}) text += field_text(record.fields, name) + " ";
    text += fmt::format("batch {}, {} thread(s)\n", field_text(record.fields, "batch"),
                        field_text(record.fields, "threads"));
    if (const auto context = record.details.find("context"); context != record.details.end())
      text += Table(*context, colour).text();
    if (record.status != "passed" || !record.reason.empty())
      text += fmt::format("{}: {}\n", record.status, one_line(record.reason));
  }
  return text;
}

}  // namespace d5
