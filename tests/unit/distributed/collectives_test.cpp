// SPDX-License-Identifier: Apache-2.0
// Every collective x algorithm x number of ranks x size, against sums that are made without any communication. Values
// are small integers, so that sums are exact in every type and one wrong element shows, whatever the order of adding.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "d5/core/convert.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "tests/sanitized.hpp"

namespace d5 {
namespace {

struct Case {
  Collective collective;
  DType dtype;
  int64_t count;
  Reduction reduction = Reduction::sum;
  int root = 0;
  bool in_place = false;
  double density = 1;
};

// What rank r holds at place i: between -3 and 3, so that bf16 holds sums of 9 ranks exactly.
double value(int rank, int64_t i, double density) {
  const auto hash = (static_cast<uint64_t>(i) * 2654435761u + static_cast<uint64_t>(rank) * 40503u + 17) >> 3;
  if (density < 1 && static_cast<double>(hash % 1000) >= density * 1000) return 0;
  return static_cast<double>(hash % 7) - 3;
}

double expected(const Case& c, int rank, int ranks, int64_t i, bool unsigned_type) {
  const auto at = [&](int r, int64_t k) {
    const double v = value(r, k, c.density);
    return unsigned_type && v < 0 ? v + 4 : v;
  };
  const auto reduced = [&](int64_t k) {
    double sum = c.reduction == Reduction::max ? -1e9 : 0;
    for (int r = 0; r < ranks; ++r) sum = c.reduction == Reduction::max ? std::max(sum, at(r, k)) : sum + at(r, k);
    return c.reduction == Reduction::mean ? sum / ranks : sum;
  };
  switch (c.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduced(i);
    case Collective::reduce_scatter: return reduced(rank * c.count + i);
    case Collective::allgather:
    case Collective::gather: return at(static_cast<int>(i / c.count), i % c.count);
    case Collective::broadcast: return at(c.root, i);
    case Collective::scatter: return at(c.root, rank * c.count + i);
    case Collective::all_to_all: return at(static_cast<int>(i / c.count), rank * c.count + i % c.count);
    case Collective::send: return at(c.root, i);
    case Collective::send_receive: return at((rank + ranks - 1) % ranks, i);
    default: return 0;
  }
}

bool has_output(const Case& c, int rank, int ranks) {
  if (c.collective == Collective::send) return rank == (c.root + 1) % ranks;
  return (c.collective != Collective::reduce && c.collective != Collective::gather) || rank == c.root;
}

std::string run_case(Communicator& communicator, const Case& c, std::string_view algorithm) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const bool is_unsigned = name(c.dtype)[0] == 'u';
  Operation op{.collective = c.collective,
               .count = c.count,
               .dtype = c.dtype,
               .reduction = c.reduction,
               .root = c.root,
               .algorithm = algorithm};
  const auto fill = [&](std::vector<std::byte>& data, int64_t elements) {
    data.resize(static_cast<size_t>(storage_bytes(c.dtype, elements)) + 1);
    for (int64_t i = 0; i < elements; ++i) {
      const double v = value(rank, i, c.density);
      store_from_double(c.dtype, data.data(), i, is_unsigned && v < 0 ? v + 4 : v);
    }
  };
  std::vector<std::byte> input, output;
  fill(input, input_elements(op, ranks));
  const int64_t elements = output_elements(op, ranks);
  output.assign(static_cast<size_t>(storage_bytes(c.dtype, elements)) + 1, std::byte{0x5a});
  if (c.in_place) output = input;
  op.input = c.in_place ? output.data() : input.data();
  op.output = output.data();
  if (const auto reason = communicator.why_not(op)) return *reason;
  communicator.run(op);
  if (!has_output(c, rank, ranks)) return "";
  for (int64_t i = 0; i < elements; ++i) {
    double wanted = expected(c, rank, ranks, i, is_unsigned);
    std::array<std::byte, 8> rounded{};  // a mean is rounded once
    store_from_double(c.dtype, rounded.data(), 0, wanted);
    wanted = load_as_double(c.dtype, rounded.data(), 0);
    const double got = load_as_double(c.dtype, output.data(), i);
    if (got != wanted)
      return fmt::format("{} {} {} count {} rank {} of {}: element {} is {}, not {}", algorithm, name(c.collective),
                         name(c.dtype), c.count, rank, ranks, i, got, wanted);
  }
  return "";
}

// All cases that `algorithm` can, with n ranks; the answer is how many there were.
int run_all(int n, const std::vector<Case>& cases, const std::string& algorithm, int per_node = 0) {
  std::mutex mutex;
  int ran = 0;
  run_ranks({.ranks = n, .per_node = per_node, .time_limit_s = 20}, [&](Communicator& communicator) {
    for (const Case& c : cases) {
      Operation op{.collective = c.collective,
                   .count = c.count,
                   .dtype = c.dtype,
                   .reduction = c.reduction,
                   .algorithm = algorithm};
      if (communicator.why_not(op)) continue;
      const std::string wrong = run_case(communicator, c, algorithm);
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(wrong, "");
      ran += communicator.rank() == 0;
    }
  });
  return ran;
}

std::vector<Case> all_collectives(DType dtype, const std::vector<int64_t>& counts) {
  std::vector<Case> cases;
  for (const std::string& text : collective_names()) {
    const Collective collective = parse_collective(text);
    if (collective == Collective::barrier || collective == Collective::neighbour_exchange) continue;
    if (collective == Collective::put || collective == Collective::get) continue;
    for (const int64_t count : counts) cases.push_back({collective, dtype, count});
  }
  return cases;
}

std::vector<std::string> own_algorithms() {
  std::vector<std::string> names = registry_names(algorithms::kind);
  std::erase(names, "library");
  std::erase(names, "forgetful");
  return names;
}

TEST(Collectives, every_algorithm_is_right_for_1_to_9_ranks) {
  for (const std::string& algorithm : own_algorithms())
    for (int n = 1; n <= 9; ++n)
      EXPECT_GT(run_all(n, all_collectives(DType::f32, {0, 1, 2, 7, 97, 1009}), algorithm), 0) << algorithm;
}

// The check can fail: an algorithm that forgets the last element of the last rank is found out.
class Forgetful final : public Algorithm {
 public:
  std::string about() const override { return "planted"; }
  std::optional<std::string> why_not(const Operation&, const Ranks&) const override { return {}; }
  void run(const Operation& op, const Ranks& ranks) const override {
    run_algorithm("ring", op, ranks);
    if (ranks.rank() == ranks.size() - 1) static_cast<float*>(op.output)[op.count - 1] += 1;
  }
};

TEST(Collectives, a_planted_fault_is_found) {
  const Registration<algorithms, Forgetful> planted("forgetful");
  std::atomic<int> wrong{0};
  run_ranks({.ranks = 3}, [&](Communicator& communicator) {
    wrong += !run_case(communicator, {Collective::allreduce, DType::f32, 100}, "forgetful").empty();
  });
  EXPECT_EQ(wrong, 1);
}

TEST(Collectives, long_vectors_go_in_segments) {
  for (const std::string& algorithm : own_algorithms())
    for (const int n : {2, 3, 5}) run_all(n, all_collectives(DType::f32, {200'003}), algorithm);
  // More segments than are under way at a time. Under sanitizers all of them take a minute and a half.
  const std::vector<Case> longer = sanitized ? std::vector<Case>{{Collective::allreduce, DType::i8, 9'000'011}}
                                             : all_collectives(DType::i8, {9'000'011});
  for (const int n : {2, 3}) EXPECT_GT(run_all(n, longer, "segmented_ring"), 0);
}

TEST(Collectives, every_type_is_summed) {
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16, DType::i8, DType::i16, DType::i32, DType::i64,
                            DType::u8, DType::u16, DType::u32, DType::u64})
    for (const std::string& algorithm : own_algorithms()) run_all(5, all_collectives(dtype, {1, 131}), algorithm);
}

TEST(Collectives, mean_and_max_and_in_place) {
  for (const std::string& algorithm : own_algorithms())
    for (const int n : {1, 2, 3, 4, 7}) {
      std::vector<Case> cases;
      for (const bool in_place : {false, true})
        for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max})
          cases.push_back({Collective::allreduce, DType::f64, 1013, reduction, 0, in_place});
      EXPECT_GE(run_all(n, cases, algorithm, 2), algorithm == "pairwise" ? 0 : 4) << algorithm;
    }
}

