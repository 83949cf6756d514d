// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "d5/bench/comm.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/core/plugins.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/summary.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

Metric scaled(const Summary& time, std::string unit, const std::function<double(double)>& f) {
  Metric metric{.unit = std::move(unit), .median = f(time.median), .n = time.n, .n_eff = time.n_eff};
  if (time.ci95) metric.ci95 = std::minmax({f(time.ci95->low), f(time.ci95->high)});
  return metric;
}

std::string rerun(const Json& fields) {
  std::string text = "d5 comm " + fields.at("collective").get<std::string>();
  for (const auto& [field, value] : fields.items()) {
    const bool usual = (field == "reduction" && value == "sum") || (field == "root" && value == 0) ||
                       (field == "density" && value == 1.0) || (field == "ranks_per_node" && value == 0) ||
                       (field == "hosts" && value == "");
    if (field == "collective" || usual) continue;
    std::string option = field;
    std::ranges::replace(option, '_', '-');
    text += fmt::format(" --{} {}", option, shell_word(value));
  }
  return text;
}

struct Told {
  std::string status = "passed", reason;
  Samples samples;
  Json details = Json::object();
  std::vector<int64_t> last;
  std::vector<double> bytes_sent, most_bytes_sent, messages;
};

void take(Told& all, const Json& line, int launch, double begin) {
  if (line["what"] != "slice") {
    all.status = line["what"];
    all.reason = line["reason"];
    return;
  }
  if (line["wrong"] > 0 && all.status == "passed") {
    all.status = "failed";
    all.reason = fmt::format("{} elements are wrong after timing, in round {} of launch {}",
                             line["wrong"].get<int64_t>(), line["round"].get<int>(), launch);
  }
  if (line.contains("chosen")) all.details["chosen"] = line["chosen"];
  const std::vector<double> times = line["time_s"], ends = line["end_s"];
  for (size_t i = 0; i < times.size(); ++i) {
    all.samples.time_s.push_back(times[i]);
    all.samples.start_s.push_back(ends[i] - times[i] - begin);
    all.samples.launch.push_back(launch);
    all.samples.round.push_back(line["round"]);
  }
  const std::vector<int64_t> last = line["last"];
  all.last.resize(last.size());
  for (size_t r = 0; r < last.size(); ++r) all.last[r] += last[r];
  if (!line.contains("bytes_sent")) return;
  all.bytes_sent.push_back(line["bytes_sent"]);
  all.most_bytes_sent.push_back(line["most_bytes_sent"]);
  all.messages.push_back(line["messages"]);
}

// One message within a machine is not held against a network that it does not cross.
bool goes_as_far_as_the_ping_pong(const CommGroup& group, int ranks, const std::vector<int>& nodes) {
  if (group.collective != Collective::send || std::ranges::max(nodes) == 0) return true;
  return nodes[static_cast<size_t>(group.root)] != nodes[static_cast<size_t>((group.root + 1) % ranks)];
}

