// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "d5/bench/comm.hpp"
#include "d5/core/convert.hpp"

namespace d5 {
namespace {

uint64_t mixed(int rank, int64_t i) {  // splitmix64
  uint64_t x = static_cast<uint64_t>(i) + (static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

CommCheck::CommCheck(const CommGroup& group, const Operation& op, int rank, int ranks)
    : group_(group), op_(op), rank_(rank), ranks_(ranks) {
  // Sums of all ranks stay below 2^8 and are exact in bf16, too.
  amplitude_ = std::max(1.0, std::min(3.0, std::floor(255.0 / ranks)));
  for (const int neighbour : op.neighbours) {
    const std::vector<int> theirs = neighbours_of(group, ranks, neighbour);
    places_.push_back(std::ranges::find(theirs, rank) - theirs.begin());
  }
  const int64_t elements = output_elements(op, ranks);
  wanted_.resize(static_cast<size_t>(storage_bytes(op.dtype, elements)));
  const auto value = [this](int r, int64_t i) { return exact(r, i); };
  for (int64_t i = 0; i < elements; ++i) {
    const double sum = expected(i, value, nullptr);
    if (is_integer(op.dtype)) {  // wraps around like the sum of the type does
      const auto wide = static_cast<int64_t>(sum);
      std::memcpy(wanted_.data() + storage_bytes(op.dtype, i), &wide, static_cast<size_t>(storage_bytes(op.dtype, 1)));
    } else {
      store_from_double(op.dtype, wanted_.data(), i, sum);
    }
  }
}

bool CommCheck::present(int rank, int64_t i) const {
  return group_.density >= 1 || static_cast<double>(mixed(rank + 7919, i) >> 11) * 0x1p-53 < group_.density;
}

double CommCheck::exact(int rank, int64_t i) const {
  if (!present(rank, i)) return 0;
  const auto span = static_cast<uint64_t>(2 * amplitude_ + 1);
  const double value = static_cast<double>(mixed(rank, i) % span) - amplitude_;
  return value < 0 && name(op_.dtype)[0] == 'u' ? -value : value;
}

double CommCheck::real(int rank, int64_t i) const {
  if (!present(rank, i)) return 0;
  const double value = static_cast<double>(mixed(rank + 104729, i) >> 11) * 0x1p-52 - 1;
  std::byte stored[8];
  store_from_double(op_.dtype, stored, 0, value);
  return load_as_double(op_.dtype, stored, 0);
}

template <class F>
double CommCheck::expected(int64_t i, const F& value, double* magnitude) const {
  const auto reduced = [&](int64_t k) {
    double sum = group_.reduction == Reduction::max ? -HUGE_VAL : 0;
    for (int r = 0; r < ranks_; ++r) {
      const double v = value(r, k);
      sum = group_.reduction == Reduction::max ? std::max(sum, v) : sum + v;
      if (magnitude) *magnitude += std::abs(v);
    }
    return group_.reduction == Reduction::mean ? sum / ranks_ : sum;
  };
  const int64_t block = std::max<int64_t>(1, op_.count);
  switch (op_.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduced(i);
    case Collective::reduce_scatter: return reduced(rank_ * block + i);
    case Collective::allgather:
    case Collective::gather: return value(static_cast<int>(i / block), i % block);
    case Collective::broadcast: return value(group_.root, i);
    case Collective::scatter: return value(group_.root, rank_ * block + i);
    case Collective::all_to_all: return value(static_cast<int>(i / block), rank_ * block + i % block);
    case Collective::send: return value(group_.root, i);
    case Collective::send_receive:
    case Collective::put: return value((rank_ + ranks_ - 1) % ranks_, i);
    case Collective::get: return value((rank_ + 1) % ranks_, i);
    case Collective::neighbour_exchange: {
      const auto neighbour = static_cast<size_t>(i / block);
      return value(op_.neighbours[neighbour], places_[neighbour] * block + i % block);
    }
    default: return 0;
  }
}

void CommCheck::fill_exact(void* input) const {
  for (int64_t i = 0; i < input_elements(op_, ranks_); ++i) store_from_double(op_.dtype, input, i, exact(rank_, i));
}

void CommCheck::fill_real(void* input) const {
  for (int64_t i = 0; i < input_elements(op_, ranks_); ++i) store_from_double(op_.dtype, input, i, real(rank_, i));
}

int64_t CommCheck::wrong_exact(const void* output) const {
  if (std::memcmp(output, wanted_.data(), wanted_.size()) == 0) return 0;
  int64_t wrong = 0;
  for (int64_t i = 0; i < output_elements(op_, ranks_); ++i)  // -0 and 0 are the same number
    wrong += load_as_double(op_.dtype, output, i) != load_as_double(op_.dtype, wanted_.data(), i);
  return wrong;
}

int64_t CommCheck::wrong_real(const void* output) const {
  const auto value = [this](int r, int64_t i) { return real(r, i); };
  const double roundings = (ranks_ + 1) * round_off(op_.dtype);
  const double bound = roundings < 1 ? roundings / (1 - roundings) : std::numeric_limits<double>::infinity();
  int64_t wrong = 0;
  for (int64_t i = 0; i < output_elements(op_, ranks_); ++i) {
    double magnitude = 0;
    const double wanted = expected(i, value, &magnitude);
    const double scale = group_.reduction == Reduction::mean ? magnitude / ranks_ : magnitude;
    const double error = std::abs(load_as_double(op_.dtype, output, i) - wanted);
    wrong += !(error <= bound * scale);
  }
  return wrong;
}

}  // namespace d5
