// SPDX-License-Identifier: Apache-2.0
// d5 comm: collectives by every algorithm, against the library's own and against what the network gives.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <iostream>
#include <limits>

#include "d5/cli/comm_launch.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/core/parallel.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/measure/environment.hpp"
#include "d5/recipe/values.hpp"
#include "d5/report/comm_table.hpp"
#include "d5/report/jsonl.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

// DeepBench's all-reduce problems: so many floats.
const std::vector<int64_t> deepbench_elements{100000, 3097600, 4194304, 6553600, 16777217, 38360000, 64500000};

// What stands where an algorithm does, and is none.
constexpr std::array<std::string_view, 4> unregistered{"plain", "auto", "messages", "windows"};

struct CommFlags {
  std::string collectives = "allreduce", bytes, from, to, dtypes = "f32", reductions = "sum", densities = "1",
              topologies = "ring", algorithms, ranks = "2", communicator, hosts, mpirun = "mpirun", suite, folder;
  std::vector<std::string> mpirun_options;
  int factor = 4, root = 0, ranks_per_node = 0, launches = 3, rounds = 4;
  double slice = 0.1, time_limit = 60;
  bool json = false, quiet = false;
};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  if (text.empty()) return all;
  for (const Json& value : parse_values(text))
    all.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return all;
}

int64_t byte_count(const std::string& text) {
  int64_t number = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  int64_t unit = 0;
  const std::string suffix(rest, end);
  if (suffix.empty()) unit = 1;
  if (suffix == "K" || suffix == "k") unit = 1 << 10;
  if (suffix == "M") unit = 1 << 20;
  if (suffix == "G") unit = 1 << 30;
  if (error != std::errc() || unit == 0 || number < 0 || number > std::numeric_limits<int64_t>::max() / 1024 / unit)
    throw UsageError("[comm] '{}' is no number of bytes; legal: 8, 4K, 16M, 1G", text);
  return number * unit;
}

double density_of(const std::string& text) {
  double density = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), density);
  if (error != std::errc() || rest != text.data() + text.size() || !(density >= 0 && density <= 1))
    throw UsageError("[comm] density '{}' is no number from 0 to 1", text);
  return density;
}

// Ranks whose memory is this machine's; nodes of an emulated cluster share it, too.
int ranks_here(const CommFlags& flags, int ranks) {
  if (flags.communicator == "threads" || std::getenv("D5_CLUSTER_RATE")) return ranks;
  const int machines = machines_there({.hosts = words(flags.hosts)});
  return std::min(ranks, flags.ranks_per_node > 0 ? flags.ranks_per_node : (ranks + machines - 1) / machines);
}

// What no rank could do with any algorithm.
void check_group(const CommGroup& group, int ranks, int ranks_here) {
  if (group.collective == Collective::barrier) throw UsageError("[comm] a barrier moves no sizes to measure");
  if (group.collective == Collective::neighbour_exchange && neighbours_of(group, ranks, 0).empty())
    throw UsageError("[comm] 1 rank has no neighbours; legal: --ranks 2 and more");
  for (const std::string& algorithm : group.algorithms)
    if (!std::ranges::count(unregistered, algorithm)) registered<algorithms>(algorithm);

  static constexpr std::array summed{DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8,  DType::i16,
                                     DType::i32, DType::i64, DType::u8,   DType::u16, DType::u32, DType::u64};
  if (std::ranges::find(summed, group.dtype) == summed.end())
    throw UsageError("[comm] dtype {} has no sums; legal: f32, f64, bf16, f16, i8 to i64, u8 to u64",
                     name(group.dtype));
  if (group.reduction == Reduction::mean && !is_float(group.dtype))
    throw UsageError("[comm] the mean of {} is no {}; legal with integers: sum, max", name(group.dtype),
                     name(group.dtype));
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  // What goes in and out; what should come out, and what algorithms add up in.
  const std::vector<int> neighbours = neighbours_of(group, ranks, 0);
  const Operation op = operation_of(group, ranks, neighbours);
  const int64_t elements = input_elements(op, ranks) + output_elements(op, ranks);
  const double needed = 2.0 * static_cast<double>(storage_bytes(op.dtype, elements)) * ranks_here;
  if (needed > memory)
    throw UsageError(
        "[comm] {} of {} bytes takes {:.3g} GiB with {} ranks here, more than the {:.3g} GiB of this machine",
        name(group.collective), group.bytes, needed / (1 << 30), ranks_here, memory / (1 << 30));
}

