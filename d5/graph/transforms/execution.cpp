// SPDX-License-Identifier: Apache-2.0
// Transforms that leave the graph as it is and change how it is run.
//   none            nothing: to compare with
//   fusion:off      every node is a step of its own
//   tiles           how much cache steps of inference may count on that work on a few samples at a time
//   checkpoint      backward computes values again: within --arena-limit, or within so many MiB (checkpoint:64)
//   accumulate      a step is several of so many samples, whose gradients are added up: accumulate:8; auto: the most
//                   samples that --arena-limit allows
#include <charconv>
#include <cmath>
#include <optional>

#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

class None final : public Transform {
 public:
  explicit None(const std::string& value) {
    if (!value.empty()) throw UsageError("[none] it takes no value; '{}' was given", value);
  }
  static constexpr const char* about = "the network as it is, to compare others with";
};

class Fusion final : public Transform {
 public:
  explicit Fusion(const std::string& value) : on_(value == "on") {
    if (value != "on" && value != "off") throw UsageError("[fusion] '{}' was given; legal: on, off", value);
  }
  static constexpr const char* about = "fusion:off: every node is a step of its own; on is what executors do anyway";
  void ask(Execution& execution) const override { execution.fuse = on_; }

 private:
  bool on_;
};

class Tiles final : public Transform {
 public:
  explicit Tiles(const std::string& value) {
    if (value == "on") return;
    kib_ = value == "off" ? 0 : number<uint32_t>(value).value_or(0);
    if (value != "off" && *kib_ == 0)
      throw UsageError("[tiles] '{}' was given; legal: on, off, KiB of cache from 1 as in tiles:512", value);
  }
  static constexpr const char* about =
      "tiles:off: every step of inference takes the whole batch; on: a few samples at a time where values overflow the "
      "last-level cache; tiles:512: one of 512 KiB";
  void ask(Execution& execution) const override {
    if (kib_) execution.tile_cache = size_t{*kib_} << 10;
  }

 private:
  std::optional<uint32_t> kib_;
};

class Checkpoint final : public Transform {
 public:
  explicit Checkpoint(const std::string& value) {
    if (value == "auto") return;
    const auto given = number<double>(value);
    if (!given || !(*given > 0) || !std::isfinite(*given))
      throw UsageError("[checkpoint] '{}' is no number of MiB above 0, as in checkpoint:64; also legal: auto", value);
    bytes_ = static_cast<size_t>(*given * (1 << 20));
  }
  static constexpr const char* about =
      "backward computes values again instead of keeping them: checkpoint:64 for at most 64 MiB, checkpoint:auto for "
      "--arena-limit";
  void ask(Execution& execution) const override {
    execution.recompute = true;
    execution.recompute_bytes = bytes_;
  }

 private:
  size_t bytes_ = 0;
};

class Accumulate final : public Transform {
 public:
  explicit Accumulate(const std::string& value) {
    if (value == "auto") return;
    samples_ = number<Index>(value).value_or(0);
    if (samples_ < 1)
      throw UsageError("[accumulate] '{}' is no number of samples of at least 1, as in accumulate:8; also legal: auto",
                       value);
  }
  static constexpr const char* about =
      "a step is several of so many samples, gradients added up: accumulate:8; auto: as many as --arena-limit allows";
  void ask(Execution& execution) const override {
    execution.split = true;
    execution.split_samples = samples_;
  }

 private:
  Index samples_ = 0;
};

}  // namespace
D5_REGISTER(transforms, "none", None);
D5_REGISTER(transforms, "fusion", Fusion);
D5_REGISTER(transforms, "tiles", Tiles);
D5_REGISTER(transforms, "checkpoint", Checkpoint);
D5_REGISTER(transforms, "accumulate", Accumulate);
}  // namespace d5
