// SPDX-License-Identifier: Apache-2.0
// What parent and child say to each other (docs/protocol.md): one JSON object a line, over a stream socket.
#pragma once

#include <optional>
#include <string>

#include "d5/bench/session.hpp"

namespace d5 {

inline constexpr int protocol_version = 1;
inline constexpr size_t longest_line_bytes = size_t{64} << 20;
inline constexpr const char* worker_descriptor_variable = "D5_WORKER_FD";

// One end of the socket. Owns the descriptor.
class LineSocket {
 public:
  explicit LineSocket(int descriptor) : descriptor_(descriptor) {}
  ~LineSocket();
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  int descriptor() const { return descriptor_; }
  void send(const Json& message);          // Error where the other side is gone or does not read
  bool fill();                             // takes what has come, without waiting; false: the other side is gone
  std::optional<std::string> take_line();  // the next whole line; Error where it is too long
  std::optional<std::string> read_line();  // waits for it; empty: the other side is gone

 private:
  int descriptor_;
  std::string pending_;
  size_t searched_ = 0;  // so much of pending_ holds no end of line
};

Json to_json(const Outcome&);
Outcome outcome_from_json(const Json&);  // Error names the missing or wrong field
Json to_json(const Slice&);
Slice slice_from_json(const Json&);
Json to_json(const SliceResult&);
SliceResult slice_result_from_json(const Json&);

}  // namespace d5
