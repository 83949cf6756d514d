// SPDX-License-Identifier: Apache-2.0
// Dropout with the mask of d5/operators/dropout.hpp: which elements stay depends on the seed, the step and the global
// number of the sample. Forward leaves the mask, a byte for each element, for backward.
#include "d5/operators/dropout.hpp"

#include <cmath>

#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/backends/onednn/own/parts.hpp"

namespace d5::onednn::own {
namespace {

class DropoutKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (has(setup, 1) && setup.inputs[1].dtype == DType::f64) return "its ratio must not be f64";
    return OwnKernel::cannot(setup);
  }

  void build(const KernelSetup& setup) override {
    memory_.backward_inputs = std::vector<bool>{false, true, true};
    memory_.backward_outputs.emplace();
    seed_ = setup.node.attributes.integer("seed", 0);
    type_ = setup.inputs[0].dtype;
    ratio_type_ = has(setup, 1) ? setup.inputs[1].dtype : DType::f32;
    const Shape& shape = setup.inputs[0].shape;
    samples_ = shape.rank() == 0 ? 1 : shape[0];
    inner_ = shape.rank() == 0 ? 1 : shape.elements(1, shape.rank());
    gives_mask_ = setup.outputs.size() > 1 && setup.outputs[1].present;
    parts_ = threads();
    streamed_ = exceeds_caches(2 * setup.inputs[0].bytes());
    mask_at_ = need_workspace(setup.training() ? static_cast<size_t>(shape.elements()) : 0);
    keeps_mask_ = setup.training();
    part_bytes_ = tile_bytes;
    need_scratch(part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    const float ratio = b.inputs.size() > 1 && b.inputs[1] ? load_one(ratio_type_, b.inputs[1], 0) : 0.5f;
    const bool training = b.inputs.size() > 2 && b.inputs[2] && *static_cast<const uint8_t*>(b.inputs[2]);
    if (!(ratio >= 0 && ratio <= 1)) throw Error("[dropout] ratio is {}; 0 to 1 are legal", ratio);
    const double keep = training ? 1 - static_cast<double>(ratio) : 1;
    const float gain = keep > 0 ? static_cast<float>(1 / keep) : 0.0f;
    const Index tiles = (inner_ + tile_elements - 1) / tile_elements;
    for_each_part(samples_ * inner_ < (1 << 14) ? 1 : parts_, samples_ * tiles, [&](int part, Index first, Index last) {
      char* scratch = static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(part);
      const DropoutNumbers numbers(seed_, *b.position);
      for (Index i = first; i < last; ++i) {
        const Index sample = i / tiles, at = i % tiles * tile_elements, n = std::min(tile_elements, inner_ - at);
        const Index offset = sample * inner_ + at;
        float* mask = floats(scratch, 0);
        const bool forward = pass == Pass::forward;
        if (forward)
          make_mask(numbers, keep, sample, at, n, mask);
        else
          loops().convert({kept(b) + offset, Element::boolean}, {mask}, n);
        const Values in[2] = {values_at(type_, forward ? b.inputs[0] : b.output_gradients[0], offset), {mask}};
        const float parameters[4] = {gain};
        masked_.value(in, place_at(type_, forward ? b.outputs[0] : b.input_gradients[0], offset, streamed_), n,
                      parameters);
        if (!forward) continue;
        if (keeps_mask_) loops().convert({mask}, {kept(b) + offset, Element::boolean}, n);
        if (gives_mask_) store(DType::boolean, b.outputs[1], offset, mask, n);
      }
      if (streamed_) loops().fence();
    });
  }

 private:
  static bool has(const KernelSetup& setup, size_t i) { return i < setup.inputs.size() && setup.inputs[i].present; }
  uint8_t* kept(const Buffers& b) const { return static_cast<uint8_t*>(b.workspace) + mask_at_; }

  // number >= 1 - keep, where the number has 32 bits.
  void make_mask(const DropoutNumbers& numbers, double keep, Index sample, Index at, Index n, float* mask) const {
    const double least = std::ceil((1 - keep) * 0x1p32);
    if (least == 0 || least >= 0x1p32) return loops().fill(mask, least == 0 ? 1.0f : 0.0f, n);
    loops().philox_mask(mask, numbers.seed(), numbers.stream(sample), static_cast<uint64_t>(at),
                        static_cast<uint32_t>(least), n);
  }

  int64_t seed_ = 0;
  DType type_ = DType::f32, ratio_type_ = DType::f32;
  Index samples_ = 1, inner_ = 1;
  bool gives_mask_ = false, keeps_mask_ = false, streamed_ = false;
  int parts_ = 1;
  size_t mask_at_ = 0, part_bytes_ = 0;
  const TileFunctions& masked_ = functions("masked");
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Dropout", "builtin", DropoutKernel);
}  // namespace d5::onednn::own
