// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/cluster.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

const fs::path state_folder = "/run/d5-cluster";  // one folder for each cluster: state, agent
const fs::path names_folder = "/etc/netns";       // ip netns exec shows these files as /etc/...

struct Output {
  int status;
  std::string text;
};

// Words are checked names and numbers of ours: nothing in them means anything to a shell.
Output shell(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw Error("[cluster] '{}' cannot be started", command);
  std::string text;
  char buffer[512];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  return {pclose(pipe), text};
}

void must(const std::string& command) {
  const Output done = shell(command);
  if (done.status != 0) throw Error("[cluster] {}: {}", command, done.text);
}

std::string host_of(const std::string& name, int node) { return fmt::format("d5{}{}", name, node); }
std::string bridge_of(const std::string& name) { return fmt::format("d5{}-br", name); }
std::string link_of(const std::string& name, int node) { return fmt::format("d5{}-v{}", name, node); }

bool is_number_with(const std::string& text, const std::vector<std::string>& units) {
  const size_t digits = text.find_first_not_of("0123456789");
  return digits != std::string::npos && digits > 0 && digits < 10 &&
         std::ranges::find(units, text.substr(digits)) != units.end();
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  std::error_code error;
  if (fs::file_size(path, error) != text.size() || error) throw Error("[cluster] {} cannot be written", path.string());
}

void write_state(const ClusterOptions& o, const ProcessName& owner, bool whole) {
  write_file(state_folder / o.name / "state", fmt::format("{} {} {} {} {} {}\n", o.nodes, o.rate, o.burst, owner.pid,
                                                          owner.start, whole ? "whole" : "begun"));
}

