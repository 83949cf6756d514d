// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/describe.hpp"

#include "d5/core/parallel.hpp"
#include "d5/runner/child.hpp"

namespace d5 {

nlohmann::json describe_backend(const std::string& name, int threads) {
  try {
    Child child({.command = {"/proc/self/exe", "worker"},
                 .environment = thread_environment(threads),
                 .limits = {.seconds = 60}});
    nlohmann::json answer = child.ask({{"do", "describe"}, {"backend", name}, {"threads", threads}});
    answer.erase("say");
    return answer;
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace d5
