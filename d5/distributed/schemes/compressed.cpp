// SPDX-License-Identifier: Apache-2.0
// Gradients travel in 16 bits: half the bytes. Sums are rounded to 16 bits after each addition, so with n ranks a
// gradient is off by at most about (n + 1) u of the magnitudes summed (u = 2^-8 for bf16, 2^-11 for f16). f16 overflows
// above 65504; bf16 has the range of f32.
//   g = f32(1/n sum_r f16(g_r))      p = update(p, g)
#include "d5/core/convert.hpp"
#include "d5/distributed/bucketed_scheme.hpp"

namespace d5 {
namespace {

class Compressed final : public BucketedScheme {
 public:
  static constexpr const char* about = "synchronous, gradients travel in 16 bits";
  static std::vector<Parameter> parameters() { return {bucket_parameter(), {"format", "bf16 or f16", "bf16"}}; }

  Compressed(const Attributes& values, Communicator* communicator)
      : BucketedScheme("compressed", communicator, values),
        format_(one_of(values, "format", {"bf16", "f16"}, place()) == "f16" ? DType::f16 : DType::bf16) {}

  void begin_training(const TrainingStart& start) override {
    need_f32_gradients(start.parameters);
    BucketedScheme::begin_training(start);
    narrow_ = Tensor(format_, {start.parameters.elements()});
  }

 protected:
  Request reduce(size_t, Range range, std::byte* gradients) override {
    void* const narrow = at(range);
    convert(DType::f32, gradients, format_, narrow, range.count);
    return communicator().start({.collective = Collective::allreduce,
                                 .input = narrow,
                                 .output = narrow,
                                 .count = range.count,
                                 .dtype = format_,
                                 .reduction = Reduction::mean});
  }
  void reduced(size_t, Range range, std::byte* gradients) override {
    convert(format_, at(range), DType::f32, gradients, range.count);
  }
  double least_bytes() const override { return dense_least_bytes() / 2; }

 private:
  void* at(Range range) const { return static_cast<std::byte*>(narrow_.data()) + 2 * range.first; }
  DType format_;
  Tensor narrow_;
};

}  // namespace
D5_REGISTER(schemes, "compressed", Compressed);
}  // namespace d5
