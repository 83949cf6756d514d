// SPDX-License-Identifier: Apache-2.0
// A cluster on one Linux machine: each node is a network namespace with a host name, joined to a bridge by a pair of
// interfaces whose rate is limited in both directions (tc tbf). Needs root. Nothing of it leaves the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  int owner = 0;  // the process that asked for it: when it is gone, the cluster is left over
  bool owner_lives = false, whole = false;
  std::vector<ClusterNode> nodes;
  std::string hosts() const;  // "d5c0,d5c1"
};

// Empty: a cluster can be made here.
std::optional<std::string> why_no_cluster();

// Removes what is left over first: of clusters whose owner is gone, or that were never finished. UsageError where a
// cluster of that name is up. What was begun is taken back where it fails.
Cluster cluster_up(const ClusterOptions&, int owner);
std::vector<Cluster> clusters();  // that are up, or left over
// Ends what runs in the nodes, removes everything. Returns whether there was anything.
bool cluster_down(const std::string& name);
int remove_left_over_clusters();  // how many

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
};

// The command and the environment with which a command runs on a node, so that mpirun there reaches the other nodes.
struct ClusterCommand {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
};
ClusterCommand in_cluster(const Cluster&, int node, const std::vector<std::string>& command);

}  // namespace d5
