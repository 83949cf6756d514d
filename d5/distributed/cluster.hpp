// SPDX-License-Identifier: Apache-2.0
// A cluster on one Linux machine: each node is a network namespace with a host name, joined to a bridge by a pair of
// interfaces whose rate is limited in both directions (tc tbf). Needs root. Nothing of it leaves the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "d5/distributed/watcher.hpp"

namespace d5 {

struct ClusterOptions {
  std::string name = "c";  // 1 to 6 letters and digits
  int nodes = 4;
  std::string rate = "1gbit";   // "none": as fast as it goes
  std::string burst = "128kb";  // more lets messages exceed the rate
};

struct ClusterNode {
  std::string host, address;
  std::vector<int> processes;  // that run in it now
  int64_t sent_bytes = 0;      // by the node, since it is up
};

struct Cluster {
  ClusterOptions options;
  ProcessName owner;  // without which the cluster is left over; nobody: it stays until it is taken down
  bool whole = false, left_over = false;
  std::vector<std::string> removed;  // what was left over and in the way, each with its owner and what ran in it
  std::vector<ClusterNode> nodes;
  std::string hosts() const;  // "d5c0,d5c1"
};

// Empty: a cluster can be made here.
std::optional<std::string> why_no_cluster();

// Removes what is left over first: clusters whose owner is gone, or that were never finished. UsageError where a
// cluster is up. What was begun is taken back where it fails, or where this process ends before it is done. With an
// owner (a pid; 0: none) the cluster is taken down when that ends, however it does.
Cluster cluster_up(const ClusterOptions&, int owner);
std::vector<Cluster> clusters();  // that are up, or left over
// Ends what runs in the nodes, removes everything. Returns whether there was anything.
bool cluster_down(const std::string& name);
std::vector<std::string> remove_left_over_clusters();  // which, as in Cluster::removed
// The cluster of that name, where it is still that owner's, who is gone.
void remove_cluster_of(const ProcessName& owner, const std::string& name);

void check_cluster(const ClusterOptions&);  // UsageError where a value is not legal

// One that lives as long as the object.
class OwnCluster {
 public:
  explicit OwnCluster(const ClusterOptions&);
  ~OwnCluster();
  OwnCluster(const OwnCluster&) = delete;
  OwnCluster& operator=(const OwnCluster&) = delete;
  const Cluster& operator*() const { return cluster_; }
  const Cluster* operator->() const { return &cluster_; }

 private:
  Cluster cluster_;
  Watcher watcher_;
};

// The command and the environment with which a command runs on a node, so that mpirun there reaches the other nodes.
struct ClusterCommand {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
};
ClusterCommand in_cluster(const Cluster&, int node, const std::vector<std::string>& command);

}  // namespace d5
