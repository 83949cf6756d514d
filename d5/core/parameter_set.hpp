// SPDX-License-Identifier: Apache-2.0
// All parameters of a network in one contiguous arena, their gradients in another: a fused optimizer pass, an
// all-reduce without packing and a checkpoint in one write all need exactly that.
//
// Each parameter keeps its backend's native layout (blocked, padded, channels last): `bytes` here is the padded size of
// that layout. Parameters are ordered by when their gradient becomes ready, so that buckets are contiguous. Regions:
//   master    f32, what the optimizer updates
//   compute   the dtype the network computes in; the same bytes as master where that is f32
//   gradient  the compute dtype
// A set has one compute dtype: f32, f16 or bf16. A single parameter may stay f32 (the scale of a normalisation): its
// compute bytes are then its master.
// Use: add() every parameter, freeze() once, then views. Several executables may share one set.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "d5/core/layout.hpp"

namespace d5 {

class ParameterSet {
 public:
  struct Parameter {
    std::string name;
    TensorSpec spec;            // canonical shape; f32 or the set's compute dtype
    Index padded_elements = 0;  // of the native layout, at least spec.elements(); 0: exactly those
    std::string layout;         // a name for the native layout; "" is row-major
    LayoutPtr native = {};      // that layout, so that others can convert; null: row-major, or only its owner can
    Index offset = 0;           // in elements, the same in every region; 64-byte aligned; add() sets it
    bool trainable = true;
  };
  struct Range {
    Index first = 0, count = 0;  // elements of the arena
  };

  explicit ParameterSet(DType compute = DType::f32, Memory& memory = host_memory());

  DType compute_dtype() const { return compute_dtype_; }

  // In the order in which gradients become ready. Error on a second parameter of that name or after freeze().
  void add(Parameter parameter);
  void freeze();  // allocates and zeroes the regions
  bool frozen() const { return frozen_; }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& at(const std::string& name) const;
  bool has(const std::string& name) const { return index_.contains(name); }
  Index elements() const { return elements_; }  // of the arena, padding included
  Range range(const std::string& name) const;

  // Native bytes of one parameter, rank 1 with padded_elements.
  Tensor master(const std::string& name) const;
  Tensor compute(const std::string& name) const;
  Tensor gradient(const std::string& name) const;
  // A whole region or a part of it, rank 1.
  Tensor masters(Range) const;
  Tensor computes(Range) const;
  Tensor gradients(Range) const;
  Range all() const { return {0, elements_}; }

  // Counts changes of values: what was derived from them is stale when it differs. Whoever writes through a view says
  // so.
  uint64_t version() const { return version_; }
  void touch() { ++version_; }

  uint64_t layout_hash() const;  // names, shapes, dtypes, layouts, offsets: ranks compare it

 private:
  Tensor part(const Tensor& region, Range) const;
  DType compute_dtype_;
  Memory* memory_;
  std::vector<Parameter> parameters_;
  std::map<std::string, size_t> index_;
  Index elements_ = 0;
  Tensor master_, compute_, gradient_;
  bool frozen_ = false;
  uint64_t version_ = 0;
};

}  // namespace d5
