// SPDX-License-Identifier: Apache-2.0
// Gather, GatherElements, GatherND: slices are copied. Backward adds them up in f32; threads share the elements of a
// slice among them, so that nobody waits. With sparse gradients Gather along the first axis writes the rows that were
// named and says which.
#include <algorithm>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/slices.hpp"

namespace d5::onednn::own {
namespace {

class GatherKernel final : public OwnKernel {
 public:
  bool has_sparse_gradient(size_t input) const override { return sparse_ && input == 0; }
  std::span<const Index> gradient_rows(int slot, size_t) const override { return named_[static_cast<size_t>(slot)]; }

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (auto reason = not_whole_bytes(setup.inputs[0])) return reason;
    return setup.wants_gradient[0] ? wrong_type(setup.inputs[0]) : std::nullopt;
  }

  void build(const KernelSetup& setup) override {
    slices_ = Slices(setup);
    type_ = setup.inputs[0].dtype;
    elements_ = setup.inputs[0].elements();
    bytes_ = element_bytes(type_);
    parts_ = threads();
    streamed_ = exceeds_caches(setup.outputs[0].bytes() * 2);
    if (!setup.wants_gradient[0]) return;
    const bool first_axis = setup.node.op == "Gather" && valid_axis(setup.node.attributes.integer("axis", 0),
                                                                    setup.inputs[0].shape.rank(), "[gather]") == 0;
    sparse_ = setup.options.sparse_gradients && first_axis;
    row_of_.assign(sparse_ ? static_cast<size_t>(slices_.rows()) : 0, -1);
    const Index rows = std::min(slices_.count(), slices_.rows());
    named_.resize(sparse_ ? static_cast<size_t>(setup.options.slots) : 0);
    for (auto& list : named_) list.reserve(static_cast<size_t>(rows));
    if (type_ != DType::f32)
      need_scratch(sizeof(float) * static_cast<size_t>(sparse_ ? rows * slices_.length() : elements_));
  }

  void run(Pass pass, const Buffers& b) override {
    if (pass == Pass::forward)
      gather(b);
    else if (sparse_)
      add_named_rows(b);
    else
      add_all(b);
  }

 private:
  void gather(const Buffers& b) const {
    const Index slice = slices_.length() * bytes_;
    const char* from = static_cast<const char*>(b.inputs[0]);
    char* to = static_cast<char*>(b.outputs[0]);
    for_each_part(slices_.count() * slice < (1 << 16) ? 1 : parts_, slices_.count(), [&](int, Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const char* source = from + slices_.start(b.inputs[1], i) * bytes_;
        if (slices_.length() == 1)
          copy_strided(to + i * slice, 1, source, 1, 1, bytes_);
        else if (streamed_ && slice >= 1024)
          loops().stream(to + i * slice, source, slice);
        else
          std::memcpy(to + i * slice, source, static_cast<size_t>(slice));
      }
      if (streamed_) loops().fence();
    });
  }

  // sums[place(i)] += slice i of dy, for all i; the elements of a slice are cut among the threads.
  template <class Place>
  void add_slices(const Buffers& b, float* sums, const Place& place) const {
    const Index length = slices_.length();
    for_each_part(length < 64 * parts_ ? 1 : parts_, length, [&](int, Index first, Index last) {
      float values[tile_elements];
      for (Index i = 0; i < slices_.count(); ++i) {
        float* to = sums + place(i);
        for (Index at = first; at < last; at += tile_elements) {
          const Index n = std::min(tile_elements, last - at);
          loops().merge[0](to + at, load(type_, b.output_gradients[0], i * length + at, n, values), n);
        }
      }
    });
  }

  void add_all(const Buffers& b) const {
    const bool direct = type_ == DType::f32;
    float* sums = static_cast<float*>(direct ? b.input_gradients[0] : b.scratch);
    zero_bytes(parts_, sums, elements_ * 4);
    add_slices(b, sums, [&](Index i) { return slices_.start(b.inputs[1], i); });
    if (direct) return;
    for (Index at = 0; at < elements_; at += tile_elements)
      store(type_, b.input_gradients[0], at, sums + at, std::min(tile_elements, elements_ - at));
  }

  void add_named_rows(const Buffers& b) {
    const Index length = slices_.length();
    std::vector<Index>& named = named_[static_cast<size_t>(b.slot)];
    named.clear();
    for (Index i = 0; i < slices_.count(); ++i) {
      Index& number = row_of_[static_cast<size_t>(slices_.row(b.inputs[1], i))];
      if (number >= 0) continue;
      number = static_cast<Index>(named.size());
      named.push_back(slices_.row(b.inputs[1], i));
    }
    const bool direct = type_ == DType::f32;
    float* sums = static_cast<float*>(direct ? b.input_gradients[0] : b.scratch);
    const auto place = [&](Index row) { return (direct ? row : row_of_[static_cast<size_t>(row)]) * length; };
    for (const Index row : named) std::fill_n(sums + place(row), length, 0.0f);
    add_slices(b, sums, [&](Index i) { return place(slices_.row(b.inputs[1], i)); });
    for (const Index row : named) {
      for (Index at = 0; !direct && at < length; at += tile_elements)
        store(type_, b.input_gradients[0], row * length + at, sums + place(row) + at,
              std::min(tile_elements, length - at));
    }
    for (const Index row : named) row_of_[static_cast<size_t>(row)] = -1;
    std::ranges::sort(named);
  }

