// SPDX-License-Identifier: Apache-2.0
// onednn's own kernels where conformance cases do not go: tensors larger than the caches, whose stores pass them by,
// and gradients of which some rows alone are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using Role = Executable::Role;

class OwnKernels : public testing::Test {
 protected:
  void SetUp() override {
    for (const BackendStatus& status : backend_statuses())
      if (status.name == "onednn" && !status.available) GTEST_SKIP() << "onednn is off";
    backend_ = open_backend("onednn");
    options_.mode = Mode::training;
    options_.input_gradients = true;
  }
  std::unique_ptr<Backend> backend_;
  CompileOptions options_;
  ParameterSet parameters_;
};

// y = a b with b per channel: da = dy b, db = sum of dy a. With a = 1, 2, ..., 7, 1, ... and dy = 1 the sums are whole.
TEST_F(OwnKernels, LargerThanTheCaches) {
  const int64_t bytes = last_level_bytes(threads());
  if (bytes > (int64_t{128} << 20)) GTEST_SKIP() << "the caches hold " << (bytes >> 20) << " MiB";
  const Index channels = 3, inner = 7 * 1001, images = bytes / (4 * channels * inner) + 1;
  const Shape whole{images, channels, inner};
  Graph graph{.name = "scale"};
  graph.inputs = {{"a", {DType::f32, whole}}, {"b", {DType::f32, {channels, 1}}}};
  graph.outputs = {"y"};
  graph.nodes = {{"Mul", "scale", {"a", "b"}, {"y"}, {}}};
  const auto run = backend_->compile(graph, parameters_, options_);
  Tensor a(DType::f32, whole), dy(DType::f32, whole);
  const auto values = a.values<float>();
  for (Index i = 0; i < a.elements(); ++i) values[i] = static_cast<float>(i % 7 + 1);
  std::fill_n(dy.values<float>().begin(), dy.elements(), 1.0f);
  run->write(Role::value, "a", a);
  run->write(Role::value, "b", Tensor::from<float>({channels, 1}, {2, -3, 0.5}));
  run->write(Role::gradient, "y", dy);
  run->forward({});
  run->backward({});
  const float b[] = {2, -3, 0.5};
  const Tensor y = run->read(Role::value, "y"), da = run->read(Role::gradient, "a");
  Index wrong = 0;
  for (Index i = 0; i < a.elements(); ++i) {
    const float factor = b[i / inner % channels];
    wrong += y.values<float>()[i] != values[i] * factor || da.values<float>()[i] != factor;
  }
  EXPECT_EQ(wrong, 0);
  // 1001 times 1 + ... + 7 for each image; partial sums stay near 2^24, so that a few roundings are left.
  const double sum = 28.0 * 1001 * static_cast<double>(images);
  const Tensor db = run->read(Role::gradient, "b");
  for (const float value : db.values<float>()) EXPECT_NEAR(value, sum, 1e-5 * sum);
}

