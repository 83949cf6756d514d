// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_ranks.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "d5/bench/progress.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/bench/train_session.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/distributed/launch.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr std::string_view mark = "d5-train ";

void tell(const Json& what) { std::cout << fmt::format("{}{}\n", mark, what.dump()) << std::flush; }

std::vector<std::string> cluster_hosts() {
  std::vector<std::string> hosts;
  const char* const list = std::getenv("D5_CLUSTER_HOSTS");
  std::istringstream parts(list ? list : "");
  for (std::string host; std::getline(parts, host, ',');) hosts.push_back(host);
  return hosts;
}

// A file for the case, gone with it.
class Letter {
 public:
  explicit Letter(const Json& contents)
      : path_(std::filesystem::temp_directory_path() / fmt::format("d5-train-{}.json", getpid())) {
    std::ofstream(path_) << contents.dump();
  }
  ~Letter() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Ranks that ended by themselves, for a reason that would be the same again.
struct Final {
  std::string why;
  bool usage;
};

// When rank 0 takes its first step, and which one.
using Began = std::function<void(Index step)>;

Outcome train_by_mpirun(const Json& fields, Depth depth, const Began& began) {
  open_communicator("mpi");  // why it is off is said here
  const Json request = {{"fields", fields}, {"depth", std::string(name(depth))}};
  const Letter letter(request);
  LaunchedRanks ranks(mpirun_command(fields.at("ranks"),
                                     {.mpirun = "mpirun", .hosts = cluster_hosts(), .mpirun_options = {}},
                                     {own_program(), "train-rank", letter.path()}));
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
  if (!outcome || !ranks.succeeded()) throw Error("{}", ranks.last_words());
  return *outcome;
}

Outcome train_by_threads(const Json& fields, Depth depth, const Began& began) {
  Outcome outcome;
  run_ranks({.ranks = fields.at("ranks").get<int>(),
             .per_node = fields.at("ranks_per_node").get<int>(),
             .time_limit_s = fields.at("rank_limit").get<double>()},
            [&](Communicator& communicator) {
              const bool tells = communicator.rank() == 0;
              Outcome own = run_training(fields, depth, &communicator, tells ? began : Began());
              if (tells) outcome = std::move(own);
            });
  return outcome;
}

std::optional<std::filesystem::file_time_type> written(const std::string& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  return error ? std::nullopt : std::optional(time);
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

Outcome train_by_ranks(const Json& fields, Depth depth) {
  Outcome outcome = train_with_restarts(fields, depth);
  const int ranks = fields.at("ranks"), threads = fields.at("threads");
  if (ranks * threads > usable_cores())
    outcome.details["warnings"].push_back(
        fmt::format("{} ranks with {} threads each share {} cores: this measures contention, not scaling", ranks,
                    threads, usable_cores()));
  return outcome;
}

int train_rank_main(const std::string& file) {
  for (const std::string& library : plugins_of_environment()) load_plugin(library);
  const communicators::Entry& entry = open_communicator("mpi");
  std::shared_ptr<Transport> world = entry.world();
  try {
    std::ifstream input(file);
    if (!input) throw Error("[train] rank {} cannot read {}: machines need a folder in common", world->rank(), file);
    const Json request = Json::parse(input);
    const Json& fields = request.at("fields");
    set_threads(fields.at("threads").get<int>());
    Communicator communicator(world);
    communicator.set_time_limit(fields.at("rank_limit").get<double>());
    if (communicator.rank() == 0)
      set_progress_listener([](const std::string& text, double fraction) {
        tell({{"progress", text}, {"fraction", fraction}});
      });
    Began began;
    if (communicator.rank() == 0) began = [](Index step) { tell({{"began", step}}); };
    const Outcome outcome =
        run_training(fields, parse_depth(request.at("depth").get<std::string>()), &communicator, began);
    if (communicator.rank() == 0)
      tell({{"status", outcome.status}, {"reason", outcome.reason}, {"details", outcome.details}});
    communicator.barrier();
  } catch (const std::exception& error) {
    const bool usage = dynamic_cast<const UsageError*>(&error) != nullptr;
    if (usage || dynamic_cast<const Diverged*>(&error)) tell({{"final", error.what()}, {"usage", usage}});
    entry.abort(*world, error.what());
    return 1;
  }
  return 0;
}

}  // namespace d5