// One process at a time makes or removes clusters: a watcher may come while the next one is made.
class Lock {
 public:
  Lock() : file_(open("/run/d5-cluster.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ < 0) throw Error("[cluster] /run/d5-cluster.lock cannot be opened: {}", std::strerror(errno));
    while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() { close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

void build(const ClusterOptions& o) {
  const std::string bridge = bridge_of(o.name);
  must("ip link add " + bridge + " type bridge");
  must("ip link set " + bridge + " up");
  std::string names = "127.0.0.1 localhost\n";
  for (int i = 0; i < o.nodes; ++i) names += fmt::format("10.77.0.{} {}\n", i + 1, host_of(o.name, i));
  for (int i = 0; i < o.nodes; ++i) {
    const std::string host = host_of(o.name, i), link = link_of(o.name, i);
    must("ip netns add " + host);
    must(fmt::format("ip link add {} type veth peer name eth0 netns {}", link, host));
    must(fmt::format("ip link set {} master {} up", link, bridge));
    must(fmt::format("ip -n {} addr add 10.77.0.{}/24 dev eth0", host, i + 1));
    must(fmt::format("ip -n {} link set lo up", host));
    must(fmt::format("ip -n {} link set eth0 up", host));
    if (o.rate != "none") {
      const std::string limit = fmt::format("root tbf rate {} burst {} latency 100ms", o.rate, o.burst);
      must(fmt::format("tc -n {} qdisc add dev eth0 {}", host, limit));  // node -> switch
      must(fmt::format("tc qdisc add dev {} {}", link, limit));          // switch -> node
    }
    write_file(names_folder / host / "hosts", names);
  }
  const fs::path agent = state_folder / o.name / "agent";  // stands in for ssh
  write_file(agent,
             "#!/bin/sh\nhost=$1; shift\nexec ip netns exec \"$host\" unshare --uts sh -c \"hostname $host; $*\"\n");
  chmod(agent.c_str(), 0755);
}

std::vector<int> processes_in(const std::string& host) {
  std::istringstream pids(shell("ip netns pids " + host).text);
  std::vector<int> all;
  for (int pid = 0; pids >> pid;) all.push_back(pid);
  return all;
}

std::optional<Cluster> read_cluster(const std::string& name) {
  std::ifstream file(state_folder / name / "state");
  Cluster cluster;
  std::string stage;
  if (!(file >> cluster.options.nodes >> cluster.options.rate >> cluster.options.burst >> cluster.owner.pid >>
        cluster.owner.start >> stage))
    return {};
  cluster.options.name = name;
  cluster.whole = stage == "whole";
  cluster.left_over = cluster.owner.pid > 0 && !cluster.owner.lives();
  for (int i = 0; i < cluster.options.nodes; ++i) {
    ClusterNode node{host_of(name, i), fmt::format("10.77.0.{}", i + 1)};
    node.processes = processes_in(node.host);
    // What the switch's end received is what the node sent.
    std::ifstream(fs::path("/sys/class/net") / link_of(name, i) / "statistics/rx_bytes") >> node.sent_bytes;
    cluster.nodes.push_back(std::move(node));
  }
  return cluster;
}

}  // namespace

void check_cluster(const ClusterOptions& options) {
  const bool plain = std::ranges::all_of(options.name, [](unsigned char c) { return std::isalnum(c); });
  if (options.name.empty() || options.name.size() > 6 || !plain)
    throw UsageError("[cluster] '{}' is no name; legal: 1 to 6 letters and digits", options.name);
  if (options.nodes < 1 || options.nodes > 200) throw UsageError("[cluster] {} nodes; legal: 1 to 200", options.nodes);
  if (options.rate != "none" && !is_number_with(options.rate, {"kbit", "mbit", "gbit"}))
    throw UsageError("[cluster] rate '{}'; legal: none, or such as 100mbit, 1gbit, 10gbit", options.rate);
  if (!is_number_with(options.burst, {"b", "kb", "mb"}))
    throw UsageError("[cluster] burst '{}'; legal: such as 128kb", options.burst);
}

std::string Cluster::hosts() const {
  std::string list;
  for (const ClusterNode& node : nodes) list += (list.empty() ? "" : ",") + node.host;
  return list;
}

std::optional<std::string> why_no_cluster() {
  if (geteuid() != 0) return "network namespaces need root; run it as root or with sudo";
  for (const char* tool : {"ip", "tc", "unshare"})
    if (shell(fmt::format("command -v {}", tool)).status != 0)
      return fmt::format("the program '{}' is not here (Debian, Ubuntu: iproute2, util-linux)", tool);
  return {};
}

std::vector<Cluster> clusters() {
  std::vector<Cluster> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(state_folder, error))
    if (auto cluster = read_cluster(entry.path().filename().string())) all.push_back(std::move(*cluster));
  std::ranges::sort(all, {}, [](const Cluster& c) { return c.options.name; });
  return all;
}

namespace {

bool take_down(const std::string& name) {
  ClusterOptions probe;
  probe.name = name;
  check_cluster(probe);
  std::error_code error;
  // By name, not by what a state says: a crash may have come before or after it was written.
  std::vector<std::string> hosts;
  const std::string start = "d5" + name;
  const auto is_ours = [&](const std::string& text) {
    return text.starts_with(start) && text.size() > start.size() &&
           std::ranges::all_of(text.substr(start.size()), [](unsigned char c) { return std::isdigit(c); });
  };
  for (const fs::path& folder : {fs::path("/run/netns"), names_folder})
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (const std::string host = entry.path().filename().string(); is_ours(host)) hosts.push_back(host);
  for (const Cluster& other : clusters())  // d5c10 is the tenth node of 'c', or the first of 'c1'
    if (other.options.name != name)
      std::erase_if(hosts, [&](const std::string& host) {
        return std::ranges::find(other.nodes, host, &ClusterNode::host) != other.nodes.end();
      });
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  for (const std::string& host : hosts) {
    for (int turn = 0; turn < 50; ++turn) {
      const std::vector<int> left = processes_in(host);
      if (left.empty()) break;
      for (const int pid : left)
        if (pid > 1 && pid != getpid()) kill(pid, turn < 10 ? SIGTERM : SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    shell("ip netns del " + host);  // takes its interfaces with it
    fs::remove_all(names_folder / host, error);
  }
  const bool bridge = fs::exists("/sys/class/net/" + bridge_of(name));
  for (const auto& entry : fs::directory_iterator("/sys/class/net", error))
    if (const std::string link = entry.path().filename().string(); link.starts_with("d5" + name + "-v"))
      shell("ip link del " + link);
  if (bridge) shell("ip link del " + bridge_of(name));
  const bool state = fs::remove_all(state_folder / name, error) > 0;
  fs::remove(names_folder, error);  // where it is empty
  fs::remove(state_folder, error);
  return state || bridge || !hosts.empty();
}

std::vector<std::string> take_down_left_over() {
  std::vector<std::string> removed;
  for (const Cluster& cluster : clusters()) {
    if (!cluster.left_over) continue;
    size_t processes = 0;
    for (const ClusterNode& node : cluster.nodes) processes += node.processes.size();
    if (take_down(cluster.options.name))
      removed.push_back(fmt::format("'{}', left over from process {}, in which {} processes ran", cluster.options.name,
                                    cluster.owner.pid, processes));
  }
  return removed;
}

}  // namespace

bool cluster_down(const std::string& name) {
  const Lock lock;
  return take_down(name);
}

std::vector<std::string> remove_left_over_clusters() {
  const Lock lock;
  return take_down_left_over();
}

void remove_cluster_of(const ProcessName& owner, const std::string& name) {
  const Lock lock;
  if (const auto cluster = read_cluster(name); cluster && cluster->owner == owner && cluster->left_over)
    take_down(name);
}

Cluster cluster_up(const ClusterOptions& options, int owner) {
  check_cluster(options);
  if (const auto reason = why_no_cluster()) throw UsageError("[cluster] {}", *reason);
  const ProcessName later = owner > 0 ? process_name(owner) : ProcessName{};
  if (owner > 0 && !later.lives()) throw UsageError("[cluster] the owner, process {}, does not run", owner);
  const Lock lock;
  std::vector<std::string> removed = take_down_left_over();
  if (const auto other = read_cluster(options.name))
    throw UsageError("[cluster] '{}' is up already{}; 'd5 cluster down --name {}' removes it", options.name,
                     other->owner.pid > 0 ? fmt::format(", for process {}", other->owner.pid) : "", options.name);
  for (const Cluster& other : clusters())
    throw UsageError("[cluster] '{}' is up and has the addresses 10.77.0.0/24; 'd5 cluster down --name {}' removes it",
                     other.options.name, other.options.name);
  take_down(options.name);  // what has no state
  const ProcessName builder = process_name(getpid());
  const Watcher watcher(builder, "cluster", options.name);
  write_state(options, builder, false);
  try {
    build(options);
  } catch (...) {
    take_down(options.name);
    throw;
  }
  write_state(options, later, true);
  if (owner > 0 && owner != getpid()) Watcher(later, "cluster", options.name).leave();
  Cluster made = *read_cluster(options.name);
  made.removed = std::move(removed);
  return made;
}

OwnCluster::OwnCluster(const ClusterOptions& options)
    : cluster_(cluster_up(options, getpid())), watcher_(process_name(getpid()), "cluster", options.name) {}
OwnCluster::~OwnCluster() {
  try {
    cluster_down(cluster_.options.name);
  } catch (const std::exception&) {
    // Left over: whoever makes the next one removes it.
  }
}

ClusterCommand in_cluster(const Cluster& cluster, int node, const std::vector<std::string>& command) {
  if (node < 0 || node >= static_cast<int>(cluster.nodes.size()))
    throw UsageError("[cluster] node {} does not exist; there are {}, from 0", node, cluster.nodes.size());
  const std::string& host = cluster.nodes[static_cast<size_t>(node)].host;
  const std::string agent = (state_folder / cluster.options.name / "agent").string();
  ClusterCommand result;
  result.command = {"ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", "hostname \"$0\"; exec \"$@\"", host};
  result.command.insert(result.command.end(), command.begin(), command.end());
  result.environment = {{"D5_CLUSTER_HOSTS", cluster.hosts()},
                        {"D5_CLUSTER_RATE", cluster.options.rate},
                        // Open MPI 4 and 5: the agent instead of ssh, TCP alone, on the emulated network
                        {"OMPI_MCA_plm_rsh_agent", agent},
                        {"PRTE_MCA_plm_ssh_agent", agent},
                        {"OMPI_MCA_oob_tcp_if_include", "eth0"},
                        {"PRTE_MCA_prte_if_include", "eth0"},
                        {"OMPI_MCA_btl_tcp_if_include", "eth0"},
                        {"OMPI_MCA_pml", "ob1"},
                        {"OMPI_MCA_btl", "tcp,self"},
                        {"OMPI_MCA_mpi_yield_when_idle", "1"},
                        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return result;
}

}  // namespace d5
