// SPDX-License-Identifier: Apache-2.0
// d5 doctor: the machine, what it can reach, each backend and why it is off, and the traps that were found.
#include <iostream>

#include "d5/backends/backend.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/core/parallel.hpp"
#include "d5/distributed/communicator.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/environment.hpp"
#include "d5/measure/isa.hpp"
#include "d5/measure/machine_file.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/runner/describe.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

std::string size_text(double bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.1f} GiB", bytes / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.0f} MiB", bytes / (1 << 20));
  return fmt::format("{:.0f} KiB", bytes / 1024);
}

Json examine() {
  Json report;
  const int cores = usable_cores();
  report["environment"] = capture_environment();
  for (int threads : cores > 1 ? std::vector<int>{1, cores} : std::vector<int>{1})
    report["roofline"].push_back(to_json(measure_roofline(threads, 2.0)));
  const Sharing sharing = probe_core_sharing();
  report["core_sharing"] = {{"ratio", sharing.ratio}, {"cores_shared", sharing.cores_shared}};
  const TimerCalibration timer = calibrate_timer();
  report["timer"] = {{"overhead_s", timer.overhead_s}, {"resolution_s", timer.resolution_s}};
  report["backends"] = Json::array();
  report["traps"] = usable_isa().traps();
  for (const BackendStatus& status : backend_statuses()) {
    Json row = {{"name", status.name}, {"available", status.available}, {"reason", status.reason}};
    if (status.available) {
      row.update(describe_backend(status.name, 1));
      if (row.contains("error")) {
        row["available"] = false;
        report["traps"].push_back(
            fmt::format("backend {} is built but does not open: {}", status.name, row["error"].get<std::string>()));
      }
    }
    report["backends"].push_back(row);
  }
  for (const CommunicatorStatus& status : communicator_statuses())
    report["communicators"].push_back(
        {{"name", status.name}, {"available", status.available}, {"reason", status.reason}});
  if (sharing.cores_shared)
    report["traps"].push_back(
        fmt::format("cores shared: two threads run at {:.2f}x the rate of one thread, so they are on one core now; "
                    "compare ratios of one run only",
                    sharing.ratio));
  return report;
}

void print_roofline(const Json& rooflines) {
  std::cout << "\nRoofline, measured now\n";
  for (const Json& json : rooflines) {
    const Roofline roofline = roofline_from_json(json);
    std::cout << fmt::format("  {} thread{}:", roofline.threads, roofline.threads == 1 ? "" : "s");
    for (const auto& [dtype, flops] : roofline.peak_flops) std::cout << fmt::format("  {} {:.0f}", dtype, flops * 1e-9);
    std::cout << " GFLOP/s\n     ";
    for (const auto& [bytes, rate] : roofline.bandwidth)
      std::cout << fmt::format(" {} {:.0f}", size_text(bytes), rate * 1e-9);
    std::cout << " GB/s\n";
  }
}

void print(const Json& report) {
  const Json& environment = report["environment"];
  const auto show = [&](const char* label, const Json& value) {
    if (!value.is_null())
      std::cout << fmt::format("  {:<12} {}\n", label, value.is_string() ? value.get<std::string>() : value.dump());
  };
  std::cout << "Machine\n";
  for (const char* part : {"cpu", "memory", "os", "container", "machine", "owner", "build"})
    if (environment.contains(part))
      for (const auto& [name, value] : environment[part].items())
        if (!value.is_structured() || value.size() <= 12) show(name.c_str(), value);
  for (const Json& gpu : environment["gpus"]) {
    show("gpu", gpu["name"]);
    for (const auto& [name, value] : gpu.items())
      if (name != "name") show(("  " + name).c_str(), value);
  }
  if (environment["gpus"].empty()) show("gpu", "none that the NVIDIA driver shows");
  std::cout << fmt::format("  {:<12} overhead {:.0f} ns, resolution {:.0f} ns\n", "timer",
                           1e9 * report["timer"]["overhead_s"].get<double>(),
                           1e9 * report["timer"]["resolution_s"].get<double>());
  std::cout << fmt::format("  {:<12} two threads run at {:.2f}x one\n", "cores",
                           report["core_sharing"]["ratio"].get<double>());
  print_roofline(report["roofline"]);

  std::cout << "\nBackends\n";
  for (const Json& row : report["backends"]) {
    std::cout << fmt::format("  {:<16} {:<4} {}\n", row["name"].get<std::string>(),
                             row["available"].get<bool>() ? "on" : "off",
                             row.value("error", row["reason"].get<std::string>()));
    const Json facts = row.value("facts", Json::object());
    for (const auto& [name, value] : facts.items())
      std::cout << fmt::format("  {:<21} {}: {}\n", "", name, value.get<std::string>());
    if (row.contains("disk_footprint") && row["disk_footprint"].contains("total_bytes"))
      std::cout << fmt::format("  {:<21} on disk: {}\n", "",
                               size_text(row["disk_footprint"]["total_bytes"].get<double>()));
  }

  std::cout << "\nCommunicators\n";
  for (const Json& row : report["communicators"])
    std::cout << fmt::format("  {:<16} {:<4} {}\n", row["name"].get<std::string>(),
                             row["available"].get<bool>() ? "on" : "off", row["reason"].get<std::string>());

  std::cout << "\nTraps\n";
  if (report["traps"].empty()) std::cout << "  none found\n";
  for (const Json& trap : report["traps"]) std::cout << "  - " << trap.get<std::string>() << "\n";
}

}  // namespace

RunCommand add_doctor(CLI::App& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      program.add_subcommand("doctor", "The machine, its roofline, each backend and why it is off, the traps found");
  command->add_flag("--json", *json, "One JSON object");
  add_plugin_options(*command);
  return [json] {
    const Json report = examine();
    if (*json)
      std::cout << report.dump() << "\n";
    else
      print(report);
    return exit_passed;
  };
}

}  // namespace d5