// Rows that are written past the caches while the next ones are read, the last of them alone, as the operators' own
// loops have them. Magnitudes are near 1; a row's sums are joined from 64 lanes of f32, and about ten roundings follow.
TEST_F(OwnKernels, RowsThatAreWrittenBehindTheNextOnes) {
  const int64_t bytes = last_level_bytes(threads());
  if (bytes > (int64_t{64} << 20)) GTEST_SKIP() << "the caches hold " << (bytes >> 20) << " MiB";
  const Index elements = bytes / 12 + 1;  // three tensors of them exceed the caches
  struct Case {
    const char* op;
    Index channels, inner;
    Attributes attributes;
    size_t parameters, constants;  // of one number for each channel, or for each element of a row
  };
  const Case cases[] = {{"BatchNormalization", 5, 64 * 7, {{"training_mode", int64_t{1}}}, 2, 2},
                        {"GroupNormalization", 6, 16 * 5, {{"num_groups", int64_t{3}}}, 2, 0},
                        {"InstanceNormalization", 3, 1024, {}, 2, 0},
                        {"LayerNormalization", 3, 1024, {{"axis", int64_t{1}}}, 2, 0},
                        {"LayerNormalization", 1, 512, {}, 2, 0},
                        {"RMSNormalization", 3, 1040, {{"axis", int64_t{1}}}, 1, 0},
                        {"Softmax", 48, 16 * 9, {{"axis", int64_t{1}}}, 0, 0},
                        {"LogSoftmax", 48, 16 * 9, {{"axis", int64_t{1}}}, 0, 0}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    const Shape shape{elements / (c.channels * c.inner) + 1, c.channels, c.inner};
    const bool of_elements = c.attributes.has("axis") && c.parameters > 0;
    const Shape row = of_elements                                 ? Shape{c.channels, c.inner}
                      : c.op == std::string("LayerNormalization") ? Shape{c.inner}
                                                                  : Shape{c.channels};
    Graph graph{.name = "rows"};
    graph.inputs = {{"x", {DType::f32, shape}}};
    graph.outputs = {"y"};
    graph.nodes = {{c.op, "node", {"x"}, {"y"}, c.attributes}};
    for (size_t i = 0; i < c.parameters + c.constants; ++i) {
      const std::string name = "p" + std::to_string(i);
      graph.inputs.push_back({name, {DType::f32, row}, false, i < c.parameters});
      graph.nodes[0].inputs.push_back(name);
    }
    const auto number = [](Index i, uint32_t seed) {
      return static_cast<float>((static_cast<uint32_t>(i) + seed) * 2654435761u >> 8) * 0x1p-23f - 1.0f;
    };
    const auto filled = [&](const Shape& of, uint32_t seed) {
      Tensor t(DType::f32, of);
      for (Index i = 0; i < t.elements(); ++i) t.values<float>()[i] = number(i, seed);
      return t;
    };
    std::vector<std::string> gradients{"x"};
    for (size_t i = 0; i < c.parameters; ++i) gradients.push_back("p" + std::to_string(i));
    std::vector<std::vector<Tensor>> results;
    for (const char* name : {"onednn", "reference"}) {
      const auto backend = open_backend(name);
      const auto run = backend->compile(graph, parameters_, options_);
      run->write(Role::value, "x", filled(shape, 1));
      for (size_t i = 0; i < c.parameters + c.constants; ++i)
        run->write(Role::value, "p" + std::to_string(i), filled(row, 100 + static_cast<uint32_t>(i)));
      run->write(Role::gradient, "y", filled(shape, 7));
      run->forward({});
      run->backward({});
      std::vector<Tensor>& all = results.emplace_back();
      all.push_back(run->read(Role::value, "y"));
      for (const std::string& input : gradients) all.push_back(run->read(Role::gradient, input));
    }
    for (size_t k = 0; k < results[0].size(); ++k) {
      const auto got = results[0][k].values<float>(), wanted = results[1][k].values<float>();
      double worst = 0, largest = 1;
      for (size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - wanted[i]));
        largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
        if (std::isnan(got[i])) worst = INFINITY;
      }
      // A sum of many terms of both signs walks as far as the root of their number, and errs by what it passes through.
      const double walk = k < 2 ? 0 : 4 * std::sqrt(static_cast<double>(shape.elements() / row.elements()));
      EXPECT_LE(worst, 64 * 0x1p-24 * (largest + walk)) << (k == 0 ? "y" : gradients[k - 1]);
    }
  }
}

