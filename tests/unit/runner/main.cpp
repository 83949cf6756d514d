// SPDX-License-Identifier: Apache-2.0
// The tests start this program again as their worker, with the fake cases in it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "d5/runner/worker.hpp"

namespace {

void say(const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(3, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0) _exit(1);
    sent += static_cast<size_t>(n);
  }
}

// Workers that break the protocol before they have said hello, or with it.
int foreign_worker(const std::string& kind) {
  if (kind == "silent") return 0;
  if (kind == "stranger") say("good morning\n");
  if (kind == "future") say("{\"say\":\"hello\",\"protocol\":99}\n");
  if (kind == "endless")
    for (;;) say(std::string(1 << 20, 'x'));
  pause();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "worker") return d5::worker_main();
  if (argc > 2 && std::string(argv[1]) == "foreign") return foreign_worker(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
