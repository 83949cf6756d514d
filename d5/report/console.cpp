// SPDX-License-Identifier: Apache-2.0
#include "d5/report/console.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "d5/report/case_fields.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/step_table.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

const std::vector<std::string> heading_fields = {"operator", "network", "dtype", "pass", "threads"};

// Footnotes: equal texts share a number.
class Notes {
 public:
  std::string mark(const std::vector<std::string>& texts) {
    std::string marks;
    for (const std::string& text : texts) {
      const auto found = std::find(texts_.begin(), texts_.end(), text);
      const size_t number = static_cast<size_t>(found - texts_.begin()) + 1;
      if (found == texts_.end()) texts_.push_back(text);
      marks += fmt::format("{}[{}]", marks.empty() ? "" : " ", number);
    }
    return marks;
  }
  std::string text() const {
    std::string result;
    for (size_t i = 0; i < texts_.size(); ++i) result += fmt::format("[{}] {}\n", i + 1, one_line(texts_[i]));
    return result;
  }

 private:
  std::vector<std::string> texts_;
};

struct Row {
  const Record* record;
  const std::optional<Standing>* standing;
  bool is_base;
  std::string base_name;  // how the base differs from the rest of its group: "onednn"
};
using Block = std::vector<Row>;

bool starts_with_error(const std::string& name) { return name.rfind("error", 0) == 0; }
bool is_rate(const Metric& m) { return m.unit.size() > 2 && m.unit.ends_with("/s"); }

std::optional<Interval> interval_of(const Metric& m, double scale) {
  if (!m.ci95) return std::nullopt;
  return Interval{m.ci95->first * scale, m.ci95->second * scale};
}

std::string metric_text(const Metric& m) {
  if (!std::isfinite(m.median)) return "n/a";
  return number_text(m.median, supported_decimals(m.median, interval_of(m, 1)));
}

// What one block shows: found by looking at its records, then asked once per row.
struct Layout {
  std::vector<std::string> columns, constants;  // case fields
  bool time = false, bound = false, verdicts = false;
  std::string_view unit = "s";
  double scale = 1;
  std::vector<std::string> rates, others;
  std::string error;
  std::string against;
};

void find_metrics(Layout& layout, const Block& block) {
  std::vector<double> times;
  std::vector<std::string> all;
  for (const Row& row : block) {
    layout.bound |= row.record->bound.has_value();
    for (const auto& [name, metric] : row.record->metrics) {
      if (name == "time" && std::isfinite(metric.median)) times.push_back(metric.median);
      if (is_of_step_table(name) || std::find(all.begin(), all.end(), name) != all.end()) continue;
      all.push_back(name);
      if (is_rate(metric)) layout.rates.push_back(name);
      if (starts_with_error(name) && layout.error.empty()) layout.error = name;
    }
  }
  layout.time = !times.empty();
  if (layout.time) std::tie(layout.unit, layout.scale) = time_unit(median(times));
  // What was asked for beyond the usual; a level without times (accuracies, bytes) shows all it has.
  const std::vector<std::string>& usual = usual_metrics();
  const bool timeless = !layout.time && layout.rates.empty();
  for (const std::string& name : all) {
    const bool is_usual = std::find(usual.begin(), usual.end(), name) != usual.end();
    const bool shown_as_rate = std::find(layout.rates.begin(), layout.rates.end(), name) != layout.rates.end();
    if (timeless ? name != layout.error : !is_usual && !shown_as_rate && !starts_with_error(name))
      layout.others.push_back(name);
  }
}

void find_fields(Layout& layout, const Block& block) {
  std::vector<Record> records;
  for (const Row& row : block) {
    Record only_case;
    only_case.fields = row.record->fields;
    records.push_back(std::move(only_case));
  }
  for (const std::string& name : field_names(records)) {
    if (std::find(heading_fields.begin(), heading_fields.end(), name) != heading_fields.end()) continue;
    std::set<std::string> values;
    for (const Record& r : records) values.insert(field_text(r.fields, name));
    (values.size() > 1 || name == "backend" ? layout.columns : layout.constants).push_back(name);
  }
}

