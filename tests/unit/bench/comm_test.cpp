// SPDX-License-Identifier: Apache-2.0
// The check of collectives finds single wrong elements; bounds and factors are those of the literature; a plan run by
// threads becomes records.
#include "d5/bench/comm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "d5/distributed/communicators/threads.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

TEST(CommCheck, one_wrong_element_or_one_wrong_bit_is_found) {
  for (const char* dtype : {"f32", "bf16", "i8", "u64"}) {
    const CommGroup group{.dtype = parse_dtype(dtype), .bytes = 4096};
    run_ranks({.ranks = 3}, [&](Communicator& c) {
      Operation op = operation_of(group, 3);
      const CommCheck check(group, op, c.rank(), 3);
      std::vector<std::byte> input(4096), output(4096);
      check.fill_exact(input.data());
      op.input = input.data();
      op.output = output.data();
      c.run(op);
      EXPECT_EQ(check.wrong_exact(output.data()), 0);
      output[1002] ^= std::byte{1};
      output[4095] ^= std::byte{0x40};
      EXPECT_EQ(check.wrong_exact(output.data()), 2) << dtype;
    });
  }
}

TEST(CommCheck, reals_may_round_but_not_more) {
  const CommGroup group{.reduction = Reduction::mean, .bytes = 4000};
  run_ranks({.ranks = 4}, [&](Communicator& c) {
    Operation op = operation_of(group, 4);
    const CommCheck check(group, op, c.rank(), 4);
    std::vector<float> input(1000), output(1000);
    check.fill_real(input.data());
    op.input = input.data();
    op.output = output.data();
    c.run(op);
    EXPECT_EQ(check.wrong_real(output.data()), 0);
    output[7] += 1e-5f;
    EXPECT_EQ(check.wrong_real(output.data()), 1);
    std::memset(output.data(), 0xff, 4000);  // not a number anywhere
    EXPECT_EQ(check.wrong_real(output.data()), 1000);
  });
}

// Two neighbours of a torus of four send blocks of their own: those of another, or in another order, are wrong.
TEST(CommCheck, a_block_of_another_neighbour_is_found) {
  const CommGroup group{.collective = Collective::neighbour_exchange, .bytes = 4000, .topology = "torus"};
  run_ranks({.ranks = 4}, [&](Communicator& c) {
    const std::vector<int> neighbours = neighbours_of(group, 4, c.rank());
    ASSERT_EQ(neighbours,
              (std::vector<int>{std::min(c.rank() ^ 1, c.rank() ^ 2), std::max(c.rank() ^ 1, c.rank() ^ 2)}));
    Operation op = operation_of(group, 4, neighbours);
    EXPECT_EQ(op.count, 500);
    const CommCheck check(group, op, c.rank(), 4);
    std::vector<float> input(1000), output(1000);
    check.fill_exact(input.data());
    op.input = input.data();
    op.output = output.data();
    c.run(op);
    EXPECT_EQ(check.wrong_exact(output.data()), 0);
    std::rotate(output.begin(), output.begin() + 500, output.end());
    EXPECT_GT(check.wrong_exact(output.data()), 500);
  });
}

TEST(CommBound, factors_and_times_are_those_of_the_books) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::allreduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 4), 1);
  // 100 MB over 4 nodes at 1 Gbit/s: 1.2 s. Five ranks need three steps. Ranks of one machine are as machines are.
  const std::vector<int> four{0, 1, 2, 3}, five(5, 0), eight(8, 0), one{0};
  EXPECT_NEAR(alpha_beta_bound(Collective::allreduce, four, 0, 1e8, 0, 8e-9), 1.2, 1e-12);
  EXPECT_NEAR(alpha_beta_bound(Collective::allreduce, std::vector<int>(4, 0), 0, 1e8, 0, 8e-9), 1.2, 1e-12);
  EXPECT_NEAR(alpha_beta_bound(Collective::broadcast, five, 0, 0, 1e-6, 8e-9), 3e-6, 1e-15);
  EXPECT_EQ(alpha_beta_bound(Collective::allreduce, one, 0, 1e8, 1, 1), 0);
  // Whoever sends to the next rank alone does not wait for more ranks; nccl-tests has the factor 1 for sendrecv, too.
  EXPECT_NEAR(alpha_beta_bound(Collective::send_receive, eight, 0, 1e6, 1e-6, 1e-9), 1.001e-3, 1e-12);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::send_receive, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::put, 4), 1);
}

