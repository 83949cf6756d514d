// SPDX-License-Identifier: Apache-2.0
// What a network is to learn, and how well it does: from its scores and the targets of the samples. One file per task
// in tasks/; it ends with D5_REGISTER(tasks, "classification", Classification). The class has static members
//   about    one line
//   loss     what is minimised where the network does not say (networks/loss.hpp)
//   quality  the name of what is reported: accuracy
//   larger_is_better
//   target_type   the element type of its targets, where only one will do: i64 for classes
// and a constructor from the spec of the scores.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/core/registry.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

// Everything seen so far of one pass over a set. All state is in sums(), so that a checkpoint can hold it.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // `loss` is the mean over these samples; scores and target are row-major on the host, one row a sample. `samples`
  // are their numbers in the set.
  void add(double loss, const Tensor& scores, const Tensor& target, std::span<const Index> samples);
  // Error that names the sample where a target does not fit the scores: class 12 of 10.
  virtual void check_target(const Tensor& /*target*/, std::span<const Index> /*samples*/) const {}

  double loss() const { return sums_[1] > 0 ? sums_[0] / sums_[1] : 0; }  // mean over samples
  Index samples() const { return static_cast<Index>(sums_[1]); }
  virtual double value() const = 0;                                               // the task's quality
  virtual std::optional<std::pair<Index, Index>> right_of() const { return {}; }  // where it is a share of samples
  virtual nlohmann::json report() const;  // more than one number: confusion, wrong ones

  std::vector<double>& sums() { return sums_; }
  void reset();

 protected:
  explicit Evaluation(size_t own_sums) : sums_(2 + own_sums, 0.0) {}
  virtual void see(const Tensor& scores, const Tensor& target, std::span<const Index> samples) = 0;
  virtual void forget() {}
  double& own(size_t i) { return sums_[2 + i]; }
  double own(size_t i) const { return sums_[2 + i]; }

 private:
  std::vector<double> sums_;  // loss x samples, samples, the task's own
};

struct tasks {
  static constexpr const char* kind = "task";
  struct Entry {
    std::string about, loss, quality;
    bool larger_is_better = true;
    std::function<std::unique_ptr<Evaluation>(const TensorSpec& scores)> make;
    std::optional<DType> target_type = {};
  };
  template <class T>
  static Entry entry() {
    Entry result{T::about, T::loss, T::quality, T::larger_is_better,
                 [](const TensorSpec& scores) -> std::unique_ptr<Evaluation> { return std::make_unique<T>(scores); }};
    if constexpr (requires { T::target_type; }) result.target_type = T::target_type;
    return result;
  }
};

// The task of a network that is trained with this loss.
std::string task_of_loss(const std::string& loss);

}  // namespace d5