void find_verdicts(Layout& layout, const Block& block) {
  std::set<std::string> bases;
  for (const Row& row : block) {
    if (!*row.standing || row.is_base) continue;
    layout.verdicts = true;
    bases.insert(row.base_name);
  }
  layout.against = bases.size() == 1 && !bases.begin()->empty() ? "against " + *bases.begin() : "against the first";
}

std::string rate_header(const Layout& layout, const Block& block, const std::string& name) {
  const auto unit_of = [&](const std::string& metric) -> std::string {
    for (const Row& row : block) {
      if (const Metric* m = row.record->metric(metric)) return m->unit;
    }
    return {};
  };
  const std::string unit = unit_of(name);
  const auto same =
      std::count_if(layout.rates.begin(), layout.rates.end(), [&](const auto& r) { return unit_of(r) == unit; });
  return same > 1 ? name + " " + unit : unit;
}

void add_columns(TextTable& table, const Layout& layout, const Block& block) {
  for (const std::string& name : layout.columns) table.column(name);
  if (layout.time) {
    table.column(fmt::format("median {}", layout.unit), Align::right);
    table.column("95 % CI", Align::right);
  }
  for (const std::string& name : layout.rates) table.column(rate_header(layout, block, name), Align::right);
  for (const std::string& name : layout.others) table.column(name, Align::right);
  if (layout.bound) table.column("of bound", Align::right);
  if (!layout.error.empty()) table.column("error", Align::right);
  if (layout.verdicts) table.column(layout.against);
}

Cell verdict_cell(const Row& row) {
  if (row.is_base) return {"-"};
  if (!*row.standing) return {};
  const Comparison& c = (*row.standing)->comparison;
  const Tone tone = c.verdict == Verdict::faster ? Tone::good : c.verdict == Verdict::slower ? Tone::bad : Tone::plain;
  return {verdict_text(c), tone};
}

std::vector<Cell> number_cells(const Layout& layout, const Row& row) {
  const Record& r = *row.record;
  std::vector<Cell> cells;
  if (layout.time) {
    const Metric* time = r.metric("time");
    std::optional<Interval> interval = time ? interval_of(*time, layout.scale) : std::nullopt;
    const int decimals = time ? supported_decimals(time->median * layout.scale, interval) : 0;
    cells.push_back({time ? number_text(time->median * layout.scale, decimals) : ""});
    cells.push_back({!time ? "" : interval ? interval_text(*interval, decimals) : "n/a"});
  }
  for (const std::string& name : layout.rates) {
    const Metric* m = r.metric(name);
    cells.push_back({m ? metric_text(*m) : ""});
  }
  for (const std::string& name : layout.others) {
    const Metric* m = r.metric(name);
    cells.push_back({!m               ? ""
                     : m->unit == "s" ? seconds_text(m->median)
                                      : metric_text(*m) + (m->unit.empty() || m->unit == "1" ? "" : " " + m->unit)});
  }
  if (layout.bound) {
    cells.push_back({r.bound && std::isfinite(r.bound->share) ? fmt::format("{:.0f} %", 100 * r.bound->share) : ""});
  }
  if (!layout.error.empty()) {
    const Metric* m = r.metric(layout.error);
    cells.push_back({!m ? "" : std::isfinite(m->median) ? fmt::format("{:.1e}", m->median) : "n/a"});
  }
  if (layout.verdicts) cells.push_back(verdict_cell(row));
  return cells;
}

