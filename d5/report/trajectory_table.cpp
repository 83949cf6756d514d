// SPDX-License-Identifier: Apache-2.0
#include "d5/report/trajectory_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "d5/report/case_fields.hpp"
#include "d5/report/text_table.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr size_t most_rows = 13, most_parameters = 3;

Json trajectory_of(const Record& record) {
  if (record.kind != "train") return Json::object();
  const Json trajectory = record.details.value("training", Json::object()).value("trajectory", Json::object());
  return trajectory.contains("steps") && !trajectory["steps"].empty() ? trajectory : Json::object();
}

// Records write numbers that are not finite as null.
double number_at(const Json& list, size_t i) { return list.at(i).is_number() ? list.at(i).get<double>() : NAN; }

std::string number_text_at(const Json& list, size_t i) { return fmt::format("{:.3g}", number_at(list, i)); }

std::string plain_text(const Json& value) {
  return one_line(value.is_string() ? value.get<std::string>() : value.dump());
}

// What tells `who` from `other`: "backend onednn"; of one that runs the same again its backend.
std::string label_of(const Json& who, const Json& other) {
  std::string label;
  for (const auto& [name, value] : other.items())
    if (who.contains(name) && who.at(name) != value)
      label += fmt::format("{}{} {}", label.empty() ? "" : ", ", name, plain_text(who.at(name)));
  return label.empty() ? fmt::format("backend {} again", plain_text(who.value("backend", Json("")))) : label;
}

// The first look, the last, and between them steps whose distances grow: drift is seen on a logarithmic scale.
std::vector<size_t> shown_looks(size_t looks) {
  std::vector<size_t> shown;
  if (looks <= most_rows) {
    for (size_t i = 0; i < looks; ++i) shown.push_back(i);
    return shown;
  }
  shown.push_back(0);
  const double factor = std::pow(static_cast<double>(looks - 1), 1 / static_cast<double>(most_rows - 2));
  double at = 1;
  for (size_t row = 1; row < most_rows; ++row, at *= factor) {
    const auto look = std::min(looks - 1, static_cast<size_t>(std::lround(at)));
    if (look > shown.back()) shown.push_back(look);
  }
  if (shown.back() != looks - 1) shown.push_back(looks - 1);
  return shown;
}

std::string furthest(const Json& trajectory) {
  const Json &names = trajectory.at("parameters"), &l2 = trajectory.at("l2").back();
  const Json& linf = trajectory.at("linf").back();
  std::vector<size_t> order;
  for (size_t i = 0; i < names.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
    const double value = number_at(l2, i);
    return std::isnan(value) ? INFINITY : value;
  });
  order.resize(std::min(order.size(), most_parameters));
  std::string text;
  for (const size_t i : order)
    text += fmt::format("{}{} {} (L-inf {})", text.empty() ? "" : ", ", plain_text(names[i]), number_text_at(l2, i),
                        number_text_at(linf, i));
  return text;
}

// How far it came in the end, and where most of that is.
std::string note_of(const std::string& label, const Json& trajectory) {
  const size_t last = trajectory["steps"].size() - 1;
  const double apart = number_at(trajectory["all_l2"], last), length = number_at(trajectory["baseline_l2"], last);
  const std::string step = trajectory["steps"][last].dump();
  if (apart == 0) return fmt::format("{}: the same bits up to step {}\n", label, step);
  return fmt::format(
      "{}: at step {} {:.3g} apart in L2, {:.2g} % of the length of the baseline's weights, {:.3g}; most in {}\n",
      label, step, apart, 100 * apart / length, length, furthest(trajectory));
}

std::string table_of(const std::vector<const Record*>& records, bool colour) {
  const Record& first = *records.front();
  const Json leading = trajectory_of(first);
  const Json& baseline = leading.at("baseline");
  TextTable table;
  table.column("step", Align::right);
  std::string notes;
  // All looks that anyone has; one that ended early has none at the later ones.
  Json steps = leading.at("steps");
  for (const Record* record : records) {
    const Json trajectory = trajectory_of(*record);
    const std::string label = label_of(record->fields, baseline);
    table.column(label + ": L2", Align::right);
    table.column("L-inf", Align::right);
    if (trajectory["steps"].size() > steps.size()) steps = trajectory["steps"];
    notes += note_of(label, trajectory);
  }
  for (const size_t look : shown_looks(steps.size())) {
    std::vector<Cell> cells{{steps[look].dump()}};
    for (const Record* record : records) {
      const Json trajectory = trajectory_of(*record);
      size_t at = 0;
      while (at < trajectory["steps"].size() && trajectory["steps"][at] != steps[look]) ++at;
      const bool there = at < trajectory["steps"].size();
      cells.push_back({there ? number_text_at(trajectory["all_l2"], at) : ""});
      cells.push_back({there ? number_text_at(trajectory["all_linf"], at) : ""});
    }
    table.row(std::move(cells));
  }
  return fmt::format(
      "{}, seed {}: how far the trained weights are from the baseline's (backend {}, optimizer {}) after so many "
      "steps\n"
      "{}{}The baseline is kept in {}: remove it to begin with another\n",
      field_text(first.fields, "network"), field_text(first.fields, "seed"),
      plain_text(baseline.value("backend", Json(""))), plain_text(baseline.value("optimizer", Json(""))),
      table.text(colour), notes, leading.value("folder", ""));
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

}  // namespace

std::string trajectory_text(std::span<const Record> records, bool colour) {
  std::vector<std::pair<std::string, std::vector<const Record*>>> baselines;
  for (const Record& record : records) {
    const Json trajectory = trajectory_of(record);
    if (trajectory.empty()) continue;
    const std::string folder = trajectory.value("folder", "");
    auto known = std::ranges::find(baselines, folder, &std::pair<std::string, std::vector<const Record*>>::first);
    if (known == baselines.end()) known = baselines.insert(baselines.end(), {folder, {}});
    known->second.push_back(&record);
  }
  std::string text;
  for (const auto& [folder, of_baseline] : baselines) text += "\n" + table_of(of_baseline, colour);
  return text;
}

std::string trajectory_csv(std::span<const Record> records) {
  std::string text;
  for (const Record& record : records) {
    const Json trajectory = trajectory_of(record);
    if (trajectory.empty()) continue;
    if (text.empty()) text = "network,seed,backend,optimizer,baseline,step,parameter,l2,linf\n";
    const Json& baseline = trajectory.at("baseline");
    std::string who;
    for (const char* name : {"network", "seed", "backend", "optimizer"})
      who += quoted(field_text(record.fields, name)) + ",";
    who += quoted(fmt::format("{} {}", plain_text(baseline.value("backend", Json(""))),
                              plain_text(baseline.value("optimizer", Json("")))));
    const auto line = [&](size_t look, const std::string& name, double l2, double linf) {
      text += fmt::format("{},{},{},{},{}\n", who, trajectory["steps"][look].dump(), quoted(name), l2, linf);
    };
    for (size_t look = 0; look < trajectory["steps"].size(); ++look) {
      line(look, "all", number_at(trajectory["all_l2"], look), number_at(trajectory["all_linf"], look));
      for (size_t i = 0; i < trajectory["parameters"].size(); ++i)
        line(look, plain_text(trajectory["parameters"][i]), number_at(trajectory["l2"][look], i),
             number_at(trajectory["linf"][look], i));
    }
  }
  return text;
}

}  // namespace d5