void add_figures(Record& record, const Told& told, const CommGroup& group, const std::string& algorithm,
                 const std::vector<int>& nodes, double alpha, double beta) {
  const auto ranks = static_cast<int>(nodes.size());
  const std::vector<int> neighbours = neighbours_of(group, ranks, 0);
  const Operation op = operation_of(group, ranks, neighbours);
  const auto bytes = static_cast<double>(total_bytes(op, ranks));
  const Summary time = summarize(told.samples.time_s);
  record.warnings.insert(record.warnings.end(), time.warnings.begin(), time.warnings.end());
  const double factor = bus_factor(group.collective, ranks);
  record.metrics.emplace_back("time", scaled(time, "s", [](double t) { return t; }));
  if (bytes > 0) {
    record.metrics.emplace_back("algbw", scaled(time, "B/s", [&](double t) { return bytes / t; }));
    record.metrics.emplace_back("busbw", scaled(time, "B/s", [&](double t) { return factor * bytes / t; }));
  }
  if (!told.bytes_sent.empty()) {
    const double sent = median(told.bytes_sent), least = least_bytes_sent(op, ranks);
    record.metrics.emplace_back("bytes_sent", Metric{.unit = "B", .median = sent, .n = told.bytes_sent.size()});
    record.metrics.emplace_back("messages_sent",
                                Metric{.unit = "", .median = median(told.messages), .n = told.messages.size()});
    record.details["traffic"] = {{"all_ranks_bytes", sent},
                                 {"one_rank_most_bytes", median(told.most_bytes_sent)},
                                 {"least_bytes", least},
                                 {"over_least", least > 0 ? Json(sent / least) : Json()}};
  }
  for (const Quantile& q : time.tails) {
    Json tail = {{"value", q.value}, {"ci95", nullptr}};
    if (q.interval) tail["ci95"] = {q.interval->low, q.interval->high};
    record.details["tails"][fmt::format("p{:g}", 100 * q.p)] = tail;
  }
  // Sparse streams need not carry zeros.
  const double carried = algorithm == "sparse" ? group.density * bytes : bytes;
  const double bound = alpha_beta_bound(group.collective, nodes, group.root, carried, alpha, beta);
  if (bound > 0 && goes_as_far_as_the_ping_pong(group, ranks, nodes)) {
    record.bound = Bound{"alpha-beta", bound, "s", bound / time.median};
    if (record.bound->share > 1.05)
      record.warnings.push_back(
          fmt::format("faster than its bound ({:.0f} %): {}", 100 * record.bound->share,
                      group.collective == Collective::put || group.collective == Collective::get
                          ? "within one memory a window is a copy by one rank, which is no message"
                          : "the ping-pong or the time is off"));
  }
  const auto straggler = std::ranges::max_element(told.last) - told.last.begin();
  record.details["last_rank"] = {
      {"rank", straggler}, {"times", told.last[static_cast<size_t>(straggler)]}, {"of", told.samples.time_s.size()}};
}

}  // namespace

std::vector<Record> comm_records(const CommPlan& plan, const CommRun& run, const std::vector<Json>& told) {
  std::map<std::pair<size_t, std::string>, Told> cases;
  std::vector<double> alphas, betas;
  Json nodes, library, clocks = Json::array();  // clocks: of each launch that came to its end
  int launch = -1;
  double begin = 0;
  for (const Json& line : told) {
    if (line["what"] == "hello") {
      ++launch;
      begin = 0;
      alphas.push_back(line["alpha_s"]);
      betas.push_back(line["beta_s_per_byte"]);
      nodes = line["nodes"];
      library = line["library"];
    } else if (line["what"] == "done") {
      clocks.push_back(line["clocks"]);
    } else if (line.contains("algorithm")) {
      if (begin == 0 && line.contains("end_s"))
        begin = line["end_s"][0].get<double>() - line["time_s"][0].get<double>();
      take(cases[{line["group"], line["algorithm"]}], line, launch, begin);
    }
  }
  std::vector<Record> records;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const CommGroup& group = plan.groups[g];
    for (const std::string& algorithm : group.algorithms) {
      const auto found = cases.find({g, algorithm});
      const Told one = found == cases.end() ? Told{.status = "error", .reason = "no rank told of it"} : found->second;
      // What nobody can do is said all the same.
      if (one.status == "unsupported" && !run.all_named && group.algorithms.size() > 1) continue;
      Record record{.kind = "comm", .status = one.status, .reason = one.reason};
      record.fields = run.fields;
      record.fields.update({{"collective", name(group.collective)},
                            {"algorithm", algorithm},
                            {"bytes", group.bytes},
                            {"dtype", name(group.dtype)},
                            {"reduction", name(group.reduction)},
                            {"root", group.root},
                            {"density", group.density}});
      if (group.collective == Collective::neighbour_exchange) record.fields["topology"] = group.topology;
      record.rerun = rerun(record.fields);
      Json shared = record.fields;
      shared.erase("algorithm");
      record.group = content_hash(shared.dump()).substr(0, 16);
      record.warnings = run.warnings;
      record.details = one.details;
      record.details.update({{"library", library}, {"nodes", nodes}, {"launches", run.launches}, {"clocks", clocks}});
      if (one.status == "passed" && !one.samples.time_s.empty()) {
        const double alpha = median(alphas), beta = median(betas);
        record.details["ping_pong"] = {{"alpha_s", alpha}, {"beta_s_per_byte", beta}};
        record.details["check"] = {{"compared", "every element on every rank, before timing and after every slice"}};
        record.samples = one.samples;
        record.stopped = "fixed";
        add_figures(record, one, group, algorithm, nodes.get<std::vector<int>>(), alpha, beta);
      }
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace d5
