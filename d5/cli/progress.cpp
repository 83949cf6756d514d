// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/progress.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace d5 {
namespace {

std::string duration(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02d} s", s / 60, s % 60);
  return fmt::format("{} h {:02d} min", s / 3600, s / 60 % 60);
}

size_t terminal_width() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar(bool quiet) : terminal_(isatty(STDERR_FILENO)), quiet_(quiet) {}

void ProgressBar::show(const Progress& p) {
  if (quiet_ || p.groups == 0) return;
  if (!terminal_) {
    if (p.groups_done == groups_said_) return;
    groups_said_ = p.groups_done;
    fmt::print(stderr, "[{}/{}] {}, about {} left\n", p.groups_done, p.groups, duration(p.seconds_elapsed),
               duration(p.seconds_left));
    return;
  }
  constexpr size_t cells = 24;
  const size_t full = std::min(cells, cells * p.groups_done / p.groups);
  std::string line = fmt::format("[{}{}] {}/{}  {} left  {}", std::string(full, '='), std::string(cells - full, ' '),
                                 p.groups_done, p.groups, duration(p.seconds_left), p.text);
  line.resize(std::min(line.size(), terminal_width() - 1));
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace d5
