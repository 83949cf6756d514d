// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel_memory.hpp"

#include <algorithm>

namespace d5 {
namespace {

bool at(const std::vector<bool>& list, size_t i) { return i < list.size() && list[i]; }

class Planner {
 public:
  Planner(const KernelPlan& plan, const CompileOptions& options, const std::vector<bool>& in_set,
          const Recomputation& recomputation)
      : plan_(plan),
        options_(options),
        in_set_(in_set),
        training_(options.mode == Mode::training),
        times_(plan.steps.size(), recomputation) {
    end_ = !training_ || plan.steps.empty() ? plan.steps.size() : times_.backward[0] + 1;
    all_.recomputation = recomputation;
  }

  KernelBuffers run() {
    all_.values.assign(plan_.values.size(), none);
    all_.gradients.assign(plan_.values.size(), none);
    all_.seeds.assign(plan_.values.size(), none);
    find_lives();
    place_values();
    if (training_) place_gradients();
    place_workspaces();
    return std::move(all_);
  }

 private:
  size_t forward_time(size_t s) const { return times_.forward[s]; }
  size_t again_time(size_t s) const { return times_.again[s]; }
  size_t backward_time(size_t s) const { return times_.backward[s]; }
  size_t last_time() const { return std::max<size_t>(end_, 1) - 1; }

  size_t add(std::string name, size_t bytes, size_t first, size_t last, bool fixed = false) {
    all_.buffers.push_back({std::move(name), {bytes, first, last}, fixed});
    return all_.buffers.size() - 1;
  }
  BufferLife& life(size_t buffer) { return all_.buffers[buffer].life; }

  // A whole value beside tiled steps: other tiles need it while this one is at a later step.
  bool through_tiles(size_t s, size_t v) const { return plan_.tiles.has(s) && plan_.values[plan_.root(v)].tiles == 1; }

