// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/worker.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <new>

#include "d5/backends/backend.hpp"
#include "d5/bench/progress.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"
#include "d5/measure/disk_footprint.hpp"
#include "d5/runner/protocol.hpp"
#include "d5/runner/shared_memory.hpp"

namespace d5 {
namespace {

class Worker {
 public:
  explicit Worker(int descriptor) : lines_(descriptor) {
    set_progress_listener([this](const std::string& text, double fraction) { progress(text, fraction); });
  }
  ~Worker() { set_progress_listener({}); }

  void serve() {
    lines_.send({{"say", "hello"},
                 {"protocol", protocol_version},
                 {"program", "d5"},
                 {"version", D5_VERSION},
                 {"pid", getpid()}});
    while (const auto request = next_request()) {
      const std::string what = request->value("do", "");
      if (what == "close") return;
      if (what == "cancel") continue;  // it came too late: that request has its answer
      lines_.send(answer(what, *request));
    }
  }

 private:
  // Any exception becomes the outcome of the case; the worker lives on.
  Json answer(const std::string& what, const Json& request) {
    try {
      if (what == "prepare") return prepare(request);
      if (what == "run") return run(request);
      if (what == "finish") return finish(request);
      if (what == "fetch") return fetch(request);
      if (what == "describe") return describe(request);
      static const std::vector<std::string> legal{"prepare", "run", "finish", "fetch", "describe", "cancel", "close"};
      fail_unknown("[worker]", "request", what, legal);
    } catch (const std::bad_alloc&) {
      return {{"say", "error"}, {"what", "[worker] out of memory"}};
    } catch (const std::exception& error) {
      return {{"say", "error"}, {"what", error.what()}};
    } catch (...) {
      return {{"say", "error"}, {"what", "[worker] an exception of an unknown type"}};
    }
  }

  Json prepare(const Json& request) {
    const int id = request.value("id", 0);
    sessions_.erase(id);  // first the old one's memory, then the new one's
    const Json fields = request.at("case");
    sessions_[id] = bench_of(fields).open(fields);
    if (request.contains("metrics"))
      sessions_[id]->want({request["metrics"].get<std::vector<std::string>>(), request.value("files", "")});
    Json message = to_json(prepared(*sessions_[id], parse_depth(request.value("depth", "measure"))));
    message["say"] = "prepared";
    return message;
  }

  static Outcome prepared(Session& session, Depth depth) {
    try {
      return session.prepare(depth);
    } catch (const CannotRun& reason) {
      return {.status = "unsupported", .reason = reason.what()};
    }
  }

  Json run(const Json& request) {
    Json message = to_json(session(request).run(slice_from_json(request)));
    message["say"] = "ran";
    return message;
  }

  Json finish(const Json& request) {
    Json message = to_json(session(request).finish());
    message["say"] = "finished";
    sessions_.erase(request.value("id", 0));
    return message;
  }

  Json fetch(const Json& request) {
    const Tensor tensor = session(request).fetch(request.at("tensor").get<std::string>());
    write_shared(request.at("file").get<std::string>(), tensor);
    return {{"say", "fetched"}, {"dtype", name(tensor.dtype())}, {"shape", tensor.shape().sizes()}};
  }

  // Opened first: the footprint of a loaded module includes the libraries it needs.
  static Json describe(const Json& request) {
    const std::string backend = request.at("backend").get<std::string>();
    set_threads(request.value("threads", threads()));
    Json message = {{"say", "described"}, {"facts", Json::object()}};
    const auto opened = open_backend(backend);
    for (const auto& [name, value] : opened->facts()) message["facts"][name] = value;
    for (const BackendStatus& status : backend_statuses())
      if (status.name == backend && !status.module.empty()) message["disk_footprint"] = disk_footprint(status.module);
    return message;
  }

  Session& session(const Json& request) {
    const auto found = sessions_.find(request.value("id", 0));
    if (found == sessions_.end()) throw Error("[worker] case {} is not prepared", request.value("id", 0));
    return *found->second;
  }

  std::optional<Json> next_request() {
    if (!early_.empty()) {
      const Json first = early_.front();
      early_.pop_front();
      return first;
    }
    const auto line = lines_.read_line();
    return line ? std::optional(Json::parse(*line)) : std::nullopt;
  }

  void progress(const std::string& text, double fraction) {
    lines_.send({{"say", "progress"}, {"text", text}, {"fraction", fraction}});
    lines_.fill();
    while (const auto line = lines_.take_line()) {
      const Json request = Json::parse(*line);
      if (request.value("do", "") == "cancel") throw Cancelled("[worker] cancelled");
      early_.push_back(request);
    }
  }

  LineSocket lines_;
  std::map<int, std::unique_ptr<Session>> sessions_;
  std::deque<Json> early_;  // came while a request was under way
};

}  // namespace

int worker_main() {
  const char* text = std::getenv(worker_descriptor_variable);
  const int descriptor = text ? std::atoi(text) : 0;
  if (descriptor < 3) {
    std::fprintf(stderr, "[worker] %s names no descriptor: a worker is started by d5, not by hand\n",
                 worker_descriptor_variable);
    return 2;
  }
  try {
    for (const std::string& library : plugins_of_environment()) load_plugin(library);
    Worker(descriptor).serve();
  } catch (const std::exception& error) {  // the parent is gone or speaks another language
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace d5