// Of ranks that share a link only what leaves the machine counts: two machines that have summed up within swap one
// vector in halves, there and back, whatever number of ranks they have.
TEST(CommBound, ranks_of_one_machine_share_its_link) {
  const std::vector<int> pairs{0, 0, 1, 1}, uneven{0, 0, 0, 1};
  const auto factor = [](Collective collective, const std::vector<int>& nodes, int root = 0) {
    return alpha_beta_bound(collective, nodes, root, 1, 0, 1);
  };
  EXPECT_DOUBLE_EQ(factor(Collective::allreduce, pairs), 1);
  EXPECT_DOUBLE_EQ(factor(Collective::allgather, pairs), 0.5);
  EXPECT_DOUBLE_EQ(factor(Collective::reduce_scatter, uneven), 0.75);  // into the machine of one
  EXPECT_DOUBLE_EQ(factor(Collective::gather, uneven, 0), 0.25);
  EXPECT_DOUBLE_EQ(factor(Collective::scatter, uneven, 3), 0.75);
  EXPECT_DOUBLE_EQ(factor(Collective::all_to_all, pairs), 1);  // two ranks, of each two blocks of a quarter
  EXPECT_DOUBLE_EQ(factor(Collective::broadcast, uneven), 1);
  EXPECT_DOUBLE_EQ(alpha_beta_bound(Collective::broadcast, pairs, 0, 0, 1, 1), 1);  // one step
}

// With hundreds of ranks the bound on rounding in bf16 says nothing; the exact check remains.
TEST(CommCheck, many_ranks_round_as_they_may) {
  const CommGroup group{.dtype = DType::bf16, .bytes = 20};
  for (const int ranks : {200, 300}) {
    const CommCheck check(group, operation_of(group, ranks), 0, ranks);
    std::vector<BFloat16> sums(10, BFloat16(0.0f));
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<BFloat16> values(10);
      CommCheck(group, operation_of(group, ranks), rank, ranks).fill_real(values.data());
      for (size_t i = 0; i < 10; ++i) sums[i] = BFloat16(static_cast<float>(sums[i]) + static_cast<float>(values[i]));
    }
    EXPECT_EQ(check.wrong_real(sums.data()), 0) << ranks;
    sums[3] = BFloat16(std::nanf(""));
    EXPECT_EQ(check.wrong_real(sums.data()), 1) << ranks;
  }
}

TEST(CommPlan, survives_the_way_to_the_ranks) {
  CommPlan plan;
  plan.ranks = 3;
  plan.groups = {{Collective::scatter, DType::bf16, Reduction::max, 12345, 2, 0.25, {"tree", "auto"}},
                 {.collective = Collective::neighbour_exchange, .topology = "torus"}};
  EXPECT_EQ(to_json(comm_plan_from_json(to_json(plan))), to_json(plan));
}

TEST(CommPlan, sizes_of_blocks_are_of_all_ranks_together) {
  EXPECT_EQ(operation_of({.collective = Collective::allgather, .bytes = 4096}, 4).count, 256);
  EXPECT_EQ(operation_of({.collective = Collective::allreduce, .bytes = 4096}, 4).count, 1024);
}

TEST(CommRecords, a_plan_run_by_threads_becomes_records) {
  setenv("XDG_CACHE_HOME", testing::TempDir().c_str(), 1);  // auto keeps what it found
  CommPlan plan;
  plan.communicator = "threads";
  plan.ranks = 3;
  plan.rounds = 2;
  plan.slice_s = 0.001;
  plan.groups = {{.bytes = 40'000, .algorithms = {"ring", "plain", "auto"}},
                 {.collective = Collective::gather, .bytes = 300, .root = 1, .algorithms = {"tree", "ring"}}};
  const communicators::Entry& entry = open_communicator("threads");
  std::vector<Json> told;
  run_ranks({.ranks = 3},
            [&](Communicator& c) { run_comm_plan(c, entry, plan, [&](const Json& line) { told.push_back(line); }); });
  const CommRun run{.fields = {{"communicator", "threads"}, {"ranks", 3}}, .launches = 1};
  const std::vector<Record> records = comm_records(plan, run, told);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].status, "passed");
  EXPECT_EQ(records[1].status, "unsupported");
  EXPECT_EQ(records[1].reason, "this communicator has no library");
  EXPECT_EQ(records[2].status, "passed");
  EXPECT_TRUE(records[2].details.contains("chosen"));
  EXPECT_EQ(records[3].status, "passed");
  EXPECT_EQ(records[4].status, "unsupported");
  EXPECT_EQ(records[0].group, records[2].group);
  EXPECT_NE(records[0].group, records[3].group);
  EXPECT_DOUBLE_EQ(records[0].details["traffic"]["over_least"], 1.0);
  EXPECT_DOUBLE_EQ(records[0].metric("bytes_sent")->median, 4 * 40'000);
  EXPECT_EQ(records[0].samples.time_s.size(), records[0].samples.start_s.size());
  EXPECT_THAT(records[3].rerun, testing::HasSubstr("d5 comm gather"));
  EXPECT_THAT(records[3].rerun, testing::HasSubstr("--root 1"));
}

