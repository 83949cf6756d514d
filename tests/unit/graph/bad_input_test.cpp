// SPDX-License-Identifier: Apache-2.0
// Files that are cut off, hostile or absurd: an error in words that names the file and the reason, no crash, no memory
// that the file does not justify.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <chrono>

#include "d5/graph/edit.hpp"
#include "d5/graph/modernise.hpp"
#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/values.hpp"
#include "d5/graph/onnx/write.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string part(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}

// A model around the fields of a graph.
std::string model(const std::string& graph) { return number(1, 8) + part(7, graph) + part(8, number(2, 18)); }
std::string tensor(const std::string& name, int type, const std::vector<int64_t>& dims, const std::string& rest) {
  std::string bytes;
  for (const int64_t size : dims) bytes += number(1, static_cast<uint64_t>(size));
  return bytes + number(2, static_cast<uint64_t>(type)) + part(8, name) + rest;
}

std::string why(const std::string& bytes) {
  return error_of([&] { modernise(parse_onnx(bytes, "bad.onnx")); });
}

TEST(BadOnnx, CutOffAnywhere) {
  for (const char* name : {"perceptron.onnx", "branches.onnx", "functions.onnx", "types.onnx"}) {
    const std::string whole = file_bytes(data_file(name));
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::string reason = error_of([&] { parse_onnx(whole.substr(0, bytes), "cut.onnx"); });
      if (reason.empty()) continue;
      EXPECT_THAT(reason, HasSubstr("[onnx] cut.onnx: "));
    }
    EXPECT_THAT(error_of([&] { parse_onnx(whole.substr(0, whole.size() / 2), "cut.onnx"); }), HasSubstr("cut off"));
  }
}

// Every byte set to a few others: anything may come out but a crash.
TEST(BadOnnx, ChangedAnywhere) {
  const std::string whole = file_bytes(data_file("branches.onnx"));
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char byte : {'\x00', '\x7f', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = byte;
      error_of([&] { serialise_onnx(modernise(parse_onnx(bytes, "changed.onnx"))); });
    }
}