// Rows that no tile holds, combined element by element and each into one: whole numbers, so that every sum is exact.
TEST_F(OwnKernels, ReductionsOfLongRows) {
  options_.mode = Mode::inference;
  options_.input_gradients = false;
  for (const auto& [rows, length] : std::vector<std::pair<Index, Index>>{{6, 3001}, {9, 20000}, {3, 40000}}) {
    Graph graph{.name = "sums"};
    graph.inputs = {{"x", {DType::f32, {rows, length}}}};
    graph.constants = {{"first", Tensor::from<int64_t>({1}, {0})}, {"second", Tensor::from<int64_t>({1}, {1})}};
    graph.outputs = {"columns", "rows"};
    graph.nodes = {{"ReduceSum", "over_rows", {"x", "first"}, {"columns"}, {}},
                   {"ReduceSum", "over_columns", {"x", "second"}, {"rows"}, {}}};
    const auto run = backend_->compile(graph, parameters_, options_);
    Tensor x(DType::f32, {rows, length});
    std::vector<float> columns(static_cast<size_t>(length)), sums(static_cast<size_t>(rows));
    for (Index i = 0; i < x.elements(); ++i) {
      const auto value = static_cast<float>(i % 11 - 3);
      x.values<float>()[i] = value;
      columns[static_cast<size_t>(i % length)] += value;
      sums[static_cast<size_t>(i / length)] += value;
    }
    run->write(Role::value, "x", x);
    run->forward({});
    EXPECT_THAT(run->read(Role::value, "columns").values<float>(), testing::ElementsAreArray(columns));
    EXPECT_THAT(run->read(Role::value, "rows").values<float>(), testing::ElementsAreArray(sums));
  }
}

// Rows 2, 0, 2 of a table of 4: dtable[2] = dy[0] + dy[2], dtable[0] = dy[1].
Graph lookup() {
  Graph graph{.name = "lookup"};
  graph.inputs = {{"table", {DType::f32, {4, 2}}, true}, {"rows", {DType::i64, {3}}, false, false}};
  graph.outputs = {"y"};
  graph.nodes = {{"Gather", "embedding", {"table", "rows"}, {"y"}, {}}};
  return graph;
}

struct Rows : Observer {
  void gradient_ready(const Gradient& gradient) override { rows.assign(gradient.rows.begin(), gradient.rows.end()); }
  std::vector<Index> rows;
};

TEST_F(OwnKernels, ASparseGradientHasTheRowsThatWereNamed) {
  options_.sparse_gradients = true;
  const auto run = backend_->compile(lookup(), parameters_, options_);
  run->write(Role::value, "table", Tensor::from<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}));
  run->write(Role::value, "rows", Tensor::from<int64_t>({3}, {2, 0, -2}));
  run->write(Role::gradient, "y", Tensor::from<float>({3, 2}, {1, 2, 10, 20, 100, 200}));
  Tensor poison(DType::f32, {4, 2});
  poison.fill_bytes(0xff);
  run->write(Role::gradient, "table", poison);
  Rows observer;
  for (int repeat = 0; repeat < 2; ++repeat) {
    run->forward({.observer = &observer});
    run->backward({.observer = &observer});
    EXPECT_THAT(run->read(Role::value, "y").values<float>(), ElementsAre(4, 5, 0, 1, 4, 5));
    EXPECT_THAT(observer.rows, ElementsAre(0, 2));
    EXPECT_THAT(run->read(Role::gradient, "table").values<float>(), ElementsAre(10, 20, 0, 0, 101, 202, 0, 0));
  }
  EXPECT_FALSE(run->view(Role::gradient, "table").present());
  EXPECT_THROW(run->backward({.add_gradients = true}), Error);
}

TEST_F(OwnKernels, ASparseGradientHasOneContributor) {
  options_.sparse_gradients = true;
  Graph graph = lookup();
  graph.nodes.push_back({"Relu", "relu", {"table"}, {"r"}, {}});
  graph.outputs.push_back("r");
  const auto reason = backend_->why_not(graph, options_);
  ASSERT_TRUE(reason);
  EXPECT_THAT(*reason, testing::HasSubstr("no sparse gradients"));
}

TEST_F(OwnKernels, AnIndexOutOfRangeIsNamed) {
  const auto run = backend_->compile(lookup(), parameters_, options_);
  run->write(Role::value, "rows", Tensor::from<int64_t>({3}, {2, 4, 0}));
  try {
    run->forward({});
    FAIL() << "index 4 of 4 rows was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("index 4"));
  }
}

}  // namespace
}  // namespace d5
