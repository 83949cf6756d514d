// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/communicators/mpi/mpi.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace d5 {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

// Counts of MPI-3 are ints: longer messages are of blocks, with a rest.
class Bytes {
 public:
  explicit Bytes(size_t bytes) {
    constexpr size_t block = size_t{1} << 20;
    if (bytes <= INT_MAX) {
      count_ = static_cast<int>(bytes);
      return;
    }
    MPI_Datatype blocks, parts[2];
    check_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &blocks), "MPI_Type_contiguous");
    int lengths[2] = {static_cast<int>(bytes / block), static_cast<int>(bytes % block)};
    MPI_Aint places[2] = {0, static_cast<MPI_Aint>(bytes / block * block)};
    parts[0] = blocks;
    parts[1] = MPI_BYTE;
    check_mpi(MPI_Type_create_struct(2, lengths, places, parts, &type_), "MPI_Type_create_struct");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    MPI_Type_free(&blocks);
    owned_ = true;
  }
  ~Bytes() {
    if (owned_) MPI_Type_free(&type_);  // lives on until the transfer ends
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
  bool owned_ = false;
};

static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t));

Transfer transfer_of(MPI_Request request, int peer) {
  Transfer transfer{0, peer};
  std::memcpy(&transfer.handle, &request, sizeof request);
  return transfer;
}

std::vector<int> nodes_of(MPI_Comm comm) {
  int rank = 0, size = 0, first = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm machine;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine), "MPI_Comm_split_type");
  first = rank;
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, machine), "MPI_Bcast");
  MPI_Comm_free(&machine);
  std::vector<int> firsts(static_cast<size_t>(size)), leaders;
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm), "MPI_Allgather");
  for (int& node : firsts) {
    const auto found = std::ranges::find(leaders, node);
    if (found == leaders.end()) leaders.push_back(node);
    node = static_cast<int>(std::ranges::find(leaders, node) - leaders.begin());
  }
  return firsts;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

// "Open MPI v4.1.4, package: ..." and "MPICH Version:      5.0.2\n..." without what follows, in single spaces.
std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string all(text, static_cast<size_t>(length)), version;
  std::istringstream words(all.substr(0, all.find_first_of(",\n")));
  for (std::string word; words >> word;)
    if (word != "Version:") version += (version.empty() ? "" : " ") + word;
  return version;
}

int class_of(int code) {
  int kind = 0;
  MPI_Error_class(code, &kind);
  return kind;
}

class MpiWindow final : public Window {
 public:
  MpiWindow(MpiTransport& transport, std::shared_ptr<MpiWatch> watch, void* data, size_t bytes)
      : transport_(transport), watch_(std::move(watch)) {
    watch_->begin(transport_.time_limit());
    const int code =
        MPI_Win_create(data, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, transport.communicator(), &window_);
    watch_->end();
    if (code != MPI_SUCCESS && class_of(code) == MPI_ERR_WIN)
      throw Error("[mpi] {} has no windows between these machines: {}", library_version(), text_of(code));
    check_mpi(code, "MPI_Win_create");
    MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Win_lock_all(0, window_), "MPI_Win_lock_all");
  }
  ~MpiWindow() override {
    if (std::uncaught_exceptions() > begun_among_) return;  // freeing would wait for a rank that is lost
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  void put(int rank, size_t offset, const void* from, size_t bytes) override {
    transport_.count(bytes);
    const Bytes b(bytes);
    check_mpi(MPI_Put(from, b.count(), b.type(), rank, static_cast<MPI_Aint>(offset), b.count(), b.type(), window_),
              "MPI_Put");
  }
  void get(int rank, size_t offset, void* to, size_t bytes) override {
    transport_.count(bytes);
    const Bytes b(bytes);
    check_mpi(MPI_Get(to, b.count(), b.type(), rank, static_cast<MPI_Aint>(offset), b.count(), b.type(), window_),
              "MPI_Get");
  }
  void complete() override {
    watch_->begin(transport_.time_limit());
    check_mpi(MPI_Win_flush_all(window_), "MPI_Win_flush_all");
    check_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
    watch_->end();
  }

 private:
  MpiTransport& transport_;
  std::shared_ptr<MpiWatch> watch_;
  const int begun_among_ = std::uncaught_exceptions();
  MPI_Win window_;
};

}  // namespace

