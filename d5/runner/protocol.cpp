// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/protocol.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace d5 {
namespace {

template <class T>
T field(const Json& message, const char* name) {
  try {
    return message.at(name).get<T>();
  } catch (const Json::exception&) {
    throw Error("[protocol] field '{}' is missing or has the wrong type in {}", name, message.dump().substr(0, 200));
  }
}

}  // namespace

LineSocket::~LineSocket() { ::close(descriptor_); }

void LineSocket::send(const Json& message) {
  // A message may hold what a library printed: bytes that are no UTF-8 are replaced, not fatal.
  const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("[protocol] cannot send: {}", std::strerror(errno));
    sent += static_cast<size_t>(n);
  }
}

bool LineSocket::fill() {
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t n = ::recv(descriptor_, block.data(), block.size(), MSG_DONTWAIT);
    if (n > 0) pending_.append(block.data(), static_cast<size_t>(n));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    if (static_cast<size_t>(n) < block.size() || pending_.size() > longest_line_bytes) return true;
  }
}

std::optional<std::string> LineSocket::take_line() {
  const size_t end = pending_.find('\n', searched_);
  if (std::min(end, pending_.size()) > longest_line_bytes)
    throw Error("[protocol] a line is longer than {} MiB", longest_line_bytes >> 20);
  if (end == std::string::npos) {
    searched_ = pending_.size();
    return std::nullopt;
  }
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  searched_ = 0;
  return line;
}

std::optional<std::string> LineSocket::read_line() {
  bool open = true;
  for (;;) {
    if (auto line = take_line()) return line;
    if (!open) return std::nullopt;
    pollfd wait{descriptor_, POLLIN, 0};
    ::poll(&wait, 1, -1);
    open = fill();
  }
}

Json to_json(const Outcome& outcome) {
  return {{"status", outcome.status}, {"reason", outcome.reason}, {"details", outcome.details}};
}

Outcome outcome_from_json(const Json& message) {
  static const std::vector<std::string> legal{"passed", "failed", "mistrusted", "skipped", "unsupported", "error"};
  Outcome outcome{field<std::string>(message, "status"), field<std::string>(message, "reason"),
                  message.value("details", Json::object())};
  if (std::ranges::find(legal, outcome.status) == legal.end())
    fail_unknown("[protocol]", "status", outcome.status, legal);
  if (!outcome.details.is_object())
    throw Error("[protocol] 'details' is {}; an object is wanted", outcome.details.type_name());
  return outcome;
}

Json to_json(const Slice& slice) {
  return {{"samples", slice.samples}, {"batch", slice.batch}, {"rewarm", slice.rewarm}};
}

Slice slice_from_json(const Json& message) {
  const Slice slice{field<int64_t>(message, "samples"), field<int64_t>(message, "batch"),
                    field<int64_t>(message, "rewarm")};
  if (slice.samples < 1 || slice.batch < 1 || slice.rewarm < 0)
    throw Error("[protocol] samples {} and batch {} must be at least 1, rewarm {} at least 0", slice.samples,
                slice.batch, slice.rewarm);
  return slice;
}

Json to_json(const SliceResult& result) {
  return {{"seconds", result.seconds}, {"start", result.start}, {"probe", result.probe}};
}

SliceResult slice_result_from_json(const Json& message) {
  return {field<std::vector<double>>(message, "seconds"), field<std::vector<double>>(message, "start"),
          message.value("probe", Json::object())};
}

}  // namespace d5
