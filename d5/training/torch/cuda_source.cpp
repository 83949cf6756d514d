// SPDX-License-Identifier: Apache-2.0
#include "d5/training/torch/cuda_source.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Kind = Program::Operand::Kind;

std::string operand(const Program::Operand& o) {
  const char* const place = o.kind == Kind::stream ? "x" : o.kind == Kind::number ? "n" : "t";
  return fmt::format("{}{}", place, o.index);
}

// As on the host: of what cannot be compared the second.
std::string value(const Program::Instruction& i) {
  const std::string a = operand(i.a), b = i.b.kind == Kind::none ? "" : operand(i.b);
  switch (i.op) {
    case Op::add: return a + " + " + b;
    case Op::subtract: return a + " - " + b;
    case Op::multiply: return a + " * " + b;
    case Op::divide: return a + " / " + b;
    case Op::minimum: return fmt::format("{0} < {1} ? {0} : {1}", a, b);
    case Op::maximum: return fmt::format("{0} > {1} ? {0} : {1}", a, b);
    case Op::square_root: return fmt::format("sqrtf({})", a);
    case Op::absolute: return fmt::format("fabsf({})", a);
    case Op::sign: return fmt::format("{0} > 0 ? 1.0f : {0} < 0 ? -1.0f : 0.0f", a);
    default: throw Error("[formula] operation {} is not one of elements", static_cast<int>(i.op));
  }
}

// What is filled in is marked by '$': braces are the text's own.
std::string filled(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> places) {
  for (const auto& [name, with] : places)
    for (size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), with);
  return text;
}

constexpr const char* text = R"(
struct Streams { float* at[$STREAMS]; };
struct Numbers { float of[$NUMBERS]; };
struct Chunk { long long first; int count, row; };
constexpr int stores = $STORES;

struct Element {
  $NUMBER_MEMBERS
  __device__ void load(const float* table, const Numbers& shared, int row) {
    const float* const from = table ? table + row * $NUMBERS : shared.of;
    $NUMBER_LOADS
  }
  __device__ void compute($INPUTS$COMMA$OUTPUTS) const {
    $CODE
    $RESULTS
  }
};

// store(at, results) of one element, or of four where the places of all streams allow wide loads.
template <class Store>
__device__ void each(const Streams& s, const Chunk& c, const Element& e, int wide, Store store) {
  const int whole = wide ? c.count / 4 * 4 : 0;
  for (int i = threadIdx.x * 4; i < whole; i += blockDim.x * 4) {
    $WIDE_LOADS
    float4 r[stores > 0 ? stores : 1];
    e.compute($WIDE_X);
    e.compute($WIDE_Y);
    e.compute($WIDE_Z);
    e.compute($WIDE_W);
    store(c.first + i, r);
  }
  for (int i = whole + threadIdx.x; i < c.count; i += blockDim.x) {
    $LOADS
    float r[stores > 0 ? stores : 1];
    e.compute($SCALARS);
    store(c.first + i, r);
  }
}

struct Stores {
  const Streams& s;
  __device__ void operator()(long long at, const float4* r) const {
    $WIDE_STORES
  }
  __device__ void operator()(long long at, const float* r) const {
    $SCALAR_STORES
  }
};

struct Squares {
  double* sums;
  __device__ void add(int k, float r) const { sums[k] += static_cast<double>(r) * r; }
  __device__ void operator()(long long, const float4* r) const {
    for (int k = 0; k < stores; ++k) { add(k, r[k].x); add(k, r[k].y); add(k, r[k].z); add(k, r[k].w); }
  }
  __device__ void operator()(long long, const float* r) const {
    for (int k = 0; k < stores; ++k) add(k, r[k]);
  }
};

extern "C" __global__ void __launch_bounds__($BLOCK)
elements(Streams s, const Chunk* chunks, const float* table, Numbers shared, int wide) {
  const Chunk c = chunks[blockIdx.x];
  Element e;
  e.load(table, shared, c.row);
  each(s, c, e, wide, Stores{s});
}