namespace {

// User-level failure mitigation: not in every library, so looked for when it runs.
using Revoke = int (*)(MPI_Comm);
using Shrink = int (*)(MPI_Comm, MPI_Comm*);
Revoke revoke_function() { return reinterpret_cast<Revoke>(dlsym(RTLD_DEFAULT, "MPIX_Comm_revoke")); }
Shrink shrink_function() { return reinterpret_cast<Shrink>(dlsym(RTLD_DEFAULT, "MPIX_Comm_shrink")); }

bool is_revoked([[maybe_unused]] int kind) {
#if defined(MPI_ERR_REVOKED)
  return kind == MPI_ERR_REVOKED;
#elif defined(MPIX_ERR_REVOKED)
  return kind == MPIX_ERR_REVOKED;
#else
  return false;
#endif
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  const std::string what = fmt::format("[mpi] {}: {}", call, text_of(code));
  if (shrink_function()) throw RankLost(-1, what);  // with it, what fails does so because a rank is lost
  throw Error("{}", what);
}

namespace {

MpiWatch::Process own_process() {
  MpiWatch::Process own{.pid = getpid()};
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  char space[64] = "";
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0) machine += space;
  own.machine = std::hash<std::string>()(machine);
  gethostname(own.host, sizeof own.host - 1);
  return own;
}

// Time for the launcher to pass on what ranks wrote: what is under way when one of them aborts may be lost.
[[noreturn]] void abort_all() {
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace

// ---- the watch
struct MpiWatchThread {
  std::thread thread;
};

MpiWatch::MpiWatch(MPI_Comm world) : thread_(std::make_unique<MpiWatchThread>()) {
  check_mpi(MPI_Comm_dup(world, &control_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(control_, &rank_);
  MPI_Comm_size(control_, &size_);
  const Process own = own_process();
  processes_.resize(static_cast<size_t>(size_));
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, processes_.data(), sizeof own, MPI_BYTE, control_),
            "MPI_Allgather");
  thread_->thread = std::thread([this] {
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      look();
    }
  });
}

MpiWatch::~MpiWatch() {
  ends_ = true;
  thread_->thread.join();
  MPI_Comm_free(&control_);
}

constexpr int ask_tag = 1, answer_tag = 2;

void MpiWatch::answer_who_asks() {
  for (;;) {
    int asked = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, ask_tag, control_, &asked, &status) != MPI_SUCCESS || !asked) return;
    MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, ask_tag, control_, MPI_STATUS_IGNORE);
    const Answer answer{rank_, calls_};
    MPI_Send(&answer, sizeof answer, MPI_BYTE, status.MPI_SOURCE, answer_tag, control_);
  }
}

void MpiWatch::look() {
  answer_who_asks();
  const double limit = limit_.load(std::memory_order_acquire);
  const long calls = calls_.load(std::memory_order_relaxed);
  if (limit == 0 || calls != seen_calls_) {
    seen_calls_ = calls;
    seen_since_ = now();
  } else if (now() - seen_since_ > limit) {
    accuse(limit);
  }
}

std::vector<MpiWatch::Answer> MpiWatch::ask() {
  const auto n = static_cast<size_t>(size_);
  std::vector<MPI_Request> requests(2 * n, MPI_REQUEST_NULL);
  std::vector<Answer> answers(n, Answer{-1, 0});
  answers[static_cast<size_t>(rank_)] = {rank_, calls_};
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    const auto peer = static_cast<size_t>(to);
    MPI_Irecv(&answers[peer], sizeof(Answer), MPI_BYTE, to, answer_tag, control_, &requests[2 * peer]);
    MPI_Isend(nullptr, 0, MPI_BYTE, to, ask_tag, control_, &requests[2 * peer + 1]);
  }
  for (const double until = now() + 3; now() < until;) {
    int all = 0;
    MPI_Testall(static_cast<int>(2 * n), requests.data(), &all, MPI_STATUSES_IGNORE);
    if (all) break;
    answer_who_asks();  // others may ask at the same time
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return answers;
}

std::vector<int> MpiWatch::silent() {
  std::vector<int> lost;
  const std::vector<Answer> answers = ask();
  for (int rank = 0; rank < size_; ++rank)
    if (answers[static_cast<size_t>(rank)].rank < 0) lost.push_back(rank);
  const std::scoped_lock lock(silent_mutex_);
  return silent_ = lost;
}