// Bytes of all ranks: 1 message, n of them, n times two neighbours' blocks, and n puts or gets.
TEST(CommRecords, messages_neighbours_and_windows_become_records) {
  CommPlan plan;
  plan.communicator = "threads";
  plan.rounds = 2;
  plan.slice_s = 0.001;
  const communicators::Entry& entry = open_communicator("threads");
  for (const int ranks : {1, 2, 4}) {
    plan.ranks = ranks;
    plan.groups = {
        {.collective = Collective::send, .bytes = 400, .root = ranks - 1, .algorithms = {"pairwise", "messages"}},
        {.collective = Collective::send_receive, .bytes = 400, .algorithms = {"pairwise", "messages"}},
        {.collective = Collective::put, .bytes = 400, .algorithms = {"windows"}},
        {.collective = Collective::get, .bytes = 400, .algorithms = {"windows"}}};
    if (ranks > 1)
      plan.groups.push_back({.collective = Collective::neighbour_exchange,
                             .bytes = 400,
                             .algorithms = {"pairwise", "messages"},
                             .topology = "ring"});
    std::vector<Json> told;
    run_ranks({.ranks = ranks},
              [&](Communicator& c) { run_comm_plan(c, entry, plan, [&](const Json& line) { told.push_back(line); }); });
    for (const Record& record : comm_records(plan, {.fields = {{"ranks", ranks}}}, told)) {
      ASSERT_EQ(record.status, "passed") << record.fields << record.reason;
      const std::string what = record.fields["collective"];
      for (const double time : record.samples.time_s) EXPECT_GT(time, 0) << what;
      EXPECT_DOUBLE_EQ(record.metric("algbw")->median, record.metric("busbw")->median);
      if (ranks == 1) continue;
      EXPECT_TRUE(record.bound) << what;
      EXPECT_DOUBLE_EQ(record.metric("bytes_sent")->median, what == "send" ? 400 : 400 * ranks) << what;
      EXPECT_DOUBLE_EQ(record.details["traffic"]["over_least"], 1.0) << what;
      EXPECT_EQ(record.fields.contains("topology"), what == "neighbour_exchange");
    }
  }
}

TEST(CommRecords, what_is_not_one_sided_has_no_windows) {
  CommPlan plan;
  plan.communicator = "threads";
  plan.rounds = 1;
  plan.groups = {{.collective = Collective::put, .bytes = 8, .algorithms = {"ring", "messages", "auto"}},
                 {.collective = Collective::send, .bytes = 8, .algorithms = {"windows", "ring", "auto"}}};
  const communicators::Entry& entry = open_communicator("threads");
  std::vector<Json> told;
  run_ranks({.ranks = 2},
            [&](Communicator& c) { run_comm_plan(c, entry, plan, [&](const Json& line) { told.push_back(line); }); });
  for (const Record& record : comm_records(plan, {.fields = {{"ranks", 2}}}, told)) {
    EXPECT_EQ(record.status, "unsupported");
    EXPECT_NE(record.reason, "");
  }
}

// Two machines of two ranks: from 1 to 2 a message goes as far as the ping-pong did, from 0 to 1 it does not.
TEST(CommRecords, a_message_within_a_machine_has_no_bound_of_the_network) {
  CommPlan plan;
  plan.ranks = 4;
  for (const int root : {0, 1})
    plan.groups.push_back({.collective = Collective::send, .bytes = 8, .root = root, .algorithms = {"messages"}});
  const Json hello{
      {"what", "hello"}, {"alpha_s", 1e-6}, {"beta_s_per_byte", 1e-9}, {"nodes", {0, 0, 1, 1}}, {"library", ""}};
  std::vector<Json> told{hello};
  for (const int group : {0, 1}) {
    Json slice{{"what", "slice"}, {"group", group}, {"algorithm", "messages"}, {"round", 0}, {"wrong", 0}};
    slice.update({{"last", {1, 0, 0, 0}}, {"time_s", {1e-3}}, {"end_s", {5.0}}});
    told.push_back(slice);
  }
  const auto records = comm_records(plan, {.fields = Json::object()}, told);
  EXPECT_FALSE(records[0].bound);
  EXPECT_TRUE(records[1].bound);
}

