// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/operation.hpp"

#include <algorithm>

namespace d5 {
namespace {

const std::vector<std::string> reduction_names{"sum", "mean", "max"};

template <class T>
void combine_as(Reduction reduction, void* destination, const void* a, const void* b, int64_t elements) {
  using Sum = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  auto* const d = static_cast<T*>(destination);
  const auto* const x = static_cast<const T*>(a);
  const auto* const y = static_cast<const T*>(b);
  if (reduction == Reduction::max) {
    for (int64_t i = 0; i < elements; ++i) d[i] = static_cast<Sum>(x[i]) < static_cast<Sum>(y[i]) ? y[i] : x[i];
  } else if constexpr (std::is_integral_v<T>) {  // wraps around, as unsigned numbers do
    using Unsigned = std::make_unsigned_t<T>;
    for (int64_t i = 0; i < elements; ++i)
      d[i] = static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(x[i]) + static_cast<Unsigned>(y[i])));
  } else {
    for (int64_t i = 0; i < elements; ++i) d[i] = static_cast<T>(static_cast<Sum>(x[i]) + static_cast<Sum>(y[i]));
  }
}

template <class T>
void divide_as(void* data, int64_t elements, int divisor) {
  using Sum = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  auto* const d = static_cast<T*>(data);
  for (int64_t i = 0; i < elements; ++i) d[i] = static_cast<T>(static_cast<Sum>(d[i]) / static_cast<Sum>(divisor));
}

template <class F>
void with_stored_type(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f.template operator()<float>();
    case DType::f64: return f.template operator()<double>();
    case DType::bf16: return f.template operator()<BFloat16>();
    case DType::f16: return f.template operator()<Half>();
    case DType::i8: return f.template operator()<int8_t>();
    case DType::i16: return f.template operator()<int16_t>();
    case DType::i32: return f.template operator()<int32_t>();
    case DType::i64: return f.template operator()<int64_t>();
    case DType::u8: return f.template operator()<uint8_t>();
    case DType::u16: return f.template operator()<uint16_t>();
    case DType::u32: return f.template operator()<uint32_t>();
    case DType::u64: return f.template operator()<uint64_t>();
    default:
      throw UsageError(
          "[communicator] {} cannot be summed; legal: f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64",
          name(type));
  }
}

bool has_blocks(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::allgather:
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all: return true;
    default: return false;
  }
}

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names{
      "allreduce",  "reduce_scatter",     "allgather", "broadcast",    "reduce", "gather", "scatter",
      "all_to_all", "neighbour_exchange", "send",      "send_receive", "put",    "get",    "barrier"};
  static_assert(static_cast<size_t>(Collective::barrier) + 1 == collective_count);
  return names;
}

std::string_view name(Collective collective) { return collective_names()[static_cast<size_t>(collective)]; }

Collective parse_collective(std::string_view text) {
  const auto& names = collective_names();
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) fail_unknown("[communicator]", "collective", text, names);
  return static_cast<Collective>(found - names.begin());
}

std::string_view name(Reduction reduction) { return reduction_names[static_cast<size_t>(reduction)]; }

Reduction parse_reduction(std::string_view text) {
  const auto found = std::ranges::find(reduction_names, text);
  if (found == reduction_names.end()) fail_unknown("[communicator]", "reduction", text, reduction_names);
  return static_cast<Reduction>(found - reduction_names.begin());
}

int64_t input_elements(const Operation& op, int ranks) {
  switch (op.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all: return op.count * ranks;
    case Collective::neighbour_exchange: return op.count * static_cast<int64_t>(op.neighbours.size());
    default: return op.count;
  }
}

int64_t output_elements(const Operation& op, int ranks) {
  switch (op.collective) {
    case Collective::allgather:
    case Collective::gather:
    case Collective::all_to_all: return op.count * ranks;
    case Collective::neighbour_exchange: return op.count * static_cast<int64_t>(op.neighbours.size());
    default: return op.count;
  }
}

int64_t total_bytes(const Operation& op, int ranks) {
  const int64_t blocks = op.collective == Collective::neighbour_exchange ? static_cast<int64_t>(op.neighbours.size())
                         : has_blocks(op.collective)                     ? ranks
                                                                         : 1;
  return storage_bytes(op.dtype, op.count * blocks);
}

double least_bytes_sent(const Operation& op, int ranks) {
  const auto total = static_cast<double>(total_bytes(op, ranks));
  switch (op.collective) {
    case Collective::allreduce: return 2.0 * (ranks - 1) * total;
    case Collective::gather:
    case Collective::scatter: return total * (ranks - 1) / ranks;
    case Collective::neighbour_exchange:
    case Collective::send_receive:
    case Collective::put:
    case Collective::get: return ranks > 1 ? total * ranks : 0;
    case Collective::send: return ranks > 1 ? total : 0;
    case Collective::barrier: return 0;
    default: return (ranks - 1) * total;
  }
}

void combine(const Operation& op, void* destination, const void* a, const void* b, int64_t elements) {
  with_stored_type(op.dtype, [&]<class T>() { combine_as<T>(op.reduction, destination, a, b, elements); });
}

void finish(const Operation& op, void* data, int64_t elements) {
  if (op.reduction != Reduction::mean) return;
  if (!is_float(op.dtype)) throw UsageError("[communicator] the mean of {} is no {}", name(op.dtype), name(op.dtype));
  with_stored_type(op.dtype, [&]<class T>() { divide_as<T>(data, elements, op.divisor); });
}

}  // namespace d5