int whole(const std::string& text, const char* what, int least) {
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < least)
    throw UsageError("[comm] {} '{}' is no whole number from {} on", what, text, least);
  return number;
}

std::vector<int64_t> sizes(const CommFlags& flags) {
  std::vector<int64_t> all;
  if (!flags.suite.empty()) {
    if (!flags.bytes.empty() || !flags.from.empty() || !flags.to.empty())
      throw UsageError("[comm] --suite {} brings its own sizes; leave out --bytes, --from and --to", flags.suite);
    if (flags.suite != "deepbench") throw UsageError("[comm] unknown suite '{}'; legal: deepbench", flags.suite);
    for (const int64_t elements : deepbench_elements) all.push_back(elements * 4);
    return all;
  }
  for (const std::string& text : words(flags.bytes)) all.push_back(byte_count(text));
  if (!flags.from.empty() || !flags.to.empty()) {
    const int64_t first = byte_count(flags.from.empty() ? "8" : flags.from),
                  last = byte_count(flags.to.empty() ? "64M" : flags.to);
    if (flags.factor < 2 || first < 1) throw UsageError("[comm] --factor is at least 2 and --from at least 1");
    if (first > last) throw UsageError("[comm] --from {} is above --to {}", first, last);
    for (int64_t bytes = first; bytes <= last; bytes *= flags.factor) all.push_back(bytes);
  }
  if (all.empty()) all = {1 << 10, 64 << 10, 4 << 20};
  return all;
}

CommPlan plan_of(const CommFlags& flags, int ranks) {
  CommPlan plan;
  plan.communicator = flags.communicator;
  plan.ranks = ranks;
  plan.ranks_per_node = flags.ranks_per_node;
  plan.rounds = flags.rounds;
  plan.slice_s = flags.slice;
  plan.time_limit_s = flags.time_limit;
  if (flags.root < 0 || flags.root >= ranks)
    throw UsageError("[comm] --root {} does not exist; there are {} ranks, from 0", flags.root, ranks);
  const std::vector<std::string> none{""}, exchanges = words(flags.topologies);
  for (const std::string& topology : exchanges)
    if (std::ranges::find(exchange_topologies(), topology) == exchange_topologies().end())
      fail_unknown("[comm]", "topology", topology, exchange_topologies());
  for (const std::string& collective : words(flags.collectives))
    for (const std::string& dtype : words(flags.dtypes))
      for (const std::string& reduction : words(flags.reductions))
        for (const std::string& density : words(flags.densities))
          for (const std::string& topology : collective == "neighbour_exchange" ? exchanges : none)
            for (const int64_t bytes : sizes(flags)) {
              CommGroup group{parse_collective(collective),
                              parse_dtype(dtype),
                              parse_reduction(reduction),
                              bytes,
                              flags.root,
                              density_of(density),
                              words(flags.algorithms),
                              topology};
              check_group(group, ranks, ranks_here(flags, ranks));
              if (group.algorithms.empty()) group.algorithms = usual_algorithms(group, flags.communicator);
              plan.groups.push_back(std::move(group));
            }
  return plan;
}

std::string default_communicator(bool quiet) {
  for (const CommunicatorStatus& status : communicator_statuses()) {
    if (status.name != "mpi") continue;
    if (status.available) return "mpi";
    if (!quiet) fmt::print(stderr, "mpi is off: {}; ranks are threads\n", status.reason);
  }
  return "threads";
}