void add_row(TextTable& table, const Layout& layout, const Row& row, Notes& notes) {
  const Record& r = *row.record;
  std::vector<Cell> cells;
  for (const std::string& name : layout.columns) cells.push_back({field_text(r.fields, name)});
  const std::string marks = notes.mark(r.warnings);
  const std::string status = r.reason.empty() ? r.status : r.status + ": " + one_line(r.reason);
  const bool bad = r.status == "failed" || r.status == "error";
  // A case that failed its check has no speed, whatever its record holds.
  const bool numbers = (r.status == "passed" || r.status == "mistrusted") && !r.metrics.empty();
  if (!numbers) {
    table.row(std::move(cells), {marks.empty() ? status : status + "  " + marks, bad ? Tone::bad : Tone::plain});
    return;
  }
  for (Cell& c : number_cells(layout, row)) cells.push_back(std::move(c));
  std::string remark = r.status == "passed" ? "" : status;
  if (!marks.empty()) remark += (remark.empty() ? "" : "  ") + marks;
  while (!remark.empty() && !cells.empty() && cells.back().text.empty()) cells.pop_back();
  table.row(std::move(cells), {remark});
}

std::string heading(const Block& block) {
  const nlohmann::json& fields = block.front().record->fields;
  std::string result;
  for (const char* name : {"operator", "network", "dtype", "pass"}) {
    const std::string text = field_text(fields, name);
    if (!text.empty()) result += (result.empty() ? "" : " ") + text;
  }
  if (result.empty()) result = block.front().record->kind;
  const std::string threads = field_text(fields, "threads");
  if (!threads.empty()) result += fmt::format(", {} thread{}", threads, threads == "1" ? "" : "s");
  return result;
}

// What the level calls unremarkable (details.unremarkable: fields at their default) is left to the record.
std::string constants_text(const Layout& layout, const Block& block) {
  std::vector<std::string> parts;
  const nlohmann::json hidden = block.front().record->details.value("unremarkable", nlohmann::json::array());
  for (const std::string& name : layout.constants) {
    if (std::find(hidden.begin(), hidden.end(), name) != hidden.end()) continue;
    const std::string text = field_text(block.front().record->fields, name);
    if (!text.empty()) parts.push_back(name + " " + text);
  }
  return parts.empty() ? "" : fmt::format("{}\n", fmt::join(parts, ", "));
}

// The name of the first GPU, where a case of the block ran on one.
std::string gpu_of(const Block& block, const Record& environment) {
  const bool used = std::any_of(block.begin(), block.end(), [](const Row& row) {
    return field_text(row.record->fields, "device").rfind("cuda", 0) == 0;
  });
  const auto gpus = environment.details.find("gpus");
  if (!used || gpus == environment.details.end() || !gpus->is_array() || gpus->empty()) return {};
  const auto name = gpus->front().find("name");
  return name != gpus->front().end() && name->is_string() ? one_line(name->get<std::string>()) : "";
}

std::string machine_of(const Block& block, std::span<const Record> environments, Notes& notes) {
  const Record& r = *block.front().record;
  for (const Record& e : environments) {
    if (e.environment != r.environment) continue;
    const auto threads = r.fields.find("threads");
    const bool whole = threads != r.fields.end() && threads->is_number_integer();
    std::string text = machine_text(e, field_text(r.fields, "dtype"), whole ? threads->get<int>() : 1);
    if (const std::string gpu = gpu_of(block, e); !gpu.empty()) text = gpu + "; its host: " + text;
    const std::string marks = notes.mark(e.warnings);
    return text.empty() || marks.empty() ? text + marks : text + " " + marks;
  }
  return {};
}

std::string block_text(const Block& block, std::span<const Record> environments, Notes& notes, bool colour) {
  Layout layout;
  find_fields(layout, block);
  find_metrics(layout, block);
  find_verdicts(layout, block);
  const std::string machine = machine_of(block, environments, notes);
  TextTable table;
  add_columns(table, layout, block);
  for (const Row& row : block) add_row(table, layout, row, notes);

  std::string result = heading(block);
  if (!machine.empty()) {
    const size_t used = display_width(result) + display_width(machine);
    result += used + 4 <= table.width() ? std::string(table.width() - used, ' ') : "\n";
    result += machine;
  }
  std::vector<const Record*> records;
  for (const Row& row : block) records.push_back(row.record);
  const std::string beside = step_table(
      records, layout.columns, [&](const std::vector<std::string>& texts) { return notes.mark(texts); }, colour);
  return result + "\n" + constants_text(layout, block) + table.text(colour) + (beside.empty() ? "" : "\n" + beside);
}

