// SPDX-License-Identifier: Apache-2.0
// What every trace must be: the trace-event format, spans that nest, parts that are no longer than the whole.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace d5 {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// By process: seconds of all spans of a category.
inline std::map<std::string, double> expect_trace(const nlohmann::json& trace, int process) {
  std::map<std::string, double> microseconds;
  std::map<int, std::vector<double>> open;  // ends of the spans that are open, by thread
  double last = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    for (const char* field : {"ph", "ts", "pid", "tid", "name"}) EXPECT_TRUE(event.contains(field)) << event.dump();
    EXPECT_TRUE(event.at("name").is_string() && event.at("ts").is_number() && event.at("pid").is_number_integer());
    if (event.at("pid") != process || event.at("ph") == "M") continue;
    const double begin = event.at("ts");
    EXPECT_GE(begin, last) << "events come in the order in which they began";
    last = begin;
    std::vector<double>& ends = open[event.at("tid").get<int>()];
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (event.at("ph") == "i") continue;
    EXPECT_EQ(event.at("ph"), "X");
    const double end = begin + event.at("dur").get<double>();
    EXPECT_GE(event.at("dur").get<double>(), 0);
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back() + 1e-6) << event.dump();  // microseconds: rounding of the sum
    }
    ends.push_back(end);
    microseconds[event.at("cat").get<std::string>()] += end - begin;
  }
  return microseconds;
}

}  // namespace d5
