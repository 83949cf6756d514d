// SPDX-License-Identifier: Apache-2.0
// Synchronous data parallel SGD: every rank steps with the mean of all gradients.
//   g = 1/n sum_r g_r      p = update(p, g)
// A bucket is reduced in place, where it lies in the arena, as soon as its last gradient is ready.
#include "d5/distributed/bucketed_scheme.hpp"

namespace d5 {
namespace {

class Dsgd final : public BucketedScheme {
 public:
  static constexpr const char* about = "synchronous: all step with the mean gradient, reduced during backward";
  static std::vector<Parameter> parameters() { return {bucket_parameter()}; }

  Dsgd(const Attributes& values, Communicator* communicator) : BucketedScheme("dsgd", communicator, values) {}

 protected:
  Request reduce(size_t, Range range, std::byte* gradients) override {
    return communicator().start({.collective = Collective::allreduce,
                                 .input = gradients,
                                 .output = gradients,
                                 .count = range.count,
                                 .dtype = dtype_,
                                 .reduction = Reduction::mean});
  }
  std::vector<Range> divide(const TrainingStart& start) override {
    dtype_ = start.parameters.compute_dtype();
    return BucketedScheme::divide(start);
  }
  double least_bytes() const override { return dense_least_bytes(); }

 private:
  DType dtype_ = DType::f32;
};

}  // namespace
D5_REGISTER(schemes, "dsgd", Dsgd);
}  // namespace d5