TEST(Collectives, any_rank_can_be_the_root) {
  for (const int n : {2, 3, 4, 7})
    for (int root = 0; root < n; ++root)
      for (const char* algorithm : {"tree", "segmented_ring"}) {
        std::vector<Case> cases;
        for (const Collective c : {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
          for (const int64_t count : {1, 101, 40'000}) cases.push_back({c, DType::f32, count, Reduction::sum, root});
        EXPECT_GE(run_all(n, cases, algorithm), 3);
      }
}

TEST(Collectives, machines_of_several_ranks) {
  for (const int n : {2, 5, 6, 9})
    for (const int per_node : {1, 2, 3})
      EXPECT_EQ(
          run_all(n,
                  {{Collective::allreduce, DType::f32, 5003}, {Collective::allreduce, DType::f32, 7, Reduction::mean}},
                  "hierarchical", per_node),
          2);
}

TEST(Collectives, sparse_streams_of_every_density) {
  for (const double density : {0.0, 0.002, 0.1, 0.4, 1.0})
    for (const int n : {2, 3, 4, 6}) {
      Case c{Collective::allreduce, DType::f32, 20'011};
      c.density = density;
      EXPECT_EQ(run_all(n, {c}, "sparse"), 1);
    }
}

// Sums of floats depend on the order of adding; whatever it is, all ranks have the same bits.
TEST(Collectives, all_ranks_have_the_same_bits) {
  for (const std::string& algorithm : own_algorithms())
    for (const int n : {3, 4, 6}) {
      std::vector<std::vector<float>> results(static_cast<size_t>(n));
      run_ranks({.ranks = n}, [&](Communicator& communicator) {
        std::vector<float> data(1021);
        for (size_t i = 0; i < data.size(); ++i)
          data[i] = 1.0f / static_cast<float>(1 + i + 31 * static_cast<size_t>(communicator.rank()));
        Operation op{.collective = Collective::allreduce,
                     .input = data.data(),
                     .output = data.data(),
                     .count = 1021,
                     .reduction = Reduction::mean,
                     .algorithm = algorithm};
        if (communicator.why_not(op)) return;
        communicator.run(op);
        results[static_cast<size_t>(communicator.rank())] = data;
      });
      for (const auto& result : results) EXPECT_EQ(result, results[0]) << algorithm << " " << n;
    }
}

// A ring sends the least there is; what is counted says so.
TEST(Collectives, bytes_are_counted_where_they_are_sent) {
  for (const int n : {2, 3, 4, 8}) {
    std::atomic<int64_t> bytes{0}, messages{0};
    run_ranks({.ranks = n}, [&](Communicator& communicator) {
      std::vector<float> data(840, 1.0f);
      communicator.run({.collective = Collective::allreduce,
                        .input = data.data(),
                        .output = data.data(),
                        .count = 840,
                        .algorithm = "ring"});
      bytes += communicator.traffic().bytes;
      messages += communicator.traffic().messages;
    });
    const Operation op{.collective = Collective::allreduce, .count = 840};
    EXPECT_EQ(static_cast<double>(bytes), least_bytes_sent(op, n));
    EXPECT_EQ(messages, 2 * n * (n - 1));
  }
}

TEST(Collectives, what_cannot_be_says_why) {
  run_ranks({.ranks = 2}, [](Communicator& communicator) {
    Operation op{.collective = Collective::all_to_all, .count = 1, .algorithm = "ring"};
    EXPECT_EQ(communicator.why_not(op), "it has no all_to_all; it has allreduce, reduce_scatter, allgather");
    op.algorithm = "library";
    EXPECT_EQ(communicator.why_not(op), "this communicator has no library with collectives of its own");
    std::vector<int32_t> data(2);
    EXPECT_THROW(communicator.run({.collective = Collective::allreduce,
                                   .input = data.data(),
                                   .output = data.data(),
                                   .count = 2,
                                   .dtype = DType::i32,
                                   .reduction = Reduction::mean,
                                   .algorithm = "tree"}),
                 Error);
  });
}

}  // namespace
}  // namespace d5