// A root sends and goes on: without a barrier it is many calls ahead of a rank that is late for every one.
TEST(CommRecords, the_time_of_a_rooted_collective_is_that_of_its_slowest_rank) {
  CommPlan plan;
  plan.communicator = "threads";
  plan.rounds = 1;
  plan.slice_s = 0.02;
  plan.groups = {{.collective = Collective::broadcast, .bytes = 64, .algorithms = {"tree"}},
                 {.collective = Collective::reduce, .bytes = 64, .algorithms = {"tree"}}};
  std::vector<Json> told;
  const communicators::Entry& entry = open_communicator("threads");
  run_ranks({.ranks = 2},
            [&](Communicator& c) { run_comm_plan(c, entry, plan, [&](const Json& line) { told.push_back(line); }); });
  for (const Record& record : comm_records(plan, {.fields = {{"ranks", 2}}}, told)) {
    ASSERT_EQ(record.status, "passed") << record.reason;
    // One message each: those of the barriers are not counted.
    EXPECT_DOUBLE_EQ(record.metric("messages_sent")->median, 1);
    EXPECT_DOUBLE_EQ(record.metric("bytes_sent")->median, 64);
  }
}

TEST(CommRecords, faster_than_the_bound_is_a_warning) {
  CommPlan plan;
  plan.groups = {{.bytes = 1000, .algorithms = {"ring"}}};
  const Json hello{{"what", "hello"}, {"alpha_s", 0}, {"beta_s_per_byte", 1e-6}, {"nodes", {0, 0}}, {"library", ""}};
  Json slice{{"what", "slice"}, {"group", 0}, {"algorithm", "ring"}, {"round", 0}, {"wrong", 0}, {"last", {1, 0}}};
  slice["end_s"] = {5.0};
  for (const double time : {0.9e-3, 1.1e-3}) {  // of 1 ms: 1000 bytes, 2 (n - 1) / n = 1
    slice["time_s"] = {time};
    const auto records = comm_records(plan, {.fields = Json::object()}, {hello, slice});
    const auto beyond = std::ranges::count_if(
        records[0].warnings, [](const std::string& text) { return text.starts_with("faster than its bound"); });
    EXPECT_EQ(beyond, time < 1e-3);
  }
  // A stream of a hundredth of the elements is held against the bytes of that hundredth.
  plan.groups = {{.bytes = 1000, .density = 0.01, .algorithms = {"sparse"}}};
  slice["algorithm"] = "sparse";
  const auto records = comm_records(plan, {.fields = Json::object()}, {hello, slice});
  EXPECT_DOUBLE_EQ(records[0].bound->value, 1e-5);
}

// Told by a rank whose result was wrong after timing: the case fails and has no speed.
TEST(CommRecords, a_wrong_element_fails_the_case) {
  CommPlan plan;
  plan.groups = {{.bytes = 8, .algorithms = {"ring"}}};
  const Json hello{{"what", "hello"}, {"alpha_s", 1e-6}, {"beta_s_per_byte", 1e-9}, {"nodes", {0, 0}}, {"library", ""}};
  Json slice{{"what", "slice"}, {"group", 0}, {"algorithm", "ring"}, {"round", 0}, {"wrong", 1}, {"last", {1, 0}}};
  slice["time_s"] = {1e-3};
  slice["end_s"] = {5.0};
  const auto records = comm_records(plan, {.fields = Json::object()}, {hello, slice});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].status, "failed");
  EXPECT_EQ(records[0].metric("time"), nullptr);
}

TEST(CommPlan, ranks_with_another_plan_are_found) {
  CommPlan plan;
  plan.communicator = "threads";
  const communicators::Entry& entry = open_communicator("threads");
  EXPECT_THROW(run_ranks({.ranks = 2, .time_limit_s = 5},
                         [&](Communicator& c) {
                           CommPlan mine = plan;
                           mine.rounds = 1 + c.rank();
                           run_comm_plan(c, entry, mine, [](const Json&) {});
                         }),
               Error);
}

}  // namespace
}  // namespace d5