// What was measured before a launch failed stays; why it failed is left in `failure`.
std::vector<Record> measure(const CommFlags& flags, int ranks, std::exception_ptr& failure) {
  const CommPlan plan = plan_of(flags, ranks);
  LaunchOptions options{flags.mpirun, words(flags.hosts), flags.mpirun_options, flags.ranks_per_node};
  CommRun run;
  run.launches = flags.launches;
  run.all_named = !flags.algorithms.empty();
  run.fields = {{"communicator", flags.communicator},
                {"ranks", ranks},
                {"hosts", flags.hosts},
                {"ranks_per_node", flags.ranks_per_node}};
  if (ranks > usable_cores())
    run.warnings.push_back(
        fmt::format("{} ranks share {} cores: this measures contention, not scaling", ranks, usable_cores()));
  std::vector<Json> told;
  for (int launch = 0; launch < flags.launches; ++launch) {
    if (!flags.quiet) fmt::print(stderr, "{} ranks, launch {} of {}\n", ranks, launch + 1, flags.launches);
    CommPlan again = plan;
    again.seed = static_cast<uint64_t>(launch) + 1;
    try {
      launch_comm(again, options, [&](const Json& line) { told.push_back(line); });
    } catch (const std::exception&) {
      if (std::ranges::none_of(told, [](const Json& line) { return line["what"] == "slice"; })) throw;
      failure = std::current_exception();
      run.launches = launch + 1;
      break;
    }
  }
  return comm_records(plan, run, told);
}

int run_comm(CommFlags flags) {
  if (flags.communicator.empty()) flags.communicator = default_communicator(flags.quiet);
  open_communicator(flags.communicator);
  if (flags.hosts.empty() && flags.communicator == "mpi")
    flags.hosts = fmt::format("{}", fmt::join(cluster_hosts(), ","));
  if (flags.ranks_per_node < 0)
    throw UsageError("[comm] --ranks-per-node {} is below 0; 0: all on one machine, or evenly on all",
                     flags.ranks_per_node);
  if (flags.launches < 1 || flags.rounds < 1 || !(flags.slice > 0) || !(flags.time_limit > 0))
    throw UsageError("[comm] --launches, --rounds, --slice and --time-limit are above 0");
  std::vector<int> ranks;
  for (const std::string& text : words(flags.ranks)) ranks.push_back(whole(text, "--ranks", 1));
  for (const int n : ranks) plan_of(flags, n);  // what is wrong is said before anything is started
  interrupt_flag();
  RecordWriter writer(flags.folder.empty() ? default_folder("comm") : flags.folder);
  const Record environment = environment_of({});
  writer.write(environment);
  if (flags.json) std::cout << to_line(environment) << "\n" << std::flush;
  std::vector<Record> all;
  std::exception_ptr failure;
  for (const int n : ranks) {
    if (failure) break;
    std::vector<Record> records;
    try {
      records = measure(flags, n, failure);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    for (Record& record : records) {
      record.environment = environment.environment;
      writer.write(record);
      if (flags.json) std::cout << to_line(record) << "\n" << std::flush;
      all.push_back(std::move(record));
    }
  }
  writer.close();
  if (!flags.json && !all.empty()) std::cout << comm_table(all, use_colour()) << std::flush;
  if (!flags.quiet) fmt::print(stderr, "records: {}\n", writer.path());
  if (failure) std::rethrow_exception(failure);
  for (const Record& record : all)
    if (record.status == "failed" || record.status == "error") return exit_failed;
  return exit_passed;
}

}  // namespace

