// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/communicator.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "d5/core/plugins.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr int stream_tag = 1, first_message_tag = 2;

// Before anything was measured: few messages for short vectors, few bytes for long ones.
std::array<std::vector<AlgorithmChoice>, collective_count> usual_choices() {
  std::array<std::vector<AlgorithmChoice>, collective_count> all;
  const auto set = [&](Collective c, std::vector<AlgorithmChoice> choice) {
    all[static_cast<size_t>(c)] = std::move(choice);
  };
  set(Collective::allreduce, {{0, "recursive_doubling"}, {32 << 10, "rabenseifner"}, {1 << 20, "segmented_ring"}});
  set(Collective::reduce_scatter, {{0, "segmented_ring"}});
  set(Collective::allgather, {{0, "segmented_ring"}});
  set(Collective::broadcast, {{0, "tree"}, {512 << 10, "segmented_ring"}});
  for (const Collective c : {Collective::reduce, Collective::gather, Collective::scatter}) set(c, {{0, "tree"}});
  for (const Collective c : {Collective::all_to_all, Collective::neighbour_exchange, Collective::send,
                             Collective::send_receive, Collective::put, Collective::get})
    set(c, {{0, "pairwise"}});  // which says of put and get that they are a window's
  set(Collective::barrier, {{0, "recursive_doubling"}});
  return all;
}

// Messages are looked at every few microseconds, beside threads that compute: short sleeps end in time, and whoever
// wakes up for a moment may run at once. Both are wishes; a kernel that knows neither is no error.
void wake_in_time() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  static_assert(sizeof attributes == 48);
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  attributes.runtime = 100'000;  // ns: the slice that it asks for
  syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

}  // namespace

// Requests end in the order in which they began, so one number says which of them are done.
class RequestStream {
 public:
  explicit RequestStream(std::shared_ptr<Transport> transport)
      : transport_(std::move(transport)), ranks_(*transport_, scratch_, stream_tag, &waiting_) {}
  ~RequestStream() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  const Ranks& ranks() const { return ranks_; }
  void listen(CommunicationListener* listener) { listener_ = listener; }

  uint64_t push(const Operation& op) {
    std::unique_lock lock(mutex_);
    if (begun_ - ended_ == queue_.size()) wait_until(lock, [&] { return begun_ - ended_ < queue_.size() || broken_; });
    if (broken_) std::rethrow_exception(broken_);
    queue_[begun_ % queue_.size()] = op;
    const uint64_t sequence = ++begun_;
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    lock.unlock();
    wake_.notify_one();
    return sequence;
  }

  void run(const Operation& op) {
    {
      std::unique_lock lock(mutex_);
      wait_until(lock, [&] { return ended_ == begun_ || broken_; });
      if (broken_) std::rethrow_exception(broken_);
      ++begun_;  // holds the stream: whoever comes later waits for ended_
      inline_ = true;
    }
    ++waiting_;
    const std::exception_ptr error = carry_out(op);
    --waiting_;
    finish(error);
    if (error) std::rethrow_exception(error);
  }

  bool done(uint64_t sequence) {
    const std::scoped_lock lock(mutex_);
    if (ended_ >= sequence) return true;
    if (broken_) std::rethrow_exception(broken_);
    return false;
  }
  void wait(uint64_t sequence) {
    std::unique_lock lock(mutex_);
    wait_until(lock, [&] { return ended_ >= sequence || broken_; });
    if (ended_ < sequence) std::rethrow_exception(broken_);
  }

 private:
  template <class Done>
  void wait_until(std::unique_lock<std::mutex>& lock, const Done& done) {
    if (done()) return;
    CommunicationListener* const listener = listener_;
    const double begin = listener ? now_seconds() : 0;
    ++waiting_;
    moved_.wait(lock, done);
    --waiting_;
    if (listener) listener->waited(begin, now_seconds());
  }

  // The name is looked up when it changes: a short vector takes a microsecond.
  std::exception_ptr carry_out(const Operation& op) try {
    if (op.algorithm != name_) {
      algorithm_ = registered<algorithms>(op.algorithm);
      name_ = op.algorithm;
    }
    CommunicationListener* const listener = listener_;
    const double begin = listener ? now_seconds() : 0;
    run_algorithm(*algorithm_, op, ranks_);
    if (listener) listener->ran(op, begin, now_seconds());
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }

  void finish(std::exception_ptr error) {
    {
      const std::scoped_lock lock(mutex_);
      inline_ = false;
      if (error)
        broken_ = error;
      else
        ++ended_;
    }
    moved_.notify_all();
    wake_.notify_all();
  }

  void serve() {
    wake_in_time();
    for (;;) {
      Operation op;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ends_ || broken_ || (begun_ > ended_ && !inline_); });
        if (broken_ || (begun_ == ended_ && ends_)) return;
        if (begun_ == ended_ || inline_) continue;
        op = queue_[ended_ % queue_.size()];
      }
      finish(carry_out(op));
    }
  }

  std::shared_ptr<Transport> transport_;
  Scratch scratch_;
  std::atomic<int> waiting_{0};  // threads that cannot go on before a request has ended
  Ranks ranks_;
  std::atomic<CommunicationListener*> listener_{nullptr};
  std::mutex mutex_;
  std::condition_variable wake_, moved_;
  std::array<Operation, 256> queue_;
  uint64_t begun_ = 0, ended_ = 0;
  bool inline_ = false, ends_ = false;
  std::exception_ptr broken_;
  std::string name_;
  std::shared_ptr<const Algorithm> algorithm_;
  std::thread thread_;
};