void MpiWatch::end_silent() {
  const Process& own = processes_[static_cast<size_t>(rank_)];
  const std::scoped_lock lock(silent_mutex_);
  for (const int rank : silent_) {
    const Process& hung = processes_[static_cast<size_t>(rank)];
    if (hung.machine != own.machine)
      throw Error("[mpi] rank {}, process {} on {}, does not answer; it cannot be ended from {}, so all end", rank,
                  hung.pid, hung.host, own.host);
    kill(static_cast<pid_t>(hung.pid), SIGKILL);
  }
}

void MpiWatch::accuse(double waited_s) {
  const std::vector<Answer> answers = ask();
  std::string silent, late;
  int speaker = size_;  // the first of those who can; the others are ended with it
  const auto add = [](std::string& list, int rank) { list += fmt::format("{}{}", list.empty() ? "" : ", ", rank); };
  for (int rank = 0; rank < size_; ++rank) {
    const Answer& answer = answers[static_cast<size_t>(rank)];
    if (answer.rank < 0)
      add(silent, rank);
    else
      speaker = std::min(speaker, rank);
    if (answer.rank >= 0 && answer.calls < calls_) add(late, rank);
  }
  if (speaker != rank_) std::this_thread::sleep_for(std::chrono::seconds(2));
  std::fprintf(stderr, "d5: [mpi] rank %d waited %.3g s in a collective of the library; rank %s %s\n", rank_, waited_s,
               silent.empty() ? late.c_str() : silent.c_str(),
               silent.empty() ? "has not come to it" : "does not answer: it is lost or hung");
  abort_all();
}

// ---- the transport
MpiTransport::MpiTransport(MPI_Comm comm, std::shared_ptr<MpiWatch> watch)
    : Transport(rank_in(comm), nodes_of(comm)), comm_(comm), watch_(std::move(watch)) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

MpiTransport::~MpiTransport() { MPI_Comm_free(&comm_); }

bool MpiTransport::done(Transfer& transfer) {
  if (transfer.handle == 0) return true;
  MPI_Request request;
  std::memcpy(&request, &transfer.handle, sizeof request);
  int flag = 0;
  MPI_Status status;
  const int code = MPI_Test(&request, &flag, &status);
  if (code != MPI_SUCCESS) {
    const int kind = class_of(code);
    transfer.handle = 0;
    if (kind == MPI_ERR_TRUNCATE)
      throw Error(
          "[communicator] rank {} sent more than the {} bytes that rank {} expects: do all ranks run the same "
          "program?",
          transfer.peer, transfer.expected, rank());
    if (const Revoke revoke = revoke_function()) revoke(comm_);  // the others must not wait for this one
    if (is_revoked(kind))
      throw RankLost(-1, fmt::format("[communicator] a rank is lost; rank {} heard of it from another", rank()));
    throw RankLost(transfer.peer, fmt::format("[communicator] rank {} is lost; rank {} was waiting for it ({})",
                                              transfer.peer, rank(), text_of(code)));
  }
  if (!flag) {
    std::memcpy(&transfer.handle, &request, sizeof request);
    return false;
  }
  transfer.handle = 0;
  if (transfer.expected >= 0) {
    MPI_Count received = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &received);
    if (received != transfer.expected)
      throw Error("[communicator] rank {} sent {} bytes where rank {} expects {}: do all ranks run the same program?",
                  transfer.peer, static_cast<int64_t>(received), rank(), transfer.expected);
  }
  return true;
}

Transfer MpiTransport::start_send(int to, int tag, const void* data, size_t bytes) {
  const Bytes b(bytes);
  MPI_Request request;
  check_mpi(MPI_Isend(data, b.count(), b.type(), to, tag, comm_, &request), "MPI_Isend");
  return transfer_of(request, to);
}

Transfer MpiTransport::start_receive(int from, int tag, void* data, size_t bytes) {
  const Bytes b(bytes);
  MPI_Request request;
  check_mpi(MPI_Irecv(data, b.count(), b.type(), from, tag, comm_, &request), "MPI_Irecv");
  return transfer_of(request, from);
}

