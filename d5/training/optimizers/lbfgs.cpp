// SPDX-License-Identifier: Apache-2.0
// L-BFGS (Liu and Nocedal, 1989): the inverse Hessian from the last steps s and changes of the gradient y, by the
// two-loop recursion. One step makes up to `iterations` of them on its batch.
//   d = -g;   for the newest pair to the oldest: a = (s d) / (y s), d = d - a y;   d = (y s) / (y y) d
//   for the oldest to the newest: d = d + (a - (y d) / (y s)) s;                   p = p + length d
// The length is lr, in the very first iteration lr min(1, 1 / |g|_1). With line_search = "backtracking" it is halved
// until the loss falls by a ten-thousandth of what the slope promises (Armijo), at most twenty times.
#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/graph.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/update.hpp"

namespace d5 {
namespace {

using Numbers = std::span<float>;
constexpr Index chunk = 4096;

// body(first, last) for chunks of a fixed size.
template <class Body>
void over_chunks(Numbers x, Body body) {
  const auto count = static_cast<Index>(x.size());
  parallel_for((count + chunk - 1) / chunk, 8, [&](Index first, Index last) {
    for (Index c = first; c < last; ++c)
      body(static_cast<size_t>(c * chunk), static_cast<size_t>(std::min(count, (c + 1) * chunk)));
  });
}
// The sum of f(i), in an order that threads do not change.
template <class F>
double sum(Numbers x, F f) {
  std::vector<double> parts(x.size() / static_cast<size_t>(chunk) + 1);
  over_chunks(x, [&](size_t first, size_t last) {
    double part = 0;
    for (size_t i = first; i < last; ++i) part += f(i);
    parts[first / static_cast<size_t>(chunk)] = part;
  });
  double all = 0;
  for (const double part : parts) all += part;
  return all;
}
double dot(Numbers a, Numbers b) {
  return sum(a, [&](size_t i) { return static_cast<double>(a[i]) * b[i]; });
}
void add_scaled(Numbers to, double factor, Numbers x) {
  const auto f = static_cast<float>(factor);
  over_chunks(to, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) to[i] += f * x[i];
  });
}
void scale(Numbers to, double factor, Numbers x) {
  const auto f = static_cast<float>(factor);
  over_chunks(to, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) to[i] = f * x[i];
  });
}
double largest(Numbers x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

class Lbfgs final : public Optimizer {
 public:
  static constexpr const char* about = "L-BFGS (Liu and Nocedal, 1989)";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "length of a step along the direction", 1.0},
            {"iterations", "at most, on one batch", int64_t{20}},
            {"evaluations", "at most, on one batch; 0: 5/4 of iterations", int64_t{0}},
            {"history", "how many steps are remembered, in memory of twice as many networks", int64_t{10}},
            {"tolerance_gradient", "it is enough when no element of the gradient is larger", 1e-7},
            {"tolerance_change", "it is enough when the loss, or every element, changes by less", 1e-9},
            {"line_search", "none or backtracking", std::string("none")}};
  }
  static std::vector<Limit> limits() { return {{"tolerance_gradient"}, {"tolerance_change"}}; }

  Lbfgs(const Attributes& a, ParameterSet& set, const Modifiers& modifiers)
      : base_rate_(a.real("learning_rate", 0)),
        rate_(base_rate_),
        iterations_(a.integer("iterations", 0)),
        evaluations_(a.integer("evaluations", 0)),
        history_(a.integer("history", 0)),
        tolerance_gradient_(a.real("tolerance_gradient", 0)),
        tolerance_change_(a.real("tolerance_change", 0)),
        states_(set) {
    const std::vector<std::string> legal{"none", "backtracking"};
    const std::string search = a.text("line_search", "none");
    if (std::ranges::find(legal, search) == legal.end()) fail_unknown("[lbfgs]", "line_search", search, legal);
    backtracking_ = search == "backtracking";
    if (iterations_ < 1 || history_ < 1)
      throw UsageError("[lbfgs] iterations is {} and history {}; at least 1 is wanted", iterations_, history_);
    if (evaluations_ <= 0) evaluations_ = iterations_ * 5 / 4;
    if (const Tensor masters = set.masters({0, 0}); !masters.memory().is_host())
      throw CannotRun(fmt::format("[lbfgs] parameters are on {}; it runs on the host (torch:lbfgs does there)",
                                  masters.memory().device()));

    // Two formulas: the gradient as modifiers leave it, in f32 whatever its type; and a move.
    Formula reading;
    record_modifiers(modifiers, true, reading);
    Variable gradient = reading.state("gradient");
    gradient = reading.parameter_and_gradient().gradient;
    const auto decay = [&](std::string_view, const ParameterSet::Parameter& p) {
      return modifiers.excludes(p) ? 0.0 : modifiers.weight_decay;
    };
    read_gradient_ = std::make_unique<Update>(reading, set, states_, decay);
    Formula moving;
    Variable direction = moving.state("direction"), p = moving.parameter_and_gradient().parameter;
    p += moving.scalar("length") * direction;
    move_ = std::make_unique<Update>(moving, set, states_, Update::PerParameter{});

    const auto state = [&](const std::string& name) {
      return states_.find_or_make({name, Formula::Op::state, Formula::Start::zero, 0, 0, 0}).values<float>();
    };
    const auto number = [&](const std::string& name) {
      return states_.find_or_make({name, Formula::Op::scalar_state, Formula::Start::zero, 0, 0, 0}).values<double>();
    };
    gradient_ = state("gradient");
    direction_ = state("direction");
    last_gradient_ = state("last_gradient");
    for (int64_t i = 0; i < history_; ++i) {
      s_.push_back(state(fmt::format("s{}", i)));
      y_.push_back(state(fmt::format("y{}", i)));
    }
    iteration_ = number("iteration");
    pairs_ = number("pairs");
    length_ = number("length");
    Lbfgs::new_input({});
  }

  void new_input(const Moment& moment) override {
    rate_ = base_rate_ * moment.rate_factor;
    read_gradient_->set("gradient_factor", moment.gradient_factor);
  }
  void update(ParameterSet::Range) override {
    throw Error("[lbfgs] it evaluates a batch several times: step() is there for that, and no scheme can divide it");
  }
  Division division() const override { return Division::whole; }
  bool evaluates() const override { return true; }
  double learning_rate() const override { return rate_; }

  double step(Evaluate& evaluate) override {
    const ParameterSet::Range all = evaluate.parameters().all();
    const auto gradients = [&] {
      const double loss = evaluate.loss_and_gradients();
      read_gradient_->run(all);
      return loss;
    };
    const double first_loss = gradients();
    double loss = first_loss;
    if (largest(gradient_) <= tolerance_gradient_) return first_loss;
    int64_t evaluated = 1;
    for (int64_t i = 1; i <= iterations_; ++i) {
      const bool very_first = iteration_[0]++ == 0;
      find_direction(very_first);
      const double slope = dot(gradient_, direction_);
      std::ranges::copy(gradient_, last_gradient_.begin());
      length_[0] = rate_;
      if (very_first)
        length_[0] *= std::min(1.0, 1 / sum(gradient_, [&](size_t k) { return std::fabs(gradient_[k]); }));
      if (slope > -tolerance_change_) break;
      move(length_[0], all);
      if (backtracking_) evaluated += shorten(evaluate, loss, slope);
      if (i == iterations_) break;
      const double before = loss;
      loss = gradients();
      if (++evaluated >= evaluations_ || largest(gradient_) <= tolerance_gradient_) break;
      if (std::fabs(length_[0]) * largest(direction_) <= tolerance_change_) break;
      if (std::fabs(loss - before) < tolerance_change_) break;
    }
    return first_loss;
  }

  std::vector<State> state() override {
    std::vector<State> result;
    for (const UpdateState::Entry& entry : states_.entries())
      result.push_back({entry.name, entry.values, entry.like_parameters});
    return result;
  }

 private:
  void move(double length, ParameterSet::Range all) {
    move_->set("length", length);
    move_->run(all);
  }

  // The newest pair has the highest number; pair n lies in place n % history.
  size_t place(int64_t n) const { return static_cast<size_t>(n % history_); }

  void find_direction(bool very_first) {
    if (!very_first) remember();
    const auto newest = static_cast<int64_t>(pairs_[0]) - 1, oldest = std::max<int64_t>(0, newest - history_ + 1);
    scale(direction_, -1, gradient_);
    std::vector<double> factors(static_cast<size_t>(history_));
    for (int64_t n = newest; n >= oldest; --n) {
      const Numbers s = s_[place(n)], y = y_[place(n)];
      factors[place(n)] = dot(s, direction_) / dot(y, s);
      add_scaled(direction_, -factors[place(n)], y);
    }
    if (newest >= 0) {
      const Numbers s = s_[place(newest)], y = y_[place(newest)];
      scale(direction_, dot(y, s) / dot(y, y), direction_);
    }
    for (int64_t n = oldest; n <= newest; ++n) {
      const Numbers s = s_[place(n)], y = y_[place(n)];
      add_scaled(direction_, factors[place(n)] - dot(y, direction_) / dot(y, s), s);
    }
  }

  // The last step and what it did to the gradient, where the curvature is positive. The direction is still the last
  // one.
  void remember() {
    const size_t next = place(static_cast<int64_t>(pairs_[0]));
    const auto length = static_cast<float>(length_[0]);
    const double curvature = sum(gradient_, [&](size_t i) {
      return static_cast<double>(gradient_[i] - last_gradient_[i]) * (direction_[i] * length);
    });
    if (!(curvature > 1e-10)) return;
    over_chunks(gradient_, [&](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        y_[next][i] = gradient_[i] - last_gradient_[i];
        s_[next][i] = direction_[i] * length;
      }
    });
    pairs_[0] += 1;
  }

  int64_t shorten(Evaluate& evaluate, double loss, double slope) {
    int64_t evaluated = 0;
    while (evaluated < 20) {
      ++evaluated;
      if (evaluate.loss() <= loss + 1e-4 * length_[0] * slope) break;
      move(-length_[0] / 2, evaluate.parameters().all());
      length_[0] /= 2;
    }
    return evaluated;
  }

  double base_rate_, rate_;
  int64_t iterations_, evaluations_, history_;
  double tolerance_gradient_, tolerance_change_;
  bool backtracking_ = false;
  UpdateState states_;
  std::unique_ptr<Update> read_gradient_, move_;
  Numbers gradient_, direction_, last_gradient_;
  std::vector<Numbers> s_, y_;
  std::span<double> iteration_, pairs_, length_;
};

}  // namespace
D5_REGISTER(optimizers, "lbfgs", Lbfgs);
}  // namespace d5