TEST(BadOnnx, NotOnnxAtAll) {
  EXPECT_THAT(why("PK\x03\x04 a zip file"), HasSubstr("[onnx] bad.onnx: "));
  EXPECT_THAT(why(""), HasSubstr("no IR version"));
  EXPECT_THAT(why(number(1, 2) + part(7, "")), HasSubstr("IR version 2 is not supported"));
  EXPECT_THAT(why(number(1, 8)), HasSubstr("it holds no graph"));
  EXPECT_THAT(why(number(1, 8) + part(7, "")), HasSubstr("which opset"));
  EXPECT_THAT(error_of([] { read_onnx("/nowhere/at/all.onnx"); }),
              AllOf(HasSubstr("/nowhere/at/all.onnx"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([] { read_onnx("/tmp"); }), HasSubstr("no plain file"));
}

TEST(BadOnnx, Tensors) {
  const auto with = [](const std::string& one) { return why(model(part(5, one))); };
  constexpr int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(with(tensor("w", 1, {2, 2}, part(9, "12345678"))),
              HasSubstr("tensor 'w': raw_data has 8 bytes; f32[2x2] has 16"));
  EXPECT_THAT(with(tensor("w", 1, {huge, huge}, "")), HasSubstr("tensor 'w'"));
  EXPECT_THAT(with(tensor("w", 1, {huge}, part(9, "1234"))), HasSubstr("raw_data has 4 bytes"));
  EXPECT_THAT(with(tensor("w", 7, {huge}, number(7, 1))), HasSubstr("int64_data has 1 entries"));
  EXPECT_THAT(with(tensor("w", 1, {-2}, "")), HasSubstr("tensor 'w'"));
  EXPECT_THAT(with(tensor("w", 99, {1}, "")), HasSubstr("element type 99 does not exist"));
  EXPECT_THAT(with(tensor("w", 14, {1}, part(9, "12345678"))), HasSubstr("complex64 is not supported"));
  EXPECT_THAT(with(tensor("w", 8, {3}, part(6, "one"))), HasSubstr("string_data has 1 entries"));
  EXPECT_THAT(with(tensor("", 1, {0}, "")), HasSubstr("has no name"));
  const std::string twice = part(5, tensor("w", 1, {0}, ""));
  EXPECT_THAT(why(model(twice + twice)), HasSubstr("tensor 'w' is there twice"));
  std::vector<int64_t> axes(100, 1);
  EXPECT_THAT(with(tensor("w", 1, axes, part(9, "1234"))), HasSubstr("100 axes"));
}

TEST(BadOnnx, ExternalDataThatLeavesTheFolder) {
  const Folder folder;
  const std::string good = file_bytes(data_file("external.onnx"));
  std::filesystem::create_directory(folder / "inner");
  std::ofstream(folder / "secret.bin") << std::string(100, 's');
  std::ofstream(folder / "inner/external.bin") << std::string(20, 'x');
  std::filesystem::create_symlink(folder / "secret.bin", folder / "inner/a_link_there");
  const auto read = [&](std::string location) {
    std::string bytes = good;
    location.resize(12, '.');
    bytes.replace(bytes.find("external.bin"), 12, location);
    return error_of([&] { parse_onnx(bytes, "bad.onnx", folder / "inner"); });
  };
  EXPECT_THAT(read("../secret.bi"), AllOf(HasSubstr("tensor 'w'"), HasSubstr("leaves the folder")));
  EXPECT_THAT(read("/etc/hostnam"), HasSubstr("an absolute path"));
  EXPECT_THAT(read("a_link_there"), HasSubstr("a link that leaves the folder"));
  EXPECT_THAT(read("nobody_knows"), HasSubstr("which is not there"));
  EXPECT_THAT(read(std::string("ext\0rnal.bin", 12)), HasSubstr("a zero byte"));
  EXPECT_THAT(error_of([&] { parse_onnx(good, "bad.onnx", folder / "inner"); }),
              HasSubstr("wants 16 bytes from byte 8 of external.bin, which has 20"));
}

TEST(BadOnnx, ExternalDataThatIsNoFile) {
  const Folder folder;
  const std::string good = file_bytes(data_file("external.onnx"));
  const auto read = [&] { return error_of([&] { parse_onnx(good, "bad.onnx", folder.path()); }); };
  std::filesystem::create_directory(folder / "external.bin");
  EXPECT_THAT(read(), AllOf(HasSubstr("tensor 'w': external data 'external.bin'"), HasSubstr("no plain file")));
  std::filesystem::remove(folder / "external.bin");
  ASSERT_EQ(mkfifo((folder / "external.bin").c_str(), 0600), 0);
  EXPECT_THAT(read(), AllOf(HasSubstr("tensor 'w': external data 'external.bin'"), HasSubstr("no plain file")));
}

// A file of 3 GiB without a single byte in it: refused by its size, not read.
TEST(BadOnnx, LargerThanAMessage) {
  const Folder folder;
  std::ofstream(folder / "large.onnx") << "x";
  std::filesystem::resize_file(folder / "large.onnx", size_t{3} << 30);
  EXPECT_THAT(error_of([&] { read_onnx(folder / "large.onnx"); }),
              AllOf(HasSubstr("large.onnx"), HasSubstr("3221225472 bytes"), HasSubstr("external data")));
}

std::string value(const std::string& name, const std::string& type) { return part(1, name) + part(2, type); }
std::string node_bytes(const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const std::string& rest = "") {
  std::string bytes;
  for (const std::string& one : inputs) bytes += part(1, one);
  for (const std::string& one : outputs) bytes += part(2, one);
  return bytes + part(4, op) + rest;
}

TEST(BadOnnx, Graphs) {
  const std::string a = part(1, node_bytes("Relu", {"b"}, {"a"})), b = part(1, node_bytes("Relu", {"a"}, {"b"}));
  EXPECT_THAT(why(model(a + b)), AllOf(HasSubstr("wait for each other"), HasSubstr("node 0"), HasSubstr("node 1")));
  EXPECT_THAT(why(model(a)), HasSubstr("reads 'b', which nobody makes"));
  EXPECT_THAT(why(model(part(11, value("x", "")) + part(1, node_bytes("Relu", {"x"}, {"x"})))),
              HasSubstr("'x' is an input or a constant"));
  const std::string same = part(1, node_bytes("Relu", {"x"}, {"y"}));
  EXPECT_THAT(why(model(part(11, value("x", "")) + same + same)), HasSubstr("'y' is made by node 0"));
  EXPECT_THAT(why(model(part(12, value("z", "")))), HasSubstr("output 'z' is made by no node"));
  EXPECT_THAT(why(model(part(1, node_bytes("", {}, {"y"})))), HasSubstr("names no operator"));
  EXPECT_THAT(why(model(part(1, node_bytes(":dentity", {}, {"y"})))),
              HasSubstr("':dentity' of the domain '' is no operator"));
  const std::string negative = part(1, number(1, 1) + part(2, part(1, number(1, static_cast<uint64_t>(-3)))));
  EXPECT_THAT(why(model(part(11, value("x", negative)))), HasSubstr("input 'x': axis 0 has the size -3"));
}

// Bodies in bodies, without end: the scan refuses before anybody recurses.
TEST(BadOnnx, DeepNesting) {
  std::string graph;
  for (int depth = 0; depth < 2000; ++depth)
    graph = part(1, node_bytes("If", {"c"}, {"y"}, part(5, part(1, "then_branch") + part(6, graph) + number(20, 5))));
  EXPECT_THAT(why(model(graph)), HasSubstr("messages are nested"));
}

// A function that calls two of the next, forty times over: 2^40 nodes.
TEST(BadOnnx, FunctionsThatGrow) {
  if (sanitized) GTEST_SKIP() << "200,000 nodes take a minute there";
  std::string functions;
  for (int level = 0; level < 40; ++level) {
    const std::string next = "f" + std::to_string(level + 1);
    functions += part(25, part(1, "f" + std::to_string(level)) + part(4, "x") + part(5, "y") +
                              part(7, node_bytes(next, {"x"}, {"t"}, part(7, "own"))) +
                              part(7, node_bytes(next, {"t"}, {"y"}, part(7, "own"))) + part(10, "own"));
  }
  const std::string call = part(11, value("x", "")) + part(1, node_bytes("f0", {"x"}, {"y"}, part(7, "own")));
  EXPECT_THAT(why(model(call) + functions), HasSubstr("nodes"));
}

// The same with nothing in the last function: no node is ever made.
TEST(BadOnnx, FunctionsThatCallAndMakeNothing) {
  if (sanitized) GTEST_SKIP() << "200,000 calls take a minute there";
  std::string functions = part(25, part(1, "f40") + part(10, "own"));
  for (int level = 0; level < 40; ++level) {
    const std::string next = part(7, node_bytes("f" + std::to_string(level + 1), {}, {}, part(7, "own")));
    functions += part(25, part(1, "f" + std::to_string(level)) + next + next + part(10, "own"));
  }
  EXPECT_THAT(why(model(part(1, node_bytes("f0", {}, {}, part(7, "own")))) + functions), HasSubstr("200000 nodes"));
}

TEST(BadOnnx, AFunctionThatCallsItself) {
  const std::string self = part(25, part(1, "f") + part(4, "x") + part(5, "y") +
                                        part(7, node_bytes("f", {"x"}, {"y"}, part(7, "own"))) + part(10, "own"));
  const std::string call_self = part(11, value("x", "")) + part(1, node_bytes("f", {"x"}, {"y"}, part(7, "own")));
  const std::string reason = why(model(call_self) + self);
  EXPECT_THAT(reason, AllOf(HasSubstr("function 'own:f'"), HasSubstr("call each other")));
  EXPECT_LT(reason.size(), 100u);
}

// Operators of every age, without a single input: rules for old opsets look at inputs before anybody counts them.
TEST(BadOnnx, NodesWithoutInputs) {
  for (const char* op :
       {"Add", "BatchNormalization", "Clip", "Dropout", "Gemm", "GroupNormalization", "Hardmax", "LogSoftmax", "PRelu",
        "Pad", "Resize", "RoiAlign", "Scan", "Slice", "Softmax", "Split", "TopK", "Upsample"})
    for (const uint64_t opset : {1, 6, 8, 9, 10, 11, 12, 18}) {
      const std::string attributes = part(5, part(1, "broadcast") + number(3, 1) + number(20, 2)) +
                                     part(5, part(1, "axis") + number(3, 0) + number(20, 2)) +
                                     part(5, part(1, "min") + std::string("\x15\0\0\0\0", 5) + number(20, 1));
      const std::string one = part(1, node_bytes(op, {}, {"y"}, attributes));
      const std::string reason =
          why(number(1, 8) + part(7, one + part(12, value("y", ""))) + part(8, number(2, opset)));
      if (!reason.empty()) EXPECT_THAT(reason, HasSubstr(fmt::format("({})", op)));
    }
  Graph graph{.name = "g", .outputs = {"y"}, .nodes = {node("Softmax", {}, {"y"})}, .opsets = {{"", 11}}};
  EXPECT_THAT(error_of([&] { modernise(graph); }), HasSubstr("(Softmax): input 0 is missing"));
  graph.nodes[0] = node("GroupNormalization", {"", ""}, {"y"});
  graph.opsets[""] = 18;
  EXPECT_THAT(error_of([&] { modernise(graph); }), HasSubstr("(GroupNormalization): input 0 is missing"));
}

// 2^26 zeros of 40 bytes: all sparse tensors of a file have what its size justifies.
TEST(BadOnnx, SparseTensors) {
  const auto sparse = [](const std::string& name, uint64_t size) {
    return part(15, part(1, tensor(name, 1, {1}, part(9, std::string(4, 'x')))) +
                        part(2, tensor("", 7, {1}, part(9, std::string(8, '\0')))) + number(3, size));
  };
  EXPECT_EQ(why(model(sparse("a", 1 << 19))), "");
  EXPECT_THAT(why(model(sparse("a", 1 << 26))), HasSubstr("sparse tensor 'a': as a dense tensor it has 67108864"));
  EXPECT_THAT(why(model(sparse("a", 1 << 19) + sparse("b", 1 << 19) + sparse("c", 1 << 19))),
              HasSubstr("sparse tensor 'c'"));
}

TEST(BadOnnx, OpsetsThatAreNotKnown) {
  const auto read = [](uint64_t opset) { return why(number(1, 8) + part(7, "") + part(8, number(2, opset))); };
  EXPECT_EQ(read(28), "");
  EXPECT_THAT(read(0), HasSubstr("bad.onnx: opset 0 of ONNX does not exist"));
  EXPECT_THAT(read(static_cast<uint64_t>(-1)), HasSubstr("opset -1"));
  EXPECT_THAT(read(29), HasSubstr("opset 29 is not supported; 28 is the newest"));
}

// The names around a body were copied for every one: a second for 2000 of them, minutes for 20,000.
TEST(BadOnnx, ManyBodies) {
  if (sanitized) GTEST_SKIP() << "it is about time";
  const auto body = std::make_shared<const Graph>(Graph{.outputs = {"b"}, .nodes = {node("Identity", {"x"}, {"b"})}});
  Graph graph{.name = "g", .inputs = {input("x", {2}), input("c", {}, DType::boolean)}, .opsets = {{"", 18}}};
  for (int i = 0; i < 20'000; ++i) {
    graph.nodes.push_back(node("If", {"c"}, {fmt::format("v{}", i)}, {{"then_branch", body}, {"else_branch", body}}));
    graph.nodes.back().name = "same";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(modernise(graph).nodes.size(), 20'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Two bytes each on the disk, two hundred in memory: refused before they are made.
TEST(BadOnnx, ManyEmptyMessages) {
  std::string nodes;
  nodes.reserve(20'000'000);
  while (nodes.size() < 20'000'000) nodes += std::string("\x0a\x00", 2);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(why(model(nodes)), HasSubstr("messages"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200'000);  // kB
}

TEST(BadOnnx, Values) {
  const Folder folder;
  const auto read = [&](const std::string& bytes, ValueKind kind) {
    std::ofstream(folder / "input_0.pb", std::ios::binary | std::ios::trunc) << bytes;
    return error_of([&] { read_onnx_value(folder / "input_0.pb", kind); });
  };
  EXPECT_THAT(read("\xff", ValueKind::tensor), AllOf(HasSubstr("input_0.pb"), HasSubstr("cut off")));
  EXPECT_THAT(read(number(2, 1), ValueKind::tensor), HasSubstr("float_data has 0 entries"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep = part(5, deep);
  EXPECT_THAT(read(deep, ValueKind::sequence), HasSubstr("nested"));
  EXPECT_EQ(read("", ValueKind::sequence), "");
}

}  // namespace
}  // namespace d5
