// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/search.hpp"

#include <fmt/ranges.h>
#include <sched.h>

#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"

namespace d5 {
namespace {

std::string values_text(const Json& values) {
  std::string text;
  for (const auto& [field, value] : values.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

// Trials of one method on one recipe, several at a time.
class Search {
 public:
  Search(const Recipe& recipe, const SearchPlan& plan, const SearchRun& run, const Json& per)
      : recipe_(recipe), plan_(plan), run_(run), per_(per) {
    SearchSettings settings{.space = {}, .trials = plan.trials, .seed = plan.seed, .values = plan.values};
    for (const SearchField& field : plan.space) settings.space.push_back(dimension_of(field));
    method_ = make_search(plan.method, settings);
    // What is wrong shows before hours have passed.
    const Json first = trial_case(recipe, values_of(Point(plan.space.size(), 0.0)), 1);
    if (const std::string file = first.value("export", ""); !file.empty())
      throw UsageError("[search] export is {}; every trial would write it: train the best one with it", file);
    if (plan.objective == "time_to_target" && first.at("target") == 0.0)
      throw UsageError("[search] objective time_to_target: {} has no target; legal: quality, or a target in the recipe",
                       recipe.name);
  }

  std::vector<Record> run() {
    take_known();
    const int workers = std::max(1, plan_.parallel);
    if (workers == 1) {
      work({.cores = {}, .hosts = plan_.hosts});
    } else {
      std::vector<std::thread> threads;
      for (int w = 0; w < workers; ++w) threads.emplace_back([this, w, workers] { work(place_of(w, workers)); });
      for (std::thread& thread : threads) thread.join();
    }
    if (error_) std::rethrow_exception(error_);
    if (plan_.confirm && !*run_.interrupted) confirm();
    return std::move(records_);
  }

 private:
  Json values_of(const Point& point) const {
    Json values = per_;
    for (size_t d = 0; d < plan_.space.size(); ++d) values[plan_.space[d].field] = value_at(plan_.space[d], point[d]);
    return values;
  }

  Json describe(size_t number, const Record& record, bool confirms) const {
    const double cost = trial_cost(record, plan_.objective);
    Json search = {{"trial", number},
                   {"per", per_},
                   {"point", trials_[number].point},
                   {"budget", trials_[number].budget},
                   {"values", values_of(trials_[number].point)},
                   {"method", plan_.method},
                   {"objective", plan_.objective},
                   {"cost", std::isfinite(cost) ? Json(cost) : Json()},
                   {"plan", search_identity(recipe_, plan_)}};
    if (confirms) search["confirms"] = true;
    return search;
  }

  // Where a worker's trials run: on cores of this machine, or on other machines.
  struct Place {
    std::vector<int> cores;
    std::vector<std::string> hosts;
  };

  Place place_of(int worker, int workers) const {
    if (plan_.hosts.empty()) return {.cores = share_of_cores(worker, workers), .hosts = {}};
    Place place;
    for (size_t h = static_cast<size_t>(worker); h < plan_.hosts.size(); h += static_cast<size_t>(workers))
      place.hosts.push_back(plan_.hosts[h]);
    return place;
  }

  static std::vector<int> share_of_cores(int worker, int workers) {
    const std::vector<int> all = cores_for(usable_cores());
    const size_t each = all.size() / static_cast<size_t>(workers);
    if (each == 0) return {};  // they share
    const auto first = all.begin() + static_cast<ptrdiff_t>(each * static_cast<size_t>(worker));
    return {first, first + static_cast<ptrdiff_t>(each)};
  }

  // What an earlier run left. A trial that is missing between others is run again.
  void take_known() {
    std::map<size_t, const Record*> by_number;
    for (const Record& record : run_.known) {
      const Json& search = record.details.at("search");
      if (search.at("per") != per_) continue;
      records_.push_back(record);
      if (!search.value("confirms", false)) by_number[search.at("trial").get<size_t>()] = &record;
    }
    if (by_number.empty()) return;
    const size_t last = by_number.rbegin()->first;
    for (size_t number = 0; number <= last; ++number) {
      if (const auto found = by_number.find(number); found != by_number.end()) {
        const Json& search = found->second->details["search"];
        check_length(number, search.at("budget"));
        trials_.push_back(
            {search.at("point").get<Point>(), search.at("budget"), trial_cost(*found->second, plan_.objective)});
        see_best(number);
        continue;
      }
      const SearchMethod::Next next = method_->next(trials_);
      if (next.kind != SearchMethod::Next::Kind::trial) break;
      trials_.push_back({next.point, next.budget, {}});
      again_.push_back(number);
    }
  }

  // With another number of trials, halving's trials have other lengths, and none would be what it is taken for.
  void check_length(size_t number, double known) const {
    const SearchMethod::Next next = method_->next(trials_);
    if (next.kind != SearchMethod::Next::Kind::trial || std::abs(next.budget - known) < 1e-9) return;
    throw UsageError(
        "[search] trial {} has {:.3g} of the whole length in the records, and {} wants {:.3g} for it: a search with "
        "another number of trials; give the old number, or another folder with -o",
        number, known, plan_.method, next.budget);
  }

  void see_best(size_t number) {
    const Trial& trial = trials_[number];
    if (trial.budget < 1 || !std::isfinite(*trial.cost)) return;  // a short training says little of a whole one
    if (best_ && *trials_[*best_].cost <= *trial.cost) return;
    best_ = number;
  }

  // A worker's thread: one trial after the other until the method has no more.
  void work(const Place& place) {
    if (!place.cores.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (const int core : place.cores) CPU_SET(core, &set);
      sched_setaffinity(0, sizeof set, &set);  // of this thread, and of the children that it starts
    }
    std::unique_lock lock(mutex_);
    while (!error_ && !*run_.interrupted) {
      size_t number = trials_.size();
      if (!again_.empty()) {
        number = again_.front();
        again_.pop_front();
      } else {
        const SearchMethod::Next next = method_->next(trials_);
        if (next.kind == SearchMethod::Next::Kind::done) break;
        if (next.kind == SearchMethod::Next::Kind::wait) {
          if (under_way_ == 0) break;
          changed_.wait_for(lock, std::chrono::milliseconds(200));
          continue;
        }
        trials_.push_back({next.point, next.budget, {}});
      }
      ++under_way_;
      try {
        one(number, place.hosts, lock);
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        error_ = std::current_exception();
      }
      --under_way_;
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  void one(size_t number, const std::vector<std::string>& hosts, std::unique_lock<std::mutex>& lock) {
    const Trial trial = trials_[number];
    lock.unlock();
    std::optional<Record> made;
    run_on(hosts, trial_case(recipe_, values_of(trial.point), trial.budget), [&](const Record& r) { made = r; });
    lock.lock();
    if (!made) return;  // interrupted: this trial is not known
    made->details["search"] = describe(number, *made, false);
    if (!hosts.empty()) made->details["search"]["hosts"] = hosts;
    trials_[number].cost = trial_cost(*made, plan_.objective);
    see_best(number);
    say(number, *made);
    keep(*made);
  }

  void run_on(const std::vector<std::string>& hosts, Json fields, const std::function<void(const Record&)>& emit) {
    RunOptions options = run_.options;
    if (!hosts.empty()) {
      fields["communicator"] = "mpi";
      options.environment.emplace_back("D5_CLUSTER_HOSTS", fmt::format("{}", fmt::join(hosts, ",")));
    }
    run_cases(
        {fields}, options, emit, [](const Progress&) {}, *run_.interrupted);
  }

  void say(size_t number, const Record& record) {
    const std::string quality = record.details.value("training", Json::object()).value("quality", "");
    const Metric* metric = record.metric("test_" + quality);
    const Metric* time = record.metric("training_time");
    run_.say(
        fmt::format("trial {}: {}{}: {}{}", number, values_text(record.details["search"]["values"]),
                    trials_[number].budget < 1 ? fmt::format(" ({:.2g} of the length)", trials_[number].budget) : "",
                    metric && time ? fmt::format("test {} {:.4g} in {:.3g} s", quality, metric->median, time->median)
                                   : record.status + " " + record.reason,
                    best_ == number ? ", the best so far" : ""));
  }

  void keep(const Record& record) {
    run_.emit(record);
    records_.push_back(record);
  }

  // The best one with every other seed of the recipe.
  void confirm() {
    if (!best_) return;
    const Json first = trial_case(recipe_, values_of(trials_[*best_].point), 1);
    std::vector<Json> seeds;
    for (const Axis& axis : recipe_.axes)
      if (axis.name == "seed") seeds = axis.values;
    for (const Json& seed : seeds) {
      Json fields = first;
      fields["seed"] = seed;
      const bool known = std::ranges::any_of(records_, [&](const Record& record) {
        return record.fields.at("seed") == seed && record.details["search"]["trial"] == *best_;
      });
      if (known || *run_.interrupted) continue;
      run_on(plan_.hosts, fields, [&](const Record& made) {
        Record record = made;
        record.details["search"] = describe(*best_, made, true);
        run_.say(fmt::format("trial {} again with seed {}", *best_, seed.dump()));
        keep(record);
      });
    }
  }

  const Recipe& recipe_;
  const SearchPlan& plan_;
  const SearchRun& run_;
  Json per_;  // {field: value}, or empty
  std::unique_ptr<SearchMethod> method_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Trial> trials_;
  std::deque<size_t> again_;
  std::optional<size_t> best_;
  int under_way_ = 0;
  std::exception_ptr error_;
  std::vector<Record> records_;
};

}  // namespace

std::string search_identity(const Recipe& recipe, const SearchPlan& plan) {
  Json text = {recipe.kind,    recipe.fixed, recipe.changeable,    plan.method,
               plan.objective, plan.seed,    to_json(plan.values), plan.per.field};
  for (const Axis& axis : recipe.axes)
    if (axis.name != "seed") text.push_back({axis.name, axis.values});
  for (const SearchField& f : plan.space) text.push_back({f.field, f.choices, f.from, f.to, f.logarithmic, f.whole});
  return content_hash(text.dump()).substr(0, 12);
}

std::vector<Record> run_search(const Recipe& recipe, const SearchPlan& plan, const SearchRun& run) {
  if (plan.objective != "quality" && plan.objective != "time_to_target")
    throw UsageError("[search] objective is '{}'; legal: quality, time_to_target", plan.objective);
  for (size_t d = 0; d < plan.space.size(); ++d)
    for (size_t other = 0; other < d; ++other)
      if (plan.space[d].field == plan.space[other].field)
        throw UsageError("[search] {} is searched twice; legal: once, with all its values", plan.space[d].field);
  std::vector<Json> each{Json::object()};
  if (!plan.per.field.empty()) {
    if (std::ranges::find(plan.space, plan.per.field, &SearchField::field) != plan.space.end())
      throw UsageError("[search] {} is searched, and there is to be a search per {}; legal: one of them",
                       plan.per.field, plan.per.field);
    each.clear();
    for (const Json& value : plan.per.choices) each.push_back({{plan.per.field, value}});
  }
  std::vector<Record> all;
  for (const Json& per : each) {
    if (*run.interrupted) break;
    std::vector<Record> records = Search(recipe, plan, run, per).run();
    all.insert(all.end(), std::make_move_iterator(records.begin()), std::make_move_iterator(records.end()));
  }
  return all;
}

}  // namespace d5
