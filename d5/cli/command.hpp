// SPDX-License-Identifier: Apache-2.0
// One file per command. add_X() puts the command and its options on the program; the returned function runs it and
// gives the exit status: 0 all passed, 1 a case failed, 2 wrong usage, 3 a gate said no, 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace d5 {

using RunCommand = std::function<int()>;

RunCommand add_net(CLI::App&, const std::vector<std::string>& arguments);
RunCommand add_op(CLI::App&, const std::vector<std::string>& arguments);
RunCommand add_model(CLI::App&, const std::vector<std::string>& arguments);
RunCommand add_run(CLI::App&);
RunCommand add_train(CLI::App&, const std::vector<std::string>& arguments);
RunCommand add_search(CLI::App&);
RunCommand add_compare(CLI::App&);
RunCommand add_data(CLI::App&);
RunCommand add_data_bench(CLI::App& data);
RunCommand add_data_storage(CLI::App& data);
RunCommand add_comm(CLI::App&);
RunCommand add_cluster(CLI::App&);
RunCommand add_list(CLI::App&);
RunCommand add_doctor(CLI::App&);
RunCommand add_completion(CLI::App&);

inline constexpr int exit_passed = 0, exit_failed = 1, exit_usage = 2, exit_refused = 3, exit_interrupted = 130;

}  // namespace d5
