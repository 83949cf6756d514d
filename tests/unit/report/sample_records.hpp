// SPDX-License-Identifier: Apache-2.0
// Records as a run would make them, with made-up times that are the same on every machine.
#pragma once

#include <string>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

// Samples with log times given by launch and round: `time(launch, round)` seconds, three a slice.
template <class Time>
Samples samples_of(int launches, int rounds, Time time) {
  Samples s;
  for (int l = 0; l < launches; ++l) {
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < 3; ++i) {
        s.start_s.push_back(100.0 * l + 10.0 * r + i);
        s.time_s.push_back(time(l, r) * (1 + 0.001 * (i - 1)));
        s.launch.push_back(l);
        s.round.push_back(r);
      }
    }
  }
  s.warmup_s = {0.25, 0.125};
  return s;
}

inline Record sample_record(const std::string& backend, int size, double seconds) {
  Record r;
  r.kind = "op";
  r.fields = {{"kind", "op"}, {"operator", "Gemm"}, {"backend", backend}, {"dtype", "f32"}, {"pass", "forward"},
              {"threads", 1}, {"m", size},          {"n", 1024},          {"k", 1024},      {"cache", "hot"}};
  r.status = "passed";
  r.group = "gemm-" + std::to_string(size);
  const double places[] = {-0.004, -0.002, 0, 0.001, 0.001, 0.002, 0.003, 0.003};
  r.samples = samples_of(8, 2, [&](int l, int) { return seconds * (1 + (backend == "onednn" ? 0 : places[l])); });
  const double flops = 2.0 * size * 1024 * 1024;
  r.metrics = {{"time", {"s", seconds, {{seconds * 0.997, seconds * 1.006}}, 48, 30.5}},
               {"gflops",
                {"GFLOP/s", flops / seconds / 1e9, {{flops / seconds / 1.006e9, flops / seconds / 0.997e9}}, 48, 30.5}},
               {"error_linf", {"1", 3.14159e-6, {}, 1, 1}}};
  r.bound = Bound{"roofline", flops / 165e9, "s", flops / 165e9 / seconds};
  r.stopped = "converged";
  r.environment = "0123456789abcdef";
  r.rerun = "d5 op Gemm --m " + std::to_string(size) + " --backend " + backend;
  return r;
}

inline Record without_speed(Record r, const std::string& status, const std::string& reason) {
  r.status = status;
  r.reason = reason;
  r.samples = {};
  r.metrics.clear();
  r.bound.reset();
  r.stopped.clear();
  return r;
}

inline Record sample_environment() {
  Record e = environment_record("0123456789abcdef", nlohmann::json::parse(R"({
    "cpu": {"model": "Xeon", "isa": {"best": "avx512_core_bf16"}},
    "rooflines": [{"threads": 1, "peak_flops": {"f32": 165e9}, "bandwidth": [[16384, 400e9], [1e9, 11.04e9]]}]})"));
  return e;
}

inline std::vector<Record> sample_table() {
  std::vector<Record> records = {
      sample_record("onednn", 1024, 0.01462),
      sample_record("torch", 1024, 0.0153),
      without_speed(sample_record("cuda", 1024, 1), "unsupported", "no driver (libcuda.so.1 not found)"),
      sample_record("onednn", 64, 0.00091),
      sample_record("torch", 64, 0.0009105),
      sample_record("plain", 64, 0.02)};
  records[1].warnings = {"two modes: 14.9 and 15.6 ms"};
  records[4].warnings = {"two modes: 14.9 and 15.6 ms", "drifts by 2 % \"slowly\", upwards"};
  records[5].status = "mistrusted";
  records[5].reason = "no independent oracle";
  Record backward = without_speed(sample_record("onednn", 64, 1), "failed", "output 0: 3 of 4096 elements wrong");
  backward.fields["pass"] = "backward";
  backward.group = "gemm-64-backward";
  records.push_back(backward);
  Record checked = sample_record("torch", 64, 1);
  checked.fields["pass"] = "backward";
  checked.group = "gemm-64-backward";
  checked.samples = {};
  checked.metrics = {{"error_linf", {"1", 2e-7, {}, 1, 1}}};
  checked.bound.reset();
  checked.stopped = "";
  records.push_back(checked);
  return records;
}

}  // namespace d5
