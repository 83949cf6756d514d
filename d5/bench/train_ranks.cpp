// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_ranks.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>

#include "d5/bench/progress.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/bench/train_session.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/rng.hpp"
#include "d5/distributed/cluster.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/distributed/launch.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr std::string_view mark = "d5-train ";

void tell(const Json& what) { std::cout << fmt::format("{}{}\n", mark, what.dump()) << std::flush; }

std::string text_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Ranks that ended by themselves, for a reason that would be the same again.
struct Final {
  std::string why;
  bool usage;
};

// When rank 0 takes its first step, and which one.
using Began = std::function<void(Index step)>;

std::optional<std::filesystem::file_time_type> written(const std::string& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  return error ? std::nullopt : std::optional(time);
}

// Who of `before` is not among those of `now`; `before` becomes those of `now`. Each says its own number.
std::vector<int> lost_of(std::vector<int>& before, Communicator& now, int own) {
  std::vector<int> left(static_cast<size_t>(now.size())), lost;
  now.run({.collective = Collective::allgather, .input = &own, .output = left.data(), .count = 1, .dtype = DType::i32});
  std::ranges::set_difference(before, left, std::back_inserter(lost));  // both in their old order
  before = std::move(left);
  return lost;
}

// What one rank does. Elastic: where a rank is lost the others make a communicator of those that are left and go on
// from the last checkpoint; each keeps its batch, so that of all ranks is smaller from there on. True: it is rank 0
// that ends.
bool train_as_rank(Json fields, Depth depth, Communicator& all, const std::function<Began(bool tells)>& began,
                   Outcome& outcome) {
  const bool elastic = fields.at("elastic");
  const std::string file = checkpoint_file(fields, fields.at("ranks"));
  const auto before = written(file);
  std::optional<Communicator> left;
  Json shrunk = Json::array();
  std::vector<int> numbers(static_cast<size_t>(all.size()));  // that ranks had at first
  std::iota(numbers.begin(), numbers.end(), 0);
  for (Communicator* now = &all;;) {
    const bool tells = now->rank() == 0;
    try {
      const double lost = now_seconds();
      if (!shrunk.empty()) shrunk.back()["lost"] = lost_of(numbers, *now, all.rank());
      const Began told = began(tells);
      outcome = run_training(fields, depth, now, [&](Index step) {
        if (!shrunk.empty() && !shrunk.back().contains("recovery_s")) {
          shrunk.back()["resumed_at"] = step;
          shrunk.back()["recovery_s"] = shrunk.back()["shrink_s"].get<double>() + now_seconds() - lost;
        }
        if (told) told(step);
      });
      now->barrier();
      if (!shrunk.empty()) outcome.details["training"]["shrunk"] = shrunk;
      return tells;
    } catch (const RankLost& error) {
      if (!elastic) throw;
      const double lost = now_seconds();
      const int ranks = now->size();
      Communicator fewer = now->shrink();
      if (fewer.size() == ranks) throw;  // nobody was lost
      shrunk.push_back({{"why", error.what()}, {"ranks", fewer.size()}, {"shrink_s", now_seconds() - lost}});
      left.emplace(std::move(fewer));
      now = &*left;
      if (written(file) != before) fields["resume"] = true;
    }
  }
}

// Of ranks that are processes; a cluster of the case's own lives as long as this.
struct Machines {
  explicit Machines(const Json& fields) : hosts(cluster_hosts()) {
    const std::string link = fields.at("link");
    if (link.empty()) return;
    if (const auto reason = why_no_cluster()) throw CannotRun(fmt::format("[train] link: {}", *reason));
    const int nodes = machines_needed(fields.at("ranks"), std::max(1, fields.at("ranks_per_node").get<int>()));
    own.emplace(ClusterOptions{.name = "train", .nodes = nodes, .rate = link, .burst = "128kb"});
    hosts.clear();
    for (const ClusterNode& node : (*own)->nodes) hosts.push_back(node.host);
  }
  std::vector<std::string> on_first(std::vector<std::string> command) const {
    if (!own) return command;
    const ClusterCommand inside = in_cluster(**own, 0, command);
    command = {"env"};
    for (const auto& [name, value] : inside.environment) command.push_back(name + "=" + value);
    command.insert(command.end(), inside.command.begin(), inside.command.end());
    return command;
  }
  std::vector<std::string> hosts;
  std::optional<OwnCluster> own;
};