extern "C" __global__ void __launch_bounds__($BLOCK)
squares(Streams s, const Chunk* chunks, const float* table, Numbers shared, int wide, double* sums) {
  const Chunk c = chunks[blockIdx.x];
  Element e;
  e.load(table, shared, c.row);
  double own[stores > 0 ? stores : 1] = {};
  each(s, c, e, wide, Squares{own});
  __shared__ double all[$BLOCK];
  for (int k = 0; k < stores; ++k) {
    all[threadIdx.x] = own[k];
    for (int half = $BLOCK / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x * stores + k] = all[0];
    __syncthreads();
  }
}
)";

}  // namespace

std::string cuda_source(const Program& program) {
  std::vector<std::string> inputs, wide_loads, loads, temporaries, code, outputs, results, wide_stores, scalar_stores;
  std::vector<std::string> members, number_loads, scalars;
  std::array<std::vector<std::string>, 4> wide;
  constexpr std::array<char, 4> part{'x', 'y', 'z', 'w'};
  for (size_t i = 0; i < program.reads.size(); ++i) {
    if (!program.reads[i]) continue;
    inputs.push_back(fmt::format("float x{}", i));
    wide_loads.push_back(
        fmt::format("const float4 x{0} = *reinterpret_cast<const float4*>(s.at[{0}] + c.first + i);", i));
    loads.push_back(fmt::format("const float x{0} = s.at[{0}][c.first + i];", i));
    scalars.push_back(fmt::format("x{}", i));
    for (size_t p = 0; p < 4; ++p) wide[p].push_back(fmt::format("x{}.{}", i, part[p]));
  }
  for (int t = 0; t < program.temporaries; ++t) code.push_back(fmt::format("float t{};", t));
  for (const Program::Instruction& i : program.code) code.push_back(fmt::format("t{} = {};", i.target, value(i)));
  for (size_t n = 0; n < program.numbers.size(); ++n) {
    members.push_back(fmt::format("float n{};", n));
    number_loads.push_back(fmt::format("n{0} = from[{0}];", n));
  }
  for (size_t k = 0; k < program.stores.size(); ++k) {
    const Program::Store& store = program.stores[k];
    outputs.push_back(fmt::format("float& r{}", k));
    results.push_back(fmt::format("r{} = {};", k, operand(store.from)));
    scalars.push_back(fmt::format("r[{}]", k));
    for (size_t p = 0; p < 4; ++p) wide[p].push_back(fmt::format("r[{}].{}", k, part[p]));
    wide_stores.push_back(fmt::format("*reinterpret_cast<float4*>(s.at[{}] + at) = r[{}];", store.stream, k));
    scalar_stores.push_back(fmt::format("s.at[{}][at] = r[{}];", store.stream, k));
  }
  const auto lines = [](const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, "\n    ")); };
  const auto list = [](const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, ", ")); };
  return filled(text, {{"$STREAMS", std::to_string(program.streams)},
                       {"$NUMBERS", std::to_string(std::max<size_t>(1, program.numbers.size()))},
                       {"$STORES", std::to_string(program.stores.size())},
                       {"$NUMBER_MEMBERS", lines(members)},
                       {"$NUMBER_LOADS", lines(number_loads)},
                       {"$INPUTS", list(inputs)},
                       {"$COMMA", inputs.empty() || outputs.empty() ? "" : ", "},
                       {"$OUTPUTS", list(outputs)},
                       {"$CODE", lines(code)},
                       {"$RESULTS", lines(results)},
                       {"$WIDE_LOADS", lines(wide_loads)},
                       {"$LOADS", lines(loads)},
                       {"$WIDE_X", list(wide[0])},
                       {"$WIDE_Y", list(wide[1])},
                       {"$WIDE_Z", list(wide[2])},
                       {"$WIDE_W", list(wide[3])},
                       {"$WIDE_STORES", lines(wide_stores)},
                       {"$SCALAR_STORES", lines(scalar_stores)},
                       {"$SCALARS", list(scalars)},
                       {"$BLOCK", std::to_string(cuda_block)}});
}

}  // namespace d5