  Slices slices_;
  DType type_ = DType::f32;
  Index elements_ = 0, bytes_ = 4;
  int parts_ = 1;
  bool streamed_ = false, sparse_ = false;
  std::vector<Index> row_of_;              // by row: its number among those named, -1 between steps
  std::vector<std::vector<Index>> named_;  // by slot
};

// ScatterElements and ScatterND: data are copied, then updates meet them one by one, in order.
class ScatterKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const std::string reduction = setup.node.attributes.text("reduction", "none");
    if (setup.wants_gradient[0] || setup.wants_gradient[2]) {
      if (reduction != "none" && reduction != "add") return "its kernel has no gradient of reduction " + reduction;
      return wrong_type(setup.inputs[0]);
    }
    return reduction == "none" ? not_whole_bytes(setup.inputs[0]) : wrong_type(setup.inputs[0]);
  }

  void build(const KernelSetup& setup) override {
    slices_ = Slices(setup);
    const std::string reduction = setup.node.attributes.text("reduction", "none");
    combine_ = reduction == "add"   ? std::optional(Reduce::sum)
               : reduction == "mul" ? std::optional(Reduce::product)
               : reduction == "max" ? std::optional(Reduce::max)
               : reduction == "min" ? std::optional(Reduce::min)
                                    : std::nullopt;
    type_ = setup.inputs[0].dtype;
    elements_ = setup.inputs[0].elements();
    bytes_ = element_bytes(type_);
    wants_ = setup.wants_gradient;
    parts_ = threads();
    streamed_ = exceeds_caches(2 * setup.inputs[0].bytes());
    if (combine_ && type_ != DType::f32) need_scratch(sizeof(float) * static_cast<size_t>(elements_));
  }

  void run(Pass pass, const Buffers& b) override { pass == Pass::forward ? scatter(b) : backward_pass(b); }

 private:
  void scatter(const Buffers& b) const {
    const Index length = slices_.length();
    if (!combine_) {
      copy_bytes(parts_, b.outputs[0], b.inputs[0], elements_ * bytes_, streamed_);
      for (Index i = 0; i < slices_.count(); ++i)
        std::memcpy(static_cast<char*>(b.outputs[0]) + slices_.start(b.inputs[1], i) * bytes_,
                    static_cast<const char*>(b.inputs[2]) + i * length * bytes_, static_cast<size_t>(length * bytes_));
      return;
    }
    const bool direct = type_ == DType::f32;
    float* y = static_cast<float*>(direct ? b.outputs[0] : b.scratch);
    for (Index at = 0; at < elements_; at += tile_elements) {
      const Index n = std::min(tile_elements, elements_ - at);
      const float* x = load(type_, b.inputs[0], at, n, y + at);
      if (x != y + at) std::copy_n(x, n, y + at);
    }
    float values[tile_elements];
    for (Index i = 0; i < slices_.count(); ++i) {
      float* to = y + slices_.start(b.inputs[1], i);
      for (Index at = 0; at < length; at += tile_elements) {
        const Index n = std::min(tile_elements, length - at);
        loops().merge[static_cast<size_t>(*combine_)](to + at, load(type_, b.inputs[2], i * length + at, n, values), n);
      }
    }
    if (direct) return;
    for (Index at = 0; at < elements_; at += tile_elements)
      store(type_, b.outputs[0], at, y + at, std::min(tile_elements, elements_ - at));
  }

  // Targets of reduction "none" differ from each other, as ONNX demands.
  void backward_pass(const Buffers& b) const {
    const Index length = slices_.length();
    const auto* dy = static_cast<const char*>(b.output_gradients[0]);
    auto *to_data = static_cast<char*>(b.input_gradients[0]), *to_updates = static_cast<char*>(b.input_gradients[2]);
    if (wants_[0]) copy_bytes(parts_, to_data, dy, elements_ * bytes_, streamed_);
    for (Index i = 0; i < slices_.count(); ++i) {
      const Index start = slices_.start(b.inputs[1], i) * bytes_;
      const auto size = static_cast<size_t>(length * bytes_);
      if (wants_[2]) std::memcpy(to_updates + i * length * bytes_, dy + start, size);
      if (wants_[0] && !combine_) std::memset(to_data + start, 0, size);
    }
  }

  Slices slices_;
  std::optional<Reduce> combine_;
  DType type_ = DType::f32;
  Index elements_ = 0, bytes_ = 4;
  std::vector<bool> wants_;
  int parts_ = 1;
  bool streamed_ = false;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Gather", "builtin", GatherKernel);
D5_REGISTER_KERNEL(onednn, "GatherElements", "builtin", GatherKernel);
D5_REGISTER_KERNEL(onednn, "GatherND", "builtin", GatherKernel);
D5_REGISTER_KERNEL(onednn, "ScatterElements", "builtin", ScatterKernel);
D5_REGISTER_KERNEL(onednn, "ScatterND", "builtin", ScatterKernel);
}  // namespace d5::onednn::own
