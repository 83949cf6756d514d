// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/net_views.hpp"

#include "d5/report/context_table.hpp"
#include "d5/report/trace.hpp"
#include "d5/report/validation_table.hpp"

namespace d5 {
namespace {

// Steps of all cases in one file, each as a process of its own that begins at 0, so that they lie below each other.
int run_with_trace(const Recipe& recipe, RunFlags flags, const std::string& path) {
  if (flags.depth == "list" || flags.depth == "build")
    throw UsageError("[net] --trace with --mode {}: a step must be run; legal: check, measure", flags.depth);
  flags.metrics += (flags.metrics.empty() ? "" : ",") + std::string("trace");
  TraceFile trace(path);
  int process = 0;
  return execute(
      recipe, flags, {.made = [&](const Record& record, const std::string& folder) {
        const nlohmann::json report =
            record.details.value("metrics", nlohmann::json::object()).value("trace", nlohmann::json::object());
        if (!report.contains("file")) return;
        const std::string file = folder + "/" + report["file"].get<std::string>();
        trace.add(read_trace_events(file, ++process, record.rerun));
      }});
}

}  // namespace

void add_net_view_options(CLI::App& command, NetViewFlags& flags) {
  const std::string group = "Views of the network";
  command
      .add_flag("--validate", flags.validate,
                "Compare every node of every backend with the operators' own loops; names the first that deviates")
      ->group(group);
  command
      .add_flag("--context", flags.context,
                "Times of the operators in the network beside the same ones alone, with hot and with cold caches")
      ->group(group);
  command.add_option("--trace", flags.trace, "Also write a Chrome/Perfetto trace of one step of each case")
      ->group(group);
  command.add_option("--top", flags.top, "How many rows a view shows, the largest first")
      ->group(group)
      ->capture_default_str();
}

int run_net_view(Recipe recipe, RunFlags flags, const NetViewFlags& view) {
  if (view.top < 1) throw UsageError("[net] --top is {}; at least 1 is needed", view.top);
  if (view.validate + view.context + !view.trace.empty() > 1)
    throw UsageError("[net] --validate, --context and --trace: one of them at a time");
  if (!view.trace.empty()) return run_with_trace(recipe, std::move(flags), view.trace);
  const auto top = static_cast<size_t>(view.top);
  if (view.validate) {
    recipe.kind = "net-validate";
    return execute(recipe, flags, {.text = [&](const std::vector<Record>& records) {
                     return validation_text(records, {.colour = use_colour(), .top = top});
                   }});
  }
  if (!view.context) return execute(recipe, flags);
  recipe.kind = "net-context";
  recipe.axes.insert(recipe.axes.begin(), Axis{"top", {view.top}});
  return execute(recipe, flags,
                 {.text = [&](const std::vector<Record>& records) { return context_text(records, use_colour()); }});
}

}  // namespace d5
