// SPDX-License-Identifier: Apache-2.0
// d5 completion SHELL: a script for the shell, made from the commands as they are; names come from 'd5 list' when asked
// for.
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "d5/cli/command.hpp"
#include "d5/core/error.hpp"

namespace d5 {
namespace {

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* part : command.get_subcommands({})) {  // d5 data info
    names.push_back(part->get_name());
    for (std::string& name : long_options(*part))
      if (!std::ranges::count(names, name)) names.push_back(std::move(name));
  }
  return names;
}

std::string bash(const CLI::App& program) {
  std::string cases;
  std::vector<std::string> commands;
  for (const CLI::App* command : program.get_subcommands({})) {
    commands.push_back(command->get_name());
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(long_options(*command), " "));
  }
  return fmt::format(R"bash(_d5() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}" words=""
  if (( COMP_CWORD == 1 )); then COMPREPLY=($(compgen -W "{} --help --version" -- "$current")); return; fi
  case "$command:$previous" in
    op:op) words="$("${{COMP_WORDS[0]}}" list operators 2>/dev/null | cut -d' ' -f1)" ;;
    list:list) words="$("${{COMP_WORDS[0]}}" list 2>/dev/null)" ;;
    completion:completion) words="bash zsh fish" ;;
    *:--backend) words="$("${{COMP_WORDS[0]}}" list backends 2>/dev/null | cut -d' ' -f1)" ;;
    *:--dtype) words="$("${{COMP_WORDS[0]}}" list dtypes 2>/dev/null)" ;;
    *:--suite) words="$("${{COMP_WORDS[0]}}" list suites 2>/dev/null | cut -d' ' -f1)" ;;
    *:--metric) words="$("${{COMP_WORDS[0]}}" list metrics 2>/dev/null | cut -d' ' -f1)" ;;
    *:--mode) words="list build check measure" ;;
    *:--pass) words="forward backward" ;;
  esac
  [[ -n $words ]] && {{ COMPREPLY=($(compgen -W "$words" -- "$current")); return; }}
  case "$command" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $([[ $current == -* ]] || compgen -f -- "$current"))
}}
complete -F _d5 d5
)bash",
                     fmt::join(commands, " "), cases);
}

std::string fish(const CLI::App& program) {
  std::string text = "complete -c d5 -f\n";
  for (const CLI::App* command : program.get_subcommands({})) {
    text += fmt::format("complete -c d5 -n __fish_use_subcommand -a {} -d '{}'\n", command->get_name(),
                        command->get_description());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        text += fmt::format("complete -c d5 -n '__fish_seen_subcommand_from {}' -l {}\n", command->get_name(), name);
  }
  text += "complete -c d5 -n '__fish_seen_subcommand_from op' -a \"(d5 list operators | cut -d' ' -f1)\"\n";
  text += "complete -c d5 -n '__fish_seen_subcommand_from run compare' -F\n";
  return text;
}

}  // namespace

RunCommand add_completion(CLI::App& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion", "Print a completion script: source <(d5 completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  return [shell, &program] {
    if (*shell == "bash")
      std::cout << bash(program);
    else if (*shell == "zsh")
      std::cout << "autoload -U +X bashcompinit && bashcompinit\n" << bash(program);
    else if (*shell == "fish")
      std::cout << fish(program);
    else
      fail_unknown("[completion]", "shell", *shell, std::vector<std::string>{"bash", "zsh", "fish"});
    return exit_passed;
  };
}

}  // namespace d5