  // By root: from the step that makes it to the last that reads it; made again, from then on to the last.
  void find_lives() {
    first_.assign(plan_.values.size(), 0);
    last_.assign(plan_.values.size(), 0);
    first_again_.assign(plan_.values.size(), none);
    last_again_.assign(plan_.values.size(), 0);
    stays_.assign(plan_.values.size(), false);
    for (const PlannedValue& value : plan_.values)
      if (value.kept || value.input || value.fixed()) stays_[value.root] = true;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (const size_t v : plan_.steps[s].outputs)
        if (v != none && !stays_[v]) first_again_[v] = last_again_[v] = again_time(s);
    const auto lives = [&](size_t v, size_t time) {
      if (options_.backward_again && time >= plan_.steps.size()) time = last_time();
      const size_t r = plan_.root(v);
      size_t& last = time >= plan_.steps.size() && first_again_[r] != none ? last_again_[r] : last_[r];
      last = std::max(last, time);
    };
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlannedStep& step = plan_.steps[s];
      for (const size_t v : step.outputs) {
        if (v == none) continue;
        first_[v] = forward_time(through_tiles(s, v) ? plan_.tiles.begin : s);
        lives(v, forward_time(through_tiles(s, v) ? plan_.tiles.end - 1 : s));
      }
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] != none) {
          lives(step.inputs[i], forward_time(through_tiles(s, step.inputs[i]) ? plan_.tiles.end - 1 : s));
          if (again_time(s) != none) lives(step.inputs[i], again_time(s));
          const auto& reads = step.memory.backward_inputs;
          if (training_ && step.backward && (!reads || at(*reads, i))) lives(step.inputs[i], backward_time(s));
        }
      const auto& reads = step.memory.backward_outputs;
      for (size_t o = 0; o < step.outputs.size(); ++o)
        if (step.outputs[o] != none && training_ && step.backward && (!reads || at(*reads, o)))
          lives(step.outputs[o], backward_time(s));
    }
  }

  void place_values() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlannedValue& value = plan_.values[v];
      if (value.root != v || value.inside || in_set_[v] || made_by_step(v)) continue;
      all_.values[v] = add(value.name, value.bytes(), 0, last_time(), value.fixed());
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlannedStep& step = plan_.steps[s];
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const size_t v = step.outputs[o];
        if (v == none) continue;
        const size_t last = stays_[v] ? last_time() : last_[v];
        if (const size_t taken = o == 0 ? taken_by(s) : none; taken != none) {
          all_.values[v] = taken;
          life(taken).last = std::max(life(taken).last, last);
          for (LifeStretch& stretch : life(taken).more) stretch.last = std::max(stretch.last, last_again_[v]);
        } else {
          all_.values[v] = add(plan_.values[v].name, plan_.values[v].bytes(), first_[v], last);
          if (first_again_[v] != none) life(all_.values[v]).more = {{first_again_[v], last_again_[v]}};
        }
      }
    }
    for (size_t v = 0; v < plan_.values.size(); ++v) all_.values[v] = all_.values[plan_.root(v)];
  }

  bool made_by_step(size_t v) {
    if (made_.empty()) {
      made_.assign(plan_.values.size(), false);
      for (const PlannedStep& step : plan_.steps)
        for (const size_t o : step.outputs)
          if (o != none) made_[o] = true;
    }
    return made_[v];
  }

  // The buffer of an input that the result of this step takes, because the input is read here for the last time.
  size_t taken_by(size_t s) const {
    const PlannedStep& step = plan_.steps[s];
    const size_t result = step.outputs[0];
    const auto free = [&](size_t i) {
      const size_t v = step.inputs[i];
      if (v == none) return false;
      const size_t r = plan_.root(v);
      const auto same = [&](size_t other) { return other != none && plan_.root(other) == r; };
      // Both are made again, one soon after the other, or neither is.
      if ((first_again_[r] == none) != (again_time(s) == none)) return false;
      if (stays_[result] && again_time(s) != none) return false;
      if (first_again_[r] != none && last_again_[r] != again_time(s)) return false;
      return !stays_[r] && !in_set_[r] && last_[r] == forward_time(s) &&
             std::ranges::count_if(step.inputs, same) == 1 && plan_.values[r].bytes() == plan_.values[result].bytes();
    };
    if (const auto must = step.memory.must_in_place) {
      if (!free(*must)) throw Error("[kernel] {} wants to overwrite an input that others read", step.shown.name);
      return all_.values[plan_.root(step.inputs[*must])];
    }
    if (plan_.alone || options_.keep_all) return none;  // every buffer has bytes and guards of its own
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (at(step.memory.in_place, i) && free(i)) return all_.values[plan_.root(step.inputs[i])];
    return none;
  }

  // ---- gradients
  void place_gradients() {
    all_.uses.resize(plan_.steps.size());
    parts_.resize(plan_.values.size());
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlannedValue& value = plan_.values[v];
      if (value.fixed() && value.gradient && !in_set_[v] && value.root == v)
        all_.gradients[v] = add("gradient of " + value.name, value.gradient_bytes(), 0, last_time(), true);
      if (!value.output || !value.gradient) continue;
      all_.seeds[v] = add("gradient of " + value.name, value.gradient_bytes(), 0, last_time());
      all_.gradients[v] = all_.seeds[v];
      hold(plan_.root(v), all_.seeds[v]);
      ++holders_[all_.seeds[v]];  // whoever wrote it, too: nobody may change it
    }
    for (size_t s = plan_.steps.size(); s-- > 0;)
      if (plan_.steps[s].backward) place_gradients(s);
  }

  void hold(size_t r, size_t buffer) {
    parts_[r].push_back(buffer);
    holders_.resize(all_.buffers.size(), 0);
    ++holders_[buffer];
  }
  void release(size_t buffer) { --holders_[buffer]; }

  void place_gradients(size_t s) {
    const PlannedStep& step = plan_.steps[s];
    const size_t time = backward_time(s);
    GradientUse& use = all_.uses[s];
    use.outputs.resize(step.outputs.size());
    use.inputs.assign(step.inputs.size(), none);
    use.adds.assign(step.inputs.size(), false);
    bool any = false;
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const size_t v = step.outputs[o];
      if (v == none || !plan_.values[v].gradient || parts_[v].empty()) continue;
      const size_t most = o == 0 ? std::max<size_t>(step.memory.most_contributions, 1) : 1;
      if (parts_[v].size() > most) sum(v, time, use.before, free_part(v));
      use.outputs[o] = parts_[v];
      for (const size_t buffer : parts_[v]) life(buffer).last = std::max(life(buffer).last, time);
      any = true;
    }
    if (!any) return;
    // Those that are passed on first: nothing may then be computed in their place.
    for (const bool passed : {true, false})
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (step.wants_gradient[i] && at(step.memory.passes_gradient, i) == passed) contribute(s, i, time, use);
    for (const auto& buffers : use.outputs)
      for (const size_t buffer : buffers) release(buffer);
  }

  void contribute(size_t s, size_t i, size_t time, GradientUse& use) {
    const PlannedStep& step = plan_.steps[s];
    const size_t r = plan_.root(step.inputs[i]), parts = parts_[r].size();
    if (plan_.values[r].fixed()) {
      use.runs = true;
    } else if (at(step.memory.passes_gradient, i)) {
      for (const size_t buffer : use.outputs[0]) hold(r, buffer);
    } else if (i < step.memory.same_gradient.size() && step.memory.same_gradient[i] != none) {
      hold(r, use.inputs[step.memory.same_gradient[i]]);
    } else {
      use.runs = true;
      use.inputs[i] = target_of(s, i, time, use);
    }
    if (plan_.values[r].kept && !plan_.values[r].fixed()) make_readable(r, parts, time, use.after);
  }

  // Where this step's contribution goes: added to one that is there, in the place of what it reads, or apart.
  size_t target_of(size_t s, size_t i, size_t time, GradientUse& use) {
    const PlannedStep& step = plan_.steps[s];
    const size_t r = plan_.root(step.inputs[i]);
    const auto read_here = [&](size_t buffer) {
      return std::ranges::any_of(use.outputs,
                                 [&](const auto& parts) { return std::ranges::find(parts, buffer) != parts.end(); });
    };
    if (at(step.memory.adds_gradient, i))
      for (const size_t buffer : parts_[r])
        if (holders_[buffer] == 1 && !read_here(buffer)) {
          use.adds[i] = true;
          life(buffer).last = std::max(life(buffer).last, time);
          return buffer;
        }
    const size_t bytes = plan_.values[r].gradient_bytes();
    if (!plan_.alone && !options_.keep_all && at(step.memory.gradient_in_place, i) && !use.outputs[0].empty()) {
      const size_t buffer = use.outputs[0].front();
      if (holders_[buffer] == 1 && life(buffer).bytes == bytes) {
        hold(r, buffer);
        return buffer;
      }
    }
    const size_t buffer = add("gradient of " + plan_.values[r].name, bytes, time, time);
    hold(r, buffer);
    return buffer;
  }

  // A summand that the sum can take the place of.
  size_t free_part(size_t r) const {
    for (const size_t buffer : parts_[r])
      if (holders_[buffer] == 1) return buffer;
    return none;
  }

  // A gradient that can be read has a buffer of its own, which is up to date after every contribution.
  void make_readable(size_t r, size_t parts_before, size_t time, std::vector<GradientSum>& sums) {
    auto& parts = parts_[r];
    if (parts.size() == parts_before) return;  // it was added to in place
    const size_t own = parts_before > 0 && all_.gradients[r] != all_.seeds[r] ? all_.gradients[r] : none;
    if (own != none || parts.size() > 1 || holders_[parts[0]] > 1) {
      if (own != none) release(own);
      sum(r, time, sums, own);
    }
    all_.gradients[r] = parts[0];
    life(parts[0]).last = last_time();
    ++holders_[parts[0]];  // of whoever reads it: nobody may change it
  }

  void sum(size_t r, size_t time, std::vector<GradientSum>& sums, size_t target) {
    auto& parts = parts_[r];
    if (target == none)
      target = add("gradient of " + plan_.values[r].name, plan_.values[r].gradient_bytes(), time, time);
    for (const size_t buffer : parts) {
      life(buffer).last = std::max(life(buffer).last, time);
      release(buffer);
    }
    sums.push_back({parts, target, r});
    parts.clear();
    hold(r, target);
  }

  void place_workspaces() {
    // Apart, every buffer has guards: one for all steps, then.
    const bool one = plan_.alone || options_.keep_all;
    size_t most = 0;
    for (const PlannedStep& step : plan_.steps) most = std::max(most, step.kernel->scratch_bytes());
    const size_t shared = one ? add("the scratch memory", most, 0, last_time()) : none;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlannedStep& step = plan_.steps[s];
      const bool kept = !training_;  // what was derived from parameters
      const size_t again = again_time(s);
      const size_t last = kept || options_.backward_again ? last_time()
                          : step.backward                 ? backward_time(s)
                                                          : forward_time(s);
      all_.workspaces.push_back(add("the workspace of " + step.shown.name, step.kernel->workspace_bytes(),
                                    kept ? 0 : forward_time(s), again == none ? last : forward_time(s)));
      if (again != none) life(all_.workspaces.back()).more = {{again, last}};
      all_.scratches.push_back(one ? shared
                                   : add("the scratch memory of " + step.shown.name, step.kernel->scratch_bytes(),
                                         forward_time(s), forward_time(s)));
      if (one) continue;
      if (again != none) life(all_.scratches.back()).more.push_back({again, again});
      if (training_) life(all_.scratches.back()).more.push_back({backward_time(s), backward_time(s)});
    }
  }

  const KernelPlan& plan_;
  const CompileOptions& options_;
  const std::vector<bool>& in_set_;
  const bool training_;
  const StepTimes times_;
  size_t end_;
  KernelBuffers all_;
  std::vector<size_t> first_, last_;  // by root
  std::vector<size_t> first_again_, last_again_;
  std::vector<bool> stays_, made_;          // by root
  std::vector<std::vector<size_t>> parts_;  // by root: the summands of its gradient
  std::vector<size_t> holders_;             // by buffer: gradients that it is a summand of
};

}  // namespace

bool Recomputation::any() const { return std::ranges::find(again, true) != again.end(); }

StepTimes::StepTimes(size_t steps, const Recomputation& recomputation)
    : forward(steps), again(steps, none), backward(steps) {
  for (size_t s = 0; s < steps; ++s) forward[s] = s;
  size_t time = steps;
  const auto segment = [&](size_t s) { return recomputation.segment.empty() ? 0 : recomputation.segment[s]; };
  for (size_t end = steps, begin = 0; end > 0; end = begin) {
    for (begin = end - 1; begin > 0 && segment(begin - 1) == segment(end - 1);) --begin;
    for (size_t s = begin; s < end; ++s)
      if (!recomputation.again.empty() && recomputation.again[s]) again[s] = time++;
    for (size_t s = end; s-- > begin;) backward[s] = time++;
  }
}

KernelBuffers plan_buffers(const KernelPlan& plan, const CompileOptions& options, const std::vector<bool>& in_set,
                           const Recomputation& recomputation) {
  return Planner(plan, options, in_set, recomputation).run();
}

}  // namespace d5
