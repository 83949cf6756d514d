// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/group.hpp"

#include <algorithm>
#include <cmath>

#include "d5/measure/schedule.hpp"
#include "d5/measure/stopping.hpp"
#include "d5/runner/process.hpp"
#include "d5/runner/protocol.hpp"

namespace d5 {
namespace {

constexpr int64_t first_look_samples = 40;
constexpr double most_batched_samples =
    256;                                    // a slice; batched ones have no percentiles, more of them tell nothing more
constexpr double warms_itself_seconds = 1;  // an iteration this long hardly notices that it begins with cold caches
constexpr double rewarm_share = 0.1;        // of a slice, unrecorded: caches and clock rate after the stop
constexpr double gibibyte = 1024.0 * 1024 * 1024;

void append(Samples& samples, const SliceResult& slice, int launch, int round, double origin) {
  for (size_t i = 0; i < slice.seconds.size(); ++i) {
    samples.time_s.push_back(slice.seconds[i]);
    samples.start_s.push_back(slice.start[i] - origin);
    samples.launch.push_back(launch);
    samples.round.push_back(round);
  }
}

void warn_once(CaseResult& result, const std::string& warning) {
  if (std::ranges::find(result.warnings, warning) == result.warnings.end()) result.warnings.push_back(warning);
}

}  // namespace

uint64_t stable_hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Group::Group(const std::vector<Json>& cases, const GroupPlan& plan, const RunOptions& options, ChildPool& pool,
             const std::atomic<bool>& interrupted, Tell tell)
    : plan_(plan), options_(options), pool_(pool), interrupted_(interrupted), tell_(std::move(tell)) {
  std::string all;
  for (const Json& fields : cases) all += fields.dump();
  const std::string id = fmt::format("{:08x}-{}", stable_hash(all) & 0xffffffff, plan.index + 1);
  title_ = bench_of(cases.front()).rerun(cases.front());
  for (const Json& fields : cases) {
    Member member;
    member.result.fields = fields;
    member.result.group = id;
    member.result.metrics = options.metrics;
    member.result.comparisons = cases.size() > 1 ? plan.comparisons : 0;
    // A case that is compared with itself needs a child of its own: its launch is what differs.
    const auto copies = std::ranges::count_if(members_, [&](const Member& m) { return m.result.fields == fields; });
    member.key = child_key(fields) + (copies > 0 ? fmt::format(" copy {}", copies) : "");
    member.id = static_cast<int>(members_.size());
    members_.push_back(std::move(member));
  }
}

// A case that needs more than there is would be killed half way, and might take others with it: it is skipped.
void Group::skip_what_does_not_fit() {
  for (Member& member : members_) {
    double needed = 0;
    guarded(member, [&] { needed = bench_of(member.result.fields).memory_bytes(member.result.fields); });
    const auto there = [&] { return static_cast<double>(memory_limit(options_.limits)); };
    if (needed > there()) pool_.clear();  // children of earlier groups hold memory that they no longer need
    if (const double most = there(); needed > most)
      drop(member, "skipped",
           fmt::format("needs about {:.1f} GiB of memory; {:.1f} GiB are {}", needed / gibibyte, most / gibibyte,
                       options_.limits.memory_bytes > 0 ? "the limit" : "there"));
  }
}

std::vector<CaseResult> Group::run() {
  if (options_.depth >= Depth::check) skip_what_does_not_fit();
  if (options_.depth == Depth::measure && !runs_once())
    measure();
  else
    check_only();
  std::vector<CaseResult> results;
  for (Member& member : members_) results.push_back(std::move(member.result));
  return results;
}

bool Group::runs_once() const { return bench_of(members_.front().result.fields).runs_once(); }

// A long run says how far it is itself.
void Group::tell_running(const Json& message) {
  constexpr int parts = 10000;
  const double fraction = std::clamp(message.value("fraction", 0.0), 0.0, 1.0);
  tell_(message.value("text", ""), static_cast<int>(fraction * parts), parts);
}

// Children are kept from group to group: nothing is timed, so their history does not matter.
void Group::check_only() {
  tell_(title_, 0, 1);
  for (Member* member : alive()) {
    guarded(*member, [&] { ensure_open(*member, 0); });
    member->open = false;
    if (options_.depth == Depth::measure) pool_.discard(member->key);  // the next one starts as fresh as this one did
    // What it still holds must not keep the next one from fitting.
    if (2 * member->memory_bytes > static_cast<double>(available_memory_bytes())) pool_.discard(member->key);
  }
}

void Group::measure() {
  const double begin = now_seconds();
  std::string why;
  int shown = plan_.launches;
  for (int done = 0; why.empty() && !alive().empty();) {
    if (done == shown) shown *= 2;  // the rules look after the first launches and at every doubling
    tell_(fmt::format("{}: launch {}/{}", title_, done + 1, shown), done, shown);
    launch(done++);
    if (done >= plan_.launches) why = why_stop(done, now_seconds() - begin);
  }
  pool_.clear();
  for (Member* member : alive()) member->result.stopped = member->rule->done() ? member->rule->why() : why;
}

std::string Group::why_stop(int launches_done, double seconds) {
  const auto members = alive();
  if (std::ranges::all_of(members, [](const Member* m) { return m->rule->done(); })) return "converged";
  return seconds + seconds / launches_done > options_.max_seconds ? "max_time" : "";
}

void Group::launch(int number) {
  if (interleaved_ && launch_together(alive(), number)) return;
  interleaved_ = false;
  for (Member* member : alive()) launch_together({member}, number);
}

bool Group::launch_together(const std::vector<Member*>& members, int number) {
  pool_.clear();
  for (Member& member : members_) member.open = false;
  const double begin = now_seconds();
  for (Member* member : members) {
    guarded(*member, [&] { ensure_open(*member, number); });
    if (member != members.back() && member->open && !next_fits(*member)) {
      pool_.clear();
      return false;
    }
  }
  std::vector<Member*> racing;
  for (Member* member : members)
    if (member->alive) racing.push_back(member);
  if (racing.empty()) return true;
  const uint64_t seed = stable_hash(fmt::format("{} {} {}", options_.seed, plan_.index, number));
  const auto rounds = latin_rounds(racing.size(), static_cast<size_t>(options_.rounds), seed);
  for (size_t round = 0; round < rounds.size(); ++round)
    for (const size_t place : rounds[round]) {
      Member& member = *racing[place];
      if (member.alive) guarded(member, [&] { take_slice(member, number, static_cast<int>(round)); });
    }
  for (Member* member : racing)
    if (member->alive) guarded(*member, [&] { finish(*member); });
  for (Member* member : racing)
    if (member->alive) check_idle(*member, now_seconds() - begin);
  return true;
}

// The next child is taken to need what this one needed. Before the second child is started one is enough to know.
bool Group::next_fits(const Member& prepared) {
  const auto available = static_cast<double>(available_memory_bytes());
  if (prepared.memory_bytes <= available) return true;
  for (Member& member : members_)
    warn_once(member.result,
              fmt::format("interleaved: false; the children do not fit in memory together ({:.1f} GiB each, "
                          "{:.1f} GiB left), so they ran one after the other",
                          prepared.memory_bytes / gibibyte, available / gibibyte));
  return false;
}

void Group::ensure_open(Member& member, int number) {
  if (member.open) return;
  Child& child = pool_.take(member.key, member.result.fields);
  Json request = {
      {"do", "prepare"}, {"id", member.id}, {"case", member.result.fields}, {"depth", name(options_.depth)}};
  if (!options_.metrics.empty()) {
    request["metrics"] = options_.metrics;
    request["files"] = fmt::format("{}/{:08x}", options_.folder, stable_hash(member.result.fields.dump()) & 0xffffffff);
  }
  const Json answer = child.ask(request, [&](const Json& message) {
    if (runs_once() && message.value("say", "") == "progress") tell_running(message);
  });
  Outcome outcome = outcome_from_json(answer);
  member.memory_bytes =
      std::max(outcome.details.value("memory_bytes", 0.0), static_cast<double>(child.peak_memory_bytes()));
  // Prepared a second time in one launch, because a neighbour in the same child took it down: the launch counts once.
  auto& prepared = member.result.prepared;
  if (member.prepared_launch == number) prepared.pop_back();
  member.prepared_launch = number;
  prepared.push_back(outcome.details);
  judge(member, outcome);
  if (!member.alive) return;
  member.open = true;
  if (options_.depth != Depth::measure || runs_once()) return;
  if (const auto warmup = outcome.details.find("warmup_s"); warmup != outcome.details.end())
    for (const double seconds : *warmup) member.result.samples.warmup_s.push_back(seconds);
  if (number == 0) calibrate(member, outcome.details);
}

// The same slices in every launch: samples x batch fill slice_seconds, and the first look sees 40 samples; fewer where
// these alone would take longer than all the time there is.
void Group::calibrate(Member& member, const Json& details) {
  const double seconds = details.value("seconds_per_iteration", 0.0);
  if (!(seconds > 0) || !std::isfinite(seconds))
    throw Error("[runner] details.seconds_per_iteration is {} after prepare; a positive number is wanted", seconds);
  Slice& slice = member.slice;
  slice.batch = iterations_per_sample(seconds, options_.relative_width, plan_.timer);
  if (slice.batch > 1)
    slice.batch = std::max(slice.batch,
                           static_cast<int64_t>(std::ceil(options_.slice_seconds / (most_batched_samples * seconds))));
  const double slices = static_cast<double>(plan_.launches) * options_.rounds;
  const double affordable = std::floor(options_.max_seconds / (slices * seconds * static_cast<double>(slice.batch)));
  const double least = std::clamp(affordable, 1.0, std::ceil(first_look_samples / slices));
  // Room for two doublings: short iterations must not spend all samples before the first look.
  const double most = std::max(least, std::floor(static_cast<double>(options_.max_samples) / (4 * slices)));
  const double wanted = std::ceil(options_.slice_seconds / (seconds * static_cast<double>(slice.batch)));
  slice.samples = static_cast<int64_t>(std::clamp(wanted, least, most));
  slice.rewarm = static_cast<int64_t>(std::max(1.0, std::ceil(rewarm_share * options_.slice_seconds / seconds)));
  if (seconds > warms_itself_seconds) slice.rewarm = 0;
  member.result.samples.batch = slice.batch;
  // Every launch brings the same number of samples, so the rule's looks fall on whole launches: the launch is the unit.
  member.rule = make_stopping_rule(options_.stopping,
                                   {.relative_width = options_.relative_width,
                                    .max_samples = options_.max_samples,
                                    .batch = static_cast<size_t>(slice.batch),
                                    .first_look = static_cast<size_t>(slices) * static_cast<size_t>(slice.samples)});
}

void Group::take_slice(Member& member, int number, int round) {
  ensure_open(member, number);
  if (!member.alive) return;
  Json request = to_json(member.slice);
  request["do"] = "run";
  request["id"] = member.id;
  const SliceResult slice = slice_result_from_json(pool_.take(member.key, member.result.fields).ask(request));
  const auto wanted = static_cast<size_t>(member.slice.samples);
  if (slice.seconds.size() != wanted || slice.start.size() != wanted)
    throw Error("[runner] a slice of {} samples came back with {} times and {} starts", wanted, slice.seconds.size(),
                slice.start.size());
  append(member.result.samples, slice, number, round, plan_.origin);
  for (const double seconds : slice.seconds) member.rule->add(seconds);
  member.result.probes.push_back(slice.probe);
}

void Group::finish(Member& member) {
  if (!member.open) return;  // its child was taken down after its last slice: there is nothing left to check
  const Json answer = pool_.take(member.key, member.result.fields).ask({{"do", "finish"}, {"id", member.id}});
  const Outcome outcome = outcome_from_json(answer);
  member.result.finished.push_back(outcome.details);
  member.open = false;
  judge(member, outcome);
}

// Whatever goes wrong ends this case only. The child is replaced: nobody knows in which state it is.
template <class Act>
void Group::guarded(Member& member, Act act) {
  if (interrupted_) throw Interrupted{};
  try {
    act();
  } catch (const std::exception& error) {
    if (interrupted_) throw Interrupted{};
    drop(member, "error", error.what());
    if (const auto* told = dynamic_cast<const ChildError*>(&error); told && !told->output().empty())
      member.result.warnings.push_back("the child's last output: " + told->output());
    forget_child(member.key);
  }
}

void Group::judge(Member& member, const Outcome& outcome) {
  if (outcome.status == "passed") return;
  if (outcome.status == "mistrusted") {  // timed all the same; the record says that the check had no power
    member.result.status = outcome.status;
    member.result.reason = outcome.reason;
    return;
  }
  drop(member, outcome.status, outcome.reason);
  if (outcome.status == "error") forget_child(member.key);
}

// What fails in any launch has no speed.
void Group::drop(Member& member, const std::string& status, const std::string& reason) {
  CaseResult& result = member.result;
  result.status = status;
  result.reason = reason;
  result.samples = {};
  result.probes.clear();
  member.alive = member.open = false;
}

void Group::forget_child(const std::string& key) {
  pool_.discard(key);
  for (Member& member : members_)
    if (member.key == key) member.open = false;
}

// A stopped child must spend nothing; where stopping does not work, the comparison is not clean.
void Group::check_idle(Member& member, double seconds) {
  const Child* child = pool_.find(member.key);
  if (child && child->idle_cpu_seconds() > 0.002 + 0.01 * seconds)
    warn_once(member.result, fmt::format("its child spent {:.3f} s of processor time while it was stopped",
                                         child->idle_cpu_seconds()));
}

std::vector<Group::Member*> Group::alive() {
  std::vector<Member*> result;
  for (Member& member : members_)
    if (member.alive) result.push_back(&member);
  return result;
}

}  // namespace d5
