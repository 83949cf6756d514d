// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_ranks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "d5/bench/progress.hpp"
#include "d5/bench/train_session.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/distributed/launch.hpp"

namespace d5 {
namespace {

constexpr double step_limit_s = 600;  // a rank may compute that long before it is taken for lost
constexpr std::string_view mark = "d5-train ";

void tell(const Json& what) { std::cout << fmt::format("{}{}\n", mark, what.dump()) << std::flush; }

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

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

// A rank's own words, else the last that mpirun said.
std::string last_words(const std::vector<std::string>& log) {
  for (const std::string& line : log)
    if (line.starts_with("d5: ")) return line.substr(4);
  std::string all = "[train] the ranks ended before the training did";
  for (size_t i = log.size() > 12 ? log.size() - 12 : 0; i < log.size(); ++i) all += "\n  " + log[i];
  return all;
}

Outcome train_by_mpirun(const Json& fields, Depth depth) {
  open_communicator("mpi");  // why it is off is said here
  const Json request = {{"fields", fields}, {"depth", std::string(name(depth))}};
  const Letter letter(request);
  std::string command;
  for (const std::string& word :
       mpirun_command(fields.at("ranks"), {.mpirun = "mpirun", .hosts = cluster_hosts(), .mpirun_options = {}},
                      {own_program(), "train-rank", letter.path()}))
    command += quoted(word) + " ";
  FILE* const pipe = popen((command + "< /dev/null 2>&1").c_str(), "r");
  if (!pipe) throw Error("[train] mpirun cannot be started");
  std::vector<std::string> log;
  std::optional<Outcome> outcome;
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, pipe) > 0) {
    std::string text(line);
    if (text.ends_with('\n')) text.pop_back();
    const size_t at = text.find(mark);
    const Json told = at == std::string::npos ? Json() : Json::parse(text.substr(at + mark.size()), nullptr, false);
    if (!told.is_object()) {
      if (!text.empty()) log.push_back(text);
    } else if (told.contains("progress")) {
      report_progress(told["progress"], told.value("fraction", 0.0));
    } else {
      outcome = Outcome{told.at("status"), told.at("reason"), told.at("details")};
    }
  }
  std::free(line);
  const int status = pclose(pipe);
  if (!outcome || status != 0) throw Error("{}", last_words(log));
  return *outcome;
}

}  // namespace

Outcome train_by_ranks(const Json& fields, Depth depth) {
  const int ranks = fields.at("ranks");
  Outcome outcome;
  if (fields.at("communicator") == "mpi") {
    outcome = train_by_mpirun(fields, depth);
    if (launcher_of({.hosts = cluster_hosts()}) == "srun") outcome.details["warnings"].push_back(srun_warning);
  } else {
    run_ranks({.ranks = ranks, .per_node = fields.at("ranks_per_node").get<int>(), .time_limit_s = step_limit_s},
              [&](Communicator& communicator) {
                Outcome own = run_training(fields, depth, &communicator);
                if (communicator.rank() == 0) outcome = std::move(own);
              });
  }
  const int threads = fields.at("threads");
  if (ranks * threads > usable_cores() && !fields.at("replay").get<bool>())
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
    communicator.set_time_limit(step_limit_s);
    if (communicator.rank() == 0)
      set_progress_listener([](const std::string& text, double fraction) {
        tell({{"progress", text}, {"fraction", fraction}});
      });
    const Outcome outcome = run_training(fields, parse_depth(request.at("depth").get<std::string>()), &communicator);
    if (communicator.rank() == 0)
      tell({{"status", outcome.status}, {"reason", outcome.reason}, {"details", outcome.details}});
    communicator.barrier();
  } catch (const std::exception& error) {
    entry.abort(*world, error.what());
    return 1;
  }
  return 0;
}

}  // namespace d5