Outcome train_by_mpirun(const Json& fields, Depth depth, const Began& began) {
  open_communicator("mpi");  // why it is off is said here
  const Json request = {{"fields", fields}, {"depth", std::string(name(depth))}};
  const RanksFolder folder;
  const std::string letter = folder.path() + "/case.json";
  std::ofstream(letter) << request.dump();
  const Machines machines(fields);
  const LaunchOptions options{.mpirun = "mpirun",
                              .hosts = machines.hosts,
                              .mpirun_options = {},
                              .ranks_per_node = fields.at("ranks_per_node"),
                              .elastic = fields.at("elastic"),
                              .segments = folder.segments()};
  LaunchedRanks ranks(
      machines.on_first(mpirun_command(fields.at("ranks"), options, {own_program(), "train-rank", letter})), folder);
  std::optional<Outcome> outcome;
  std::optional<Final> ended;
  for (std::string line; ranks.next_line(line);) {
    const size_t at = line.find(mark);
    const Json told = at == std::string::npos ? Json() : Json::parse(line.substr(at + mark.size()), nullptr, false);
    if (!told.is_object())
      ranks.remember(line);
    else if (told.contains("progress"))
      report_progress(told["progress"], told.value("fraction", 0.0));
    else if (told.contains("began"))
      began(told["began"]);
    else if (told.contains("final"))
      ended = Final{told["final"], told.at("usage")};
    else
      outcome = Outcome{told.at("status"), told.at("reason"), told.at("details")};
  }
  if (ended) {
    if (ended->usage) throw UsageError("{}", ended->why);
    throw Diverged("{}", ended->why);
  }
  // mpirun counts a rank that was lost as its failure, also where the others went on to the end.
  if (!outcome || (!ranks.succeeded() && !fields.at("elastic").get<bool>())) throw Error("{}", ranks.last_words());
  if (machines.own)
    for (const std::string& other : (*machines.own)->removed)
      outcome->details["warnings"].push_back("removed a cluster: " + other);
  return *outcome;
}

Outcome train_by_threads(const Json& fields, Depth depth, const Began& began) {
  Outcome outcome;
  run_ranks({.ranks = fields.at("ranks").get<int>(),
             .per_node = fields.at("ranks_per_node").get<int>(),
             .time_limit_s = fields.at("rank_limit").get<double>(),
             .elastic = fields.at("elastic")},
            [&](Communicator& communicator) {
              Outcome own;
              const auto tells = [&](bool is_first) { return is_first ? began : Began(); };
              if (train_as_rank(fields, depth, communicator, tells, own)) outcome = std::move(own);
            });
  return outcome;
}

// Ranks that are lost are started again, from the last checkpoint of this run.
Outcome train_with_restarts(Json fields, Depth depth) {
  const Index restarts = fields.at("restarts");
  const std::string file = checkpoint_file(fields, fields.at("ranks"));
  const auto before = written(file);
  Json happened = Json::array();
  for (double lost = 0;;) {
    const Began began = [&](Index step) {
      if (happened.empty() || happened.back().contains("recovery_s")) return;
      happened.back()["resumed_at"] = step;
      happened.back()["recovery_s"] = now_seconds() - lost;
    };
    try {
      Outcome outcome = fields.at("communicator") == "mpi" ? train_by_mpirun(fields, depth, began)
                                                           : train_by_threads(fields, depth, began);
      if (!happened.empty()) outcome.details["training"]["restarts"] = happened;
      return outcome;
    } catch (const UsageError&) {
      throw;
    } catch (const Diverged&) {
      throw;
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {
      lost = now_seconds();
      if (static_cast<Index>(happened.size()) == restarts) {
        if (restarts == 0) throw;
        throw Error("{} (after {} restarts)", error.what(), restarts);
      }
      happened.push_back({{"why", error.what()}});
      if (written(file) != before) fields["resume"] = true;
      report_progress(fmt::format("restart {} of {}: {}", happened.size(), restarts, error.what()), 0);
    }
  }
}

}  // namespace

bool needs_ranks(const Json& fields) {
  return scheme_of(fields).name != "single" || (fields.at("communicator") == "mpi" && !cluster_hosts().empty());
}

