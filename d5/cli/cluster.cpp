// SPDX-License-Identifier: Apache-2.0
// d5 cluster: an emulated cluster on this machine, to measure communication at the rate of a network.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/cli/command.hpp"
#include "d5/core/error.hpp"
#include "d5/distributed/cluster.hpp"

namespace d5 {
namespace {

using Json = nlohmann::ordered_json;

struct ClusterFlags {
  ClusterOptions options;
  int owner = 0, node = 0;
  std::vector<std::string> command;
  bool json = false;
};

void must_be_possible() {
  if (const auto reason = why_no_cluster()) throw UsageError("[cluster] {}", *reason);
}

Json described(const Cluster& cluster) {
  Json nodes = Json::array();
  for (const ClusterNode& node : cluster.nodes)
    nodes.push_back({{"host", node.host},
                     {"address", node.address},
                     {"processes", node.processes},
                     {"sent_bytes", node.sent_bytes}});
  return {{"name", cluster.options.name},
          {"rate", cluster.options.rate},
          {"burst", cluster.options.burst},
          {"owner", cluster.owner.pid},
          {"left_over", cluster.left_over},
          {"whole", cluster.whole},
          {"nodes", nodes}};
}

void print(const Cluster& cluster) {
  fmt::print("{}: {} nodes, {}{}{}\n", cluster.options.name, cluster.nodes.size(), cluster.options.rate,
             cluster.whole ? "" : ", not finished",
             cluster.left_over       ? fmt::format(", left over from process {}", cluster.owner.pid)
             : cluster.owner.pid > 0 ? fmt::format(", until process {} ends", cluster.owner.pid)
                                     : "");
  for (const ClusterNode& node : cluster.nodes)
    fmt::print("  {:<10} {:<14} {} processes, {:.1f} MB sent\n", node.host, node.address, node.processes.size(),
               static_cast<double>(node.sent_bytes) * 1e-6);
}

int up(const ClusterFlags& flags) {
  if (flags.owner < 0) throw UsageError("[cluster] --owner {} is no process", flags.owner);
  const Cluster cluster = cluster_up(flags.options, flags.owner);
  for (const std::string& other : cluster.removed) fmt::print(stderr, "removed: {}\n", other);
  flags.json ? void(std::cout << described(cluster).dump() << "\n") : print(cluster);
  return exit_passed;
}

int status(const ClusterFlags& flags) {
  const std::vector<Cluster> all = clusters();
  if (all.empty() && !flags.json) fmt::print("no cluster is up\n");
  for (const Cluster& cluster : all) flags.json ? void(std::cout << described(cluster).dump() << "\n") : print(cluster);
  return exit_passed;
}

int down(const ClusterFlags& flags) {
  must_be_possible();
  const bool removed = cluster_down(flags.options.name);
  if (removed) fmt::print("removed: '{}'\n", flags.options.name);
  const std::vector<std::string> others = remove_left_over_clusters();
  for (const std::string& other : others) fmt::print("removed: {}\n", other);
  if (!removed && others.empty()) fmt::print("there was none\n");
  return exit_passed;
}

// Becomes the command: its output, its exit status and Ctrl-C are its own.
int run_inside(const ClusterFlags& flags) {
  must_be_possible();
  for (const Cluster& cluster : clusters()) {
    if (cluster.options.name != flags.options.name || !cluster.whole) continue;
    ClusterCommand inside = in_cluster(cluster, flags.node, flags.command);
    for (const auto& [name, value] : inside.environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (std::string& word : inside.command) words.push_back(word.data());
    words.push_back(nullptr);
    execvp(words[0], words.data());
    throw Error("[cluster] {} cannot be started: {}", inside.command[0], std::strerror(errno));
  }
  throw UsageError("[cluster] no cluster '{}' is up; 'd5 cluster up --name {}' makes one", flags.options.name,
                   flags.options.name);
}

}  // namespace

RunCommand add_cluster(CLI::App& program) {
  auto flags = std::make_shared<ClusterFlags>();
  CLI::App* command =
      program.add_subcommand("cluster", "An emulated cluster on this machine: up, exec, status, down (root)");
  command->require_subcommand(1);
  CLI::App* make = command->add_subcommand("up", "Make nodes, each a network namespace, joined by a switch");
  make->add_option("--nodes", flags->options.nodes, "How many")->capture_default_str();
  make->add_option("--rate", flags->options.rate, "Of each link, in each direction: 100mbit, 1gbit, 10gbit, none")
      ->capture_default_str();
  make->add_option("--burst", flags->options.burst, "Bytes that may exceed it for a moment")->capture_default_str();
  make->add_option("--owner", flags->owner,
                   "Process with whose end it is taken down [none: it stays until 'd5 cluster down']");
  CLI::App* inside = command->add_subcommand("exec", "Run a command on a node; mpirun there reaches all nodes");
  inside->add_option("--node", flags->node, "Which node, from 0")->capture_default_str();
  inside->add_option("command", flags->command, "After --: the command and its options")->required();
  CLI::App* show = command->add_subcommand("status", "What is up, what runs in it, what it sent");
  CLI::App* remove = command->add_subcommand("down", "End what runs in the nodes and remove everything");
  for (CLI::App* sub : {make, inside, remove})
    sub->add_option("--name", flags->options.name, "Of the cluster: 1 to 6 letters and digits")->capture_default_str();
  for (CLI::App* sub : {make, show}) sub->add_flag("--json", flags->json, "One object a line");
  command->footer(
      "Example: d5 cluster up --nodes 4 --rate 1gbit\n"
      "         d5 cluster exec -- d5 comm --ranks 4 --bytes 100M\n"
      "         d5 cluster down");
  return [=] {
    if (make->parsed()) return up(*flags);
    if (inside->parsed()) return run_inside(*flags);
    if (show->parsed()) return status(*flags);
    return down(*flags);
  };
}

}  // namespace d5