std::unique_ptr<Transport> MpiTransport::split(int colour, int key) {
  MPI_Comm part;
  check_mpi(MPI_Comm_split(comm_, colour < 0 ? MPI_UNDEFINED : colour, key, &part), "MPI_Comm_split");
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiTransport>(part, watch_);
}

std::unique_ptr<Window> MpiTransport::expose(void* data, size_t bytes) {
  return std::make_unique<MpiWindow>(*this, watch_, data, bytes);
}

std::optional<std::string> MpiTransport::why_no_library(const Operation& op) const {
  if (op.collective == Collective::put || op.collective == Collective::get)
    return "the windows of d5 are those of the library; legal: windows";
  const bool in_pieces = op.collective == Collective::allreduce || op.collective == Collective::broadcast ||
                         op.collective == Collective::reduce;
  if (op.count > INT_MAX && !in_pieces)
    return fmt::format("MPI-3 counts to 2^31 - 1 elements of a block, not {}", op.count);
  return {};
}

void MpiTransport::run_library(const Operation& op) {
  watch_->begin(time_limit());
  mpi_collective(op, comm_, rank());
  watch_->end();
}

int MpiTransport::abandon(int peer) {
  const std::vector<int> silent = watch_->silent();  // ranks of the watch: of the world, or of what was left of it
  if (silent.empty()) return peer;
  MPI_Group all, group;
  MPI_Comm_group(watch_->communicator(), &all);
  MPI_Comm_group(comm_, &group);
  int here = MPI_UNDEFINED;
  MPI_Group_translate_ranks(all, 1, silent.data(), group, &here);
  MPI_Group_free(&all);
  MPI_Group_free(&group);
  return here == MPI_UNDEFINED ? peer : here;
}

std::optional<std::string> MpiTransport::why_no_shrink() const {
#ifdef MPICH
  return fmt::format("the launcher of {} ends all ranks with the first that is lost; that of Open MPI 5 does not",
                     library_version());
#endif
  if (shrink_function() && revoke_function()) return {};
  return fmt::format("{} has no MPIX_Comm_shrink (ULFM); Open MPI 5 has", library_version());
}

std::unique_ptr<Transport> MpiTransport::shrink() {
  if (const auto reason = why_no_shrink()) throw Error("[communicator] elastic is off: {}", *reason);
  watch_->end_silent();  // a shrink would wait for them
  revoke_function()(comm_);
  MPI_Comm left;
  check_mpi(shrink_function()(comm_, &left), "MPIX_Comm_shrink");
  auto watch = std::make_shared<MpiWatch>(left);
  return std::make_unique<MpiTransport>(left, std::move(watch));
}

void MpiTransport::plain_loop(const Operation& op, std::span<double> ends) {
  watch_->begin(time_limit() * static_cast<double>(ends.size() + 1));
  for (double& end : ends) {
    mpi_collective(op, comm_, rank());
    end = now();
  }
  watch_->end();
}

namespace {

// Components of Open MPI look for the library's symbols in the global scope, where a module's own are not.
void make_symbols_global() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

// Everything MPI ends with the last user of the world.
std::shared_ptr<Transport> world() {
  make_symbols_global();
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw Error("[mpi] MPI_Init_thread failed");
  if (provided < MPI_THREAD_MULTIPLE)
    throw Error("[mpi] this MPI gives thread support {}, MPI_THREAD_MULTIPLE ({}) is needed", provided,
                static_cast<int>(MPI_THREAD_MULTIPLE));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto watch = std::make_shared<MpiWatch>(MPI_COMM_WORLD);
  MPI_Comm copy;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  auto* const transport = new MpiTransport(copy, watch);
  return {transport, [watch = std::move(watch)](MpiTransport* ends) mutable {
            delete ends;
            watch.reset();
            MPI_Finalize();
          }};
}

struct Mpi {
  static communicators::Entry entry() {
    return {.about = library_version(),
            .world = world,
            .plain_loop = [](Transport& transport, const Operation& op,
                             std::span<double> ends) { dynamic_cast<MpiTransport&>(transport).plain_loop(op, ends); },
            .abort =
                [](Transport&, const std::string& why) {
                  std::fprintf(stderr, "d5: %s\n", why.c_str());
                  abort_all();
                }};
  }
};

}  // namespace

D5_REGISTER(communicators, "mpi", Mpi);

}  // namespace d5