std::string usual_communicator(const Json& fields) {
  const bool wanted = std::getenv("D5_LAUNCHER") || std::getenv("SLURM_JOB_ID") || !cluster_hosts().empty();
  if (fields.at("ranks").get<Index>() == 1 || !wanted) return "threads";
  const auto is_mpi = [](const CommunicatorStatus& status) { return status.name == "mpi" && status.available; };
  return std::ranges::any_of(communicator_statuses(), is_mpi) ? "mpi" : "threads";
}

Outcome train_by_ranks(const Json& fields, Depth depth) {
  Outcome outcome = train_with_restarts(fields, depth);
  const int ranks = fields.at("ranks"), threads = fields.at("threads");
  if (ranks * threads > usable_cores() && !fields.at("replay").get<bool>())
    outcome.details["warnings"].push_back(
        fmt::format("{} ranks with {} threads each share {} cores: this measures contention, not scaling", ranks,
                    threads, usable_cores()));
  return outcome;
}

namespace {

// What must be the same on all ranks, by hash: else they would wait for each other, or worse.
void check_equal(Communicator& communicator, const std::string& request) {
  std::string program;
  Dl_info library{};
  dladdr(reinterpret_cast<void*>(&train_rank_main), &library);
  for (const std::string& part : {own_program(), std::string(library.dli_fname ? library.dli_fname : "")})
    program += fmt::format("{:016x} ", stream_of(text_of_file(part)));
  const std::vector<uint64_t> mine{stream_of(program), stream_of(request)};
  std::vector<uint64_t> all(mine.size() * static_cast<size_t>(communicator.size()));
  communicator.run({.collective = Collective::allgather,
                    .input = mine.data(),
                    .output = all.data(),
                    .count = static_cast<int64_t>(mine.size()),
                    .dtype = DType::u64});
  for (size_t rank = 1; rank < static_cast<size_t>(communicator.size()); ++rank) {
    if (all[2 * rank] != all[0])
      throw UsageError("[train] rank {} is another program than rank 0: install the same deep500 on all machines",
                       rank);
    if (all[2 * rank + 1] != all[1])
      throw UsageError("[train] rank {} has another case than rank 0: all ranks need the same recipe", rank);
  }
}

}  // namespace

int train_rank_main(const std::string& file) {
  for (const std::string& library : plugins_of_environment()) load_plugin(library);
  const communicators::Entry& entry = open_communicator("mpi");
  std::shared_ptr<Transport> world = entry.world();
  try {
    if (access(file.c_str(), R_OK) != 0)
      throw Error("[train] rank {} cannot read {}: machines need a folder in common", world->rank(), file);
    const std::string text = text_of_file(file);
    const Json request = Json::parse(text);
    const Json& fields = request.at("fields");
    set_threads(fields.at("threads").get<int>());
    Communicator communicator(world);
    if (communicator.size() != fields.at("ranks").get<int>())  // each would train alone, and say that it was several
      throw UsageError(
          "[train] {} ranks were started, the case is for {}: is this mpirun of the same MPI that d5 was built with?",
          communicator.size(), fields.at("ranks").get<int>());
    check_equal(communicator, text);
    communicator.set_time_limit(fields.at("rank_limit").get<double>());
    if (fields.at("elastic").get<bool>())
      if (const auto reason = world->why_no_shrink()) throw UsageError("[train] elastic is off: {}", *reason);
    const auto began = [](bool tells) -> Began {
      if (!tells) return {};
      set_progress_listener([](const std::string& text, double fraction) {
        tell({{"progress", text}, {"fraction", fraction}});
      });
      return [](Index step) { tell({{"began", step}}); };
    };
    Outcome outcome;
    const Depth depth = parse_depth(request.at("depth").get<std::string>());
    if (train_as_rank(fields, depth, communicator, began, outcome))
      tell({{"status", outcome.status}, {"reason", outcome.reason}, {"details", outcome.details}});
    if (outcome.details.value("training", Json::object()).contains("shrunk")) {
      std::cout << std::flush;
      _exit(0);  // ranks are missing where the library would meet all of them
    }
  } catch (const std::exception& error) {
    const bool usage = dynamic_cast<const UsageError*>(&error) != nullptr;
    if (usage || dynamic_cast<const Diverged*>(&error)) tell({{"final", error.what()}, {"usage", usage}});
    entry.abort(*world, error.what());
    return 1;
  }
  return 0;
}

}  // namespace d5