bool Request::done() {
  if (stream_) return stream_->done(sequence_);
  return !transport_ || transport_->done(transfer_);
}

void Request::wait() {
  if (stream_) return stream_->wait(sequence_);
  if (transport_) transport_->wait(transfer_);
}

void wait_all(std::vector<Request>& requests) {
  for (Request& request : requests) request.wait();
  requests.clear();
}

Communicator::Communicator(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)),
      stream_(std::make_shared<RequestStream>(transport_)),
      choices_(usual_choices()) {}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;

int Communicator::rank() const { return transport_->rank(); }
int Communicator::size() const { return transport_->size(); }
const std::vector<int>& Communicator::nodes() const { return transport_->nodes(); }
Traffic Communicator::traffic() const { return transport_->traffic(); }
void Communicator::set_time_limit(double seconds) { transport_->set_time_limit(seconds); }
Transport& Communicator::transport() { return *transport_; }
void Communicator::listen(CommunicationListener* listener) { stream_->listen(listener); }

std::string_view Communicator::chosen(const Operation& op) const {
  if (!op.algorithm.empty()) return op.algorithm;
  const auto& choices = choices_[static_cast<size_t>(op.collective)];
  std::string_view best = choices.front().algorithm;
  const int64_t bytes = total_bytes(op, size());
  for (const AlgorithmChoice& choice : choices)
    if (choice.from_bytes <= bytes) best = choice.algorithm;
  return best;
}

Request Communicator::start(Operation op) {
  op.algorithm = chosen(op);
  if (op.divisor == 0) op.divisor = size();
  Request request;
  request.stream_ = stream_;
  request.sequence_ = stream_->push(op);
  return request;
}

void Communicator::run(Operation op) {
  op.algorithm = chosen(op);
  if (op.divisor == 0) op.divisor = size();
  stream_->run(op);
}

void Communicator::barrier() { run({.collective = Collective::barrier}); }

std::optional<std::string> Communicator::why_not(const Operation& op) const {
  return registered<algorithms>(chosen(op))->why_not(op, stream_->ranks());
}

Request Communicator::send(int to, const void* data, size_t bytes, int tag) {
  Request request;
  request.transport_ = transport_;
  request.transfer_ = transport_->send(to, first_message_tag + tag, data, bytes);
  return request;
}

Request Communicator::receive(int from, void* data, size_t bytes, int tag) {
  Request request;
  request.transport_ = transport_;
  request.transfer_ = transport_->receive(from, first_message_tag + tag, data, bytes);
  return request;
}

std::unique_ptr<Window> Communicator::expose(void* data, size_t bytes) { return transport_->expose(data, bytes); }

std::optional<Communicator> Communicator::split(int colour, int key) {
  std::shared_ptr<Transport> part = transport_->split(colour, key);
  if (!part) return {};
  part->set_time_limit(transport_->time_limit());
  return Communicator(std::move(part));
}

Communicator Communicator::shrink() {
  std::shared_ptr<Transport> left = transport_->shrink();
  left->set_time_limit(transport_->time_limit());
  return Communicator(std::move(left));
}

void Communicator::choose(Collective collective, std::vector<AlgorithmChoice> choice) {
  if (choice.empty() || choice.front().from_bytes != 0)
    throw Error("[communicator] the first choice of an algorithm is for 0 bytes on");
  for (const AlgorithmChoice& row : choice) registered<algorithms>(row.algorithm);
  choices_[static_cast<size_t>(collective)] = std::move(choice);
}

const std::vector<AlgorithmChoice>& Communicator::choices(Collective collective) const {
  return choices_[static_cast<size_t>(collective)];
}

namespace {

std::filesystem::path module_folder() {
  if (const char* path = std::getenv("D5_BACKEND_PATH"); path && *path) return path;
  return library_folder() / "d5";
}

}  // namespace

// communicators.txt beside the modules: "name|on|about" or "name|off|reason".
std::vector<CommunicatorStatus> communicator_statuses() {
  std::vector<CommunicatorStatus> all{{"threads", true, "ranks are threads of one process"}};
  const auto folder = module_folder();
  std::ifstream file(folder / "communicators.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    CommunicatorStatus status;
    std::string state;
    std::getline(cells, status.name, '|');
    std::getline(cells, state, '|');
    std::getline(cells, status.reason);
    status.available = state == "on";
    const auto module = folder / ("libd5_" + status.name + ".so");
    if (status.available && !std::filesystem::exists(module)) {
      status.available = false;
      status.reason = fmt::format("its module {} is not there", module.string());
    }
    all.push_back(std::move(status));
  }
  return all;
}

const communicators::Entry& open_communicator(const std::string& name) {
  if (const auto* entry = find_registered<communicators>(name)) return *entry;
  std::vector<std::string> legal;
  for (const CommunicatorStatus& status : communicator_statuses()) {
    legal.push_back(status.name);
    if (status.name != name) continue;
    if (!status.available) throw UsageError("[communicator] {} is off: {}", name, status.reason);
    load_plugin((module_folder() / ("libd5_" + name + ".so")).string());
    return registered<communicators>(name);
  }
  fail_unknown("[communicator]", communicators::kind, name, legal);
}

}  // namespace d5
