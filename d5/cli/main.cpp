// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "d5/bench/train_ranks.hpp"
#include "d5/cli/comm_launch.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/core/error.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/version.hpp"
#include "d5/distributed/launch.hpp"
#include "d5/distributed/watcher.hpp"
#include "d5/runner/worker.hpp"

namespace d5 {
namespace {

// The nearest legal option or command beside CLI11's own words.
std::string advice(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* command = &program;
  for (const CLI::App* chosen : program.get_subcommands()) command = chosen;
  std::vector<std::string> legal;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) legal.push_back("--" + name);
    for (const std::string& name : option->get_snames()) legal.push_back("-" + name);
  }
  if (command == &program)
    for (const CLI::App* sub : program.get_subcommands({})) legal.push_back(sub->get_name());
  std::string text = error.what();
  for (const std::string& word : command->remaining()) {
    const std::string near = nearest_name(word.substr(0, word.find('=')), legal);
    if (!near.empty()) text += fmt::format("; did you mean '{}'?", near);
  }
  return text + fmt::format("\nSee 'd5{} --help'.", command == &program ? "" : " " + command->get_name());
}

int run_program(const std::vector<std::string>& arguments) {
  CLI::App program{"deep500: benchmarks deep learning at four levels, with validation inside every timed case", "d5"};
  program.set_version_flag("--version", "d5 " + version());
  program.require_subcommand(0, 1);
  program.footer(
      "Exit status: 0 all passed, 1 a case failed, 2 wrong usage, 3 a gate said no, 130 interrupted.\n"
      "'d5 COMMAND --help' tells all about a command.");
  open_plugins(arguments);
  std::map<std::string, RunCommand> commands{{"op", add_op(program, arguments)},
                                             {"net", add_net(program, arguments)},
                                             {"model", add_model(program, arguments)},
                                             {"data", add_data(program)},
                                             {"train", add_train(program, arguments)},
                                             {"search", add_search(program)},
                                             {"run", add_run(program)},
                                             {"compare", add_compare(program)},
                                             {"comm", add_comm(program)},
                                             {"cluster", add_cluster(program)},
                                             {"list", add_list(program)},
                                             {"doctor", add_doctor(program)},
                                             {"completion", add_completion(program)}};
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    program.parse(reversed);
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "d5: {}\n", advice(program, error));
    return exit_usage;
  }
  for (const CLI::App* chosen : program.get_subcommands()) {
    const std::string name = chosen->get_name();
    const auto started = started_as_rank();
    if (started && started->size > 1 && (name == "train" || name == "comm" || name == "search")) {
      if (started->rank > 0) return exit_passed;  // one message is enough
      throw UsageError("[{}] d5 starts its ranks itself; run it without mpirun or srun, with --ranks {}", name,
                       started->size);
    }
    const int status = commands.at(name)();
    return status == exit_passed && !plugins_not_opened().empty() ? exit_failed : status;
  }
  std::cout << program.help();
  return exit_usage;
}

template <class Act>
int status_of(Act act) {
  try {
    return act();
  } catch (const UsageError& error) {
    fmt::print(stderr, "d5: {}\n", error.what());
    return exit_usage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "d5: {}\n", error.what());
    return was_interrupted() ? exit_interrupted : exit_failed;
  }
}

// stdout is the result: one that is not whole (a full disk) is a failure, whatever came before.
int with_whole_stdout(int status) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::cout.good()) return status;
  fmt::print(stderr, "d5: stdout cannot be written; the result there is not whole\n");
  return status == exit_passed ? exit_failed : status;
}

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  using namespace d5;
  if (argc == 2 && std::strcmp(argv[1], "worker") == 0) return worker_main();
  if (argc == 3 && std::strcmp(argv[1], "comm-rank") == 0) return status_of([&] { return comm_rank_main(argv[2]); });
  if (argc == 3 && std::strcmp(argv[1], "train-rank") == 0) return status_of([&] { return train_rank_main(argv[2]); });
  if (argc > 1 && std::strcmp(argv[1], "watcher") == 0)
    return status_of([&] { return watcher_main({argv + 2, argv + argc}); });
  const int status = with_whole_stdout(status_of([&] { return run_program({argv + 1, argv + argc}); }));
  if (opened_plugins().empty()) return status;
  // What a plugin does when it is closed must not decide about the exit status.
  std::fflush(nullptr);
  std::_Exit(status);
}