// The values by which the base differs from the others of its group.
std::string name_of_base(std::span<const Record> records, size_t base) {
  std::vector<std::string> parts;
  for (const std::string& name : field_names({&records[base], 1})) {
    const std::string value = field_text(records[base].fields, name);
    const bool differs = std::any_of(records.begin(), records.end(), [&](const Record& r) {
      return r.group == records[base].group && field_text(r.fields, name) != value;
    });
    if (differs) parts.push_back(value);
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string correction_text(size_t comparisons, const VerdictOptions& options) {
  if (comparisons == 0) return {};
  const std::string corrected =
      comparisons > 1 ? fmt::format(", corrected by Bonferroni over {} comparisons", comparisons) : "";
  return fmt::format("Verdicts: paired within rounds, sign test over launches at {:g} %{}; same is within {:g} %.\n",
                     100 * (1 - options.alpha), corrected, 100 * options.margin);
}

}  // namespace

std::string machine_text(const Record& environment, const std::string& dtype, int threads) try {
  const nlohmann::json& e = environment.details;
  std::vector<std::string> names, rates;
  const nlohmann::json cpu = e.value("cpu", nlohmann::json::object());
  if (cpu.contains("model")) names.push_back(one_line(cpu["model"].get<std::string>()));
  if (cpu.contains("isa")) names.push_back(one_line(cpu["isa"].at("best").get<std::string>()));
  for (const nlohmann::json& roofline : e.value("rooflines", nlohmann::json::array())) {
    if (roofline.at("threads").get<int>() != threads) continue;
    const nlohmann::json& peaks = roofline.at("peak_flops");
    const std::string type = peaks.contains(dtype) ? dtype : "f32";
    if (peaks.contains(type)) rates.push_back(fmt::format("peak {:.0f} GFLOP/s", peaks[type].get<double>() / 1e9));
    // The last entry is the largest working set: memory, not a cache.
    const nlohmann::json& bandwidth = roofline.at("bandwidth");
    if (!bandwidth.empty())
      rates.push_back(fmt::format("copy {:.3g} GB/s", bandwidth.back().at(1).get<double>() / 1e9));
  }
  std::string result = fmt::format("{}", fmt::join(names, ", "));
  if (!rates.empty()) result += fmt::format("{}{} measured", result.empty() ? "" : "; ", fmt::join(rates, ", "));
  return result;
} catch (const nlohmann::json::exception&) {
  return {};  // a heading is no reason to lose the table
}

std::string console_text(std::span<const Record> records, std::span<const Record> environments,
                         const ConsoleOptions& options) {
  const std::vector<std::optional<Standing>> standings = verdicts(records, options.verdicts);
  std::vector<std::pair<std::string, Block>> blocks;
  std::map<size_t, std::string> base_names;
  for (size_t i = 0; i < records.size(); ++i) {
    std::string key = records[i].kind + "\n" + records[i].environment;
    for (const std::string& name : heading_fields) key += "\n" + field_text(records[i].fields, name);
    auto block = std::find_if(blocks.begin(), blocks.end(), [&](const auto& b) { return b.first == key; });
    if (block == blocks.end()) block = blocks.insert(blocks.end(), {key, {}});
    Row row{&records[i], &standings[i], false, ""};
    if (standings[i]) {
      const size_t base = standings[i]->base;
      if (!base_names.count(base)) base_names[base] = name_of_base(records, base);
      row.is_base = base == i;
      row.base_name = base_names[base];
    }
    block->second.push_back(row);
  }
  Notes notes;
  std::string result;
  for (const auto& [key, block] : blocks) {
    result += (result.empty() ? "" : "\n") + block_text(block, environments, notes, options.colour);
  }
  const std::string below = notes.text() + correction_text(comparisons_in(standings), options.verdicts);
  return below.empty() ? result : result + "\n" + below;
}

}  // namespace d5
