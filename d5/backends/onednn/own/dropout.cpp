// SPDX-License-Identifier: Apache-2.0
// Dropout with the mask of d5/operators/dropout.hpp: which elements stay depends on the seed, the step and the global
// number of the sample. Forward leaves the mask, a bit for each element, for backward.
#include "d5/operators/dropout.hpp"

#include <algorithm>
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
    keeps_mask_ = setup.training();
    words_ = (inner_ + most_together - 1) / most_together * (most_together / 32);
    mask_at_ = need_workspace(keeps_mask_ ? sizeof(uint32_t) * static_cast<size_t>(samples_ * words_) : 0);
    part_bytes_ = aligned_bytes(tile_elements / 8);
    need_scratch(part_bytes_ * static_cast<size_t>(parts_));
  }

  void run(Pass pass, const Buffers& b) override {
    const float ratio = b.inputs.size() > 1 && b.inputs[1] ? load_one(ratio_type_, b.inputs[1], 0) : 0.5f;
    const bool training = b.inputs.size() > 2 && b.inputs[2] && *static_cast<const uint8_t*>(b.inputs[2]);
    if (!(ratio >= 0 && ratio <= 1)) throw Error("[dropout] ratio is {}; 0 to 1 are legal", ratio);
    const double keep = training ? 1 - static_cast<double>(ratio) : 1;
    const float gain = keep > 0 ? static_cast<float>(1 / keep) : 0.0f;
    const double least = std::ceil((1 - keep) * 0x1p32);  // of the numbers, which have 32 bits
    const bool some = least > 0 && least < 0x1p32;
    const bool forward = pass == Pass::forward;
    const Index tiles = (inner_ + tile_elements - 1) / tile_elements;
    for_each_part(samples_ * inner_ < (1 << 14) ? 1 : parts_, samples_ * tiles, [&](int part, Index first, Index last) {
      char* scratch = static_cast<char*>(b.scratch) + part_bytes_ * static_cast<size_t>(part);
      const DropoutNumbers numbers(seed_, *b.position);
      for (Index i = first; i < last; ++i) {
        const Index sample = i / tiles, at = i % tiles * tile_elements, n = std::min(tile_elements, inner_ - at);
        const Index offset = sample * inner_ + at;
        uint32_t* bits = keeps_mask_ ? kept(b) + sample * words_ + at / 32 : reinterpret_cast<uint32_t*>(scratch);
        const Values from = values_at(type_, forward ? b.inputs[0] : b.output_gradients[0], offset);
        const Place to = place_at(type_, forward ? b.outputs[0] : b.input_gradients[0], offset, streamed_);
        if (forward && some) {
          loops().drop(from, to, bits, gain, numbers.seed(), numbers.stream(sample), static_cast<uint64_t>(at),
                       static_cast<uint32_t>(least), n);
        } else {
          if (forward) std::fill_n(bits, (n + 31) / 32, least == 0 ? ~0u : 0u);
          loops().keep(from, to, bits, gain, n);
        }
        if (forward && gives_mask_)
          for (Index k = 0; k < n; ++k) static_cast<uint8_t*>(b.outputs[1])[offset + k] = bits[k / 32] >> k % 32 & 1;
      }
      if (streamed_) loops().fence();
    });
  }

 private:
  static bool has(const KernelSetup& setup, size_t i) { return i < setup.inputs.size() && setup.inputs[i].present; }
  uint32_t* kept(const Buffers& b) const {
    return reinterpret_cast<uint32_t*>(static_cast<char*>(b.workspace) + mask_at_);
  }

  int64_t seed_ = 0;
  DType type_ = DType::f32, ratio_type_ = DType::f32;
  Index samples_ = 1, inner_ = 1, words_ = 0;  // words: of a sample's mask
  bool gives_mask_ = false, keeps_mask_ = false, streamed_ = false;
  int parts_ = 1;
  size_t mask_at_ = 0, part_bytes_ = 0;
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Dropout", "builtin", DropoutKernel);
}  // namespace d5::onednn::own