RunCommand add_comm(CLI::App& program) {
  auto flags = std::make_shared<CommFlags>();
  CLI::App* command =
      program.add_subcommand("comm", "Collectives x algorithms x sizes: times, bandwidths, every result verified");
  const std::string what = "Case (each takes several values, separated by commas)", how = "How to run",
                    show = "What to show";
  command
      ->add_option("collective", flags->collectives,
                   "allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter, all_to_all, "
                   "neighbour_exchange; send (from --root to the rank after it), send_receive (everyone to the next "
                   "rank, from the one before), put, get (the same by one-sided windows)")
      ->capture_default_str();
  command->add_option("--bytes", flags->bytes, "Sizes: 8,4K,16M,1G; n blocks where there are blocks [1K,64K,4M]")
      ->group(what);
  command->add_option("--from", flags->from, "The first of a range of sizes")->group(what);
  command->add_option("--to", flags->to, "The last of a range of sizes")->group(what);
  command->add_option("--factor", flags->factor, "From one size of the range to the next")
      ->group(what)
      ->capture_default_str();
  command->add_option("--suite", flags->suite, "Sizes of a suite: deepbench")->group(what);
  command->add_option("--dtype", flags->dtypes, "f32, f64, bf16, f16, i8 to i64, u8 to u64")
      ->group(what)
      ->capture_default_str();
  command->add_option("--reduction", flags->reductions, "sum, mean, max")->group(what)->capture_default_str();
  command->add_option("--density", flags->densities, "Share of elements that are not zero, for sparse")
      ->group(what)
      ->capture_default_str();
  command
      ->add_option("--algorithm", flags->algorithms,
                   "d5 list algorithms; plain: the library in a loop of its own; auto: as tuned here; messages, "
                   "windows: the communicator's own [all that can]")
      ->group(what);
  command->add_option("--ranks", flags->ranks, "Numbers of ranks")->group(what)->capture_default_str();
  command->add_option("--root", flags->root, "Of broadcast, reduce, gather, scatter, send")
      ->group(what)
      ->capture_default_str();
  command->add_option("--topology", flags->topologies, "Of neighbour_exchange: ring, torus")
      ->group(what)
      ->capture_default_str();
  command->add_option("--communicator", flags->communicator, "mpi or threads [mpi where it is there]")->group(how);
  command
      ->add_option("--ranks-per-node", flags->ranks_per_node,
                   "So many on each machine (of threads: count as one); 0: evenly on all")
      ->group(how);
  command->add_option("--hosts", flags->hosts, "Machines for the ranks, in turn [D5_CLUSTER_HOSTS, else this one]")
      ->group(how);
  command->add_option("--mpirun", flags->mpirun, "The program that starts ranks")->group(how)->capture_default_str();
  command->add_option("--mpirun-option", flags->mpirun_options, "A further word for it; repeatable")
      ->group(how)
      ->allow_extra_args(false);
  command->add_option("--launches", flags->launches, "Times all ranks are started afresh")
      ->group(how)
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "Interleaved rounds in a launch")->group(how)->capture_default_str();
  command->add_option("--slice", flags->slice, "Seconds of one slice of a round")->group(how)->capture_default_str();
  command->add_option("--time-limit", flags->time_limit, "Seconds a rank waits for another before that one is lost")
      ->group(how)
      ->capture_default_str();
  command->add_option("-o,--output", flags->folder, "Folder for records.jsonl [results/TIME-comm]")->group(show);
  command->add_flag("--json", flags->json, "One record a line on stdout instead of the table")->group(show);
  command->add_flag("--quiet", flags->quiet, "No progress on stderr")->group(show);
  command->footer(
      "Example: d5 comm allreduce,broadcast --ranks 2,4 --from 1K --to 16M --factor 16\n"
      "         d5 comm --suite deepbench --algorithm plain,library,segmented_ring\n"
      "         d5 comm send,send_receive,neighbour_exchange,put,get --ranks 4 --topology ring,torus\n"
      "         d5 comm --density 0.001,0.01,0.1 --bytes 4M --communicator threads");
  return [flags] { return run_comm(*flags); };
}

}  // namespace d5
