// SPDX-License-Identifier: Apache-2.0
// QSGD (Alistarh et al., 2017): gradients are rounded at random to few levels, without bias; every rank gets those of
// all and decodes them, in the order of ranks.
//   g = 1/n sum_r Q(g_r)      p = update(p, g)      E Q(v) = v (quantise.hpp)
// The random numbers are a function of the seed, the step, the rank and the place in the arena.
#include <algorithm>

#include "d5/distributed/bucketed_scheme.hpp"
#include "d5/distributed/quantise.hpp"

namespace d5 {
namespace {

class Qsgd final : public BucketedScheme {
 public:
  static constexpr const char* about = "synchronous, gradients are rounded at random to 2, 4 or 8 bits";
  static std::vector<Parameter> parameters() {
    return {bucket_parameter(),
            {"bits", "of a gradient, its sign included: 2, 4 or 8", 4},
            {"group", "gradients with one scale", 512}};
  }

  Qsgd(const Attributes& values, Communicator* communicator)
      : BucketedScheme("qsgd", communicator, values),
        quantiser_(legal_bits(values, place()), integer_in(values, "group", 1, 1 << 20, place())) {}

  void begin_training(const TrainingStart& start) override {
    need_f32_gradients(start.parameters);
    BucketedScheme::begin_training(start);
    seed_ = start.seed;
    mine_.resize(buckets());
    all_.resize(buckets());
    encoded_ = 0;
    for (size_t b = 0; b < buckets(); ++b) {
      const auto encoded = static_cast<size_t>(quantiser_.encoded_bytes(bucket(b).count));
      mine_[b].resize(encoded);
      all_[b].resize(encoded * static_cast<size_t>(ranks()));
      encoded_ += static_cast<double>(encoded);
    }
  }
  void begin_step(Step& step) override {
    BucketedScheme::begin_step(step);
    step_seed_ = Rng(seed_, stream_of("qsgd")).bits(static_cast<uint64_t>(step.moment().step));
  }

 protected:
  Request reduce(size_t b, Range range, std::byte* bytes) override {
    quantiser_.encode({reinterpret_cast<const float*>(bytes), static_cast<size_t>(range.count)},
                      Rng(step_seed_, static_cast<uint64_t>(rank())), static_cast<uint64_t>(range.first),
                      mine_[b].data());
    return communicator().start({.collective = Collective::allgather,
                                 .input = mine_[b].data(),
                                 .output = all_[b].data(),
                                 .count = static_cast<int64_t>(mine_[b].size()),
                                 .dtype = DType::u8});
  }
  void reduced(size_t b, Range range, std::byte* bytes) override {
    const std::span gradients(reinterpret_cast<float*>(bytes), static_cast<size_t>(range.count));
    std::ranges::fill(gradients, 0.0f);
    for (size_t r = 0; r < static_cast<size_t>(ranks()); ++r)
      quantiser_.add_decoded(all_[b].data() + r * mine_[b].size(), gradients);
    const auto n = static_cast<float>(ranks());
    for (float& gradient : gradients) gradient /= n;
  }
  double least_bytes() const override { return static_cast<double>(ranks()) * (ranks() - 1) * encoded_; }

 private:
  static int64_t legal_bits(const Attributes& values, const std::string& place) {
    const int64_t bits = values.integer("bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) throw UsageError("{} bits is {}; legal: 2, 4, 8", place, bits);
    return bits;
  }
  Quantiser quantiser_;
  uint64_t seed_ = 1, step_seed_ = 0;
  std::vector<std::vector<std::byte>> mine_, all_;  // of buckets: encoded by this rank, by all of them
  double encoded_ = 0;
};

}  // namespace
D5_REGISTER(schemes, "qsgd", Qsgd);
}  // namespace d5
