// SPDX-License-Identifier: Apache-2.0
// Copies: the operators that keep every element (Reshape, Flatten, Squeeze, Unsqueeze, Identity; in a network nothing
// is copied, their result is a view), Concat and Split as runs of neighbours, Cast, and the operators whose results are
// known before the run (Shape, Size, Constant).
#include <algorithm>

#include "d5/backends/onednn/own/bytes.hpp"
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/core/convert.hpp"

namespace d5::onednn::own {
namespace {

class CopyKernel final : public OwnKernel {
 public:
  void arrange(KernelSetup& setup) const override {
    OwnKernel::arrange(setup);
    setup.is_view = true;
  }

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    return not_whole_bytes(setup.inputs[0]);
  }
  void build(const KernelSetup& setup) override {
    backward_reads_nothing();
    bytes_ = static_cast<Index>(setup.inputs[0].bytes());
    parts_ = threads();
    streamed_ = exceeds_caches(2.0 * static_cast<double>(bytes_));
  }
  void run(Pass pass, const Buffers& b) override {
    if (pass == Pass::forward)
      copy_bytes(parts_, b.outputs[0], b.inputs[0], bytes_, streamed_);
    else
      copy_bytes(parts_, b.input_gradients[0], b.output_gradients[0], bytes_, streamed_);
  }

 private:
  Index bytes_ = 0;
  int parts_ = 1;
  bool streamed_ = false;
};

// The whole and its parts along one axis. Concat joins inputs to its output, Split cuts its input into outputs; a part
// that nobody wants is left out.
class PartsKernel final : public OwnKernel {
 protected:
  bool follows_orders() const override { return true; }
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    return not_whole_bytes(setup.inputs[0]);
  }

  void build(const KernelSetup& setup) override {
    joins_ = setup.node.op == "Concat";
    const TensorSpec& whole = joins_ ? setup.outputs[0] : setup.inputs[0];
    const auto& specs = joins_ ? setup.inputs : setup.outputs;
    const size_t axis =
        lying_axis(setup, valid_axis(setup.node.attributes.integer("axis", 0), whole.shape.rank(), "[concat]"));
    backward_reads_nothing();
    outer_ = whole.shape.elements(0, axis);
    const Index inner = whole.shape.elements(axis + 1, whole.shape.rank()) * element_bytes(whole.dtype);
    row_ = whole.shape[axis] * inner;
    pieces_.clear();
    Index at = 0;
    for (const TensorSpec& spec : specs) {
      if (!spec.present) return fail_later();
      pieces_.push_back({at, spec.shape[axis] * inner});
      at += spec.shape[axis] * inner;
    }
    complete_ = at == row_;
    parts_ = threads();
    streamed_ = exceeds_caches(2 * whole.bytes());
  }

  void run(Pass pass, const Buffers& b) override {
    const bool forward = pass == Pass::forward, to_whole = forward == joins_;
    const auto& parts = joins_ ? (forward ? b.inputs : b.input_gradients) : (forward ? b.outputs : b.output_gradients);
    void* whole = joins_ ? (forward ? b.outputs : b.output_gradients)[0] : (forward ? b.inputs : b.input_gradients)[0];
    // Backward of Split: an output without a gradient contributes zero.
    const bool gaps = to_whole && (!complete_ || std::ranges::find(parts, nullptr) != parts.end());
    if (gaps) zero_bytes(parts_, whole, outer_ * row_);
    // Long rows are cut, so that few rows keep all threads busy.
    const Index cuts = std::clamp<Index>(row_ / (1 << 16), 1, 64);
    for_each_part(outer_ * row_ < (1 << 18) ? 1 : parts_, outer_ * cuts, [&](int, Index first, Index last) {
      for (Index job = first; job < last; ++job) {
        const Index row = job / cuts, low = row_ * (job % cuts) / cuts, high = row_ * (job % cuts + 1) / cuts;
        for (size_t k = 0; k < pieces_.size(); ++k) {
          if (!parts[k]) continue;
          const Piece& piece = pieces_[k];
          const Index from = std::max(low, piece.at), count = std::min(high, piece.at + piece.bytes) - from;
          if (count <= 0) continue;
          char* in_whole = static_cast<char*>(whole) + row * row_ + from;
          char* in_part = static_cast<char*>(parts[k]) + row * piece.bytes + (from - piece.at);
          char *to = to_whole ? in_whole : in_part, *source = to_whole ? in_part : in_whole;
          if (streamed_ && count >= 1024)
            loops().stream(to, source, count);
          else
            std::memcpy(to, source, static_cast<size_t>(count));
        }
      }
      if (streamed_) loops().fence();
    });
  }

 private:
  struct Piece {
    Index at, bytes;  // within a row of the whole
  };
  [[noreturn]] static void fail_later() { throw Error("[onednn] a part is absent; its size is not known"); }

  bool joins_ = true, streamed_ = false, complete_ = true;
  Index outer_ = 1, row_ = 0;
  std::vector<Piece> pieces_;
  int parts_ = 1;
};

// Between f32, bf16, f16 and bool by tiles; else from and to floats as core converts.
class CastKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const DType from = setup.inputs[0].dtype, to = setup.outputs[0].dtype;
    if (is_tile_type(from) && is_tile_type(to)) return {};
    if (from == to && !not_whole_bytes(setup.inputs[0]) && !setup.wants_gradient[0]) return {};
    const bool plain = bits(from) >= 8 && bits(to) >= 8 && from != DType::string;
    const bool narrow_float = is_float(to) && bits(to) == 8;  // its overflow has rules of its own
    if (plain && !narrow_float && (is_float(from) || is_float(to)) && !setup.wants_gradient[0]) return {};
    return fmt::format("its kernel does not convert {} to {}", name(from), name(to));
  }

  void build(const KernelSetup& setup) override {
    from_ = setup.inputs[0].dtype;
    to_ = setup.outputs[0].dtype;
    elements_ = setup.inputs[0].elements();
    if (!is_tile_type(from_) || !is_tile_type(to_)) return;
    Traversal& forward = add_walk(Pass::forward, setup.inputs[0].shape);
    forward.write(output(setup, 0), {{nullptr, {forward.read(input(setup, 0))}}});
    if (!setup.wants_gradient[0]) return;
    Traversal& backward = add_walk(Pass::backward, setup.inputs[0].shape);
    backward.write(input_gradient(setup, 0), {{nullptr, {backward.read(output_gradient(setup, 0))}}});
  }

  void run(Pass pass, const Buffers& b) override {
    if (is_tile_type(from_) && is_tile_type(to_)) return OwnKernel::run(pass, b);
    if (from_ == to_) return copy_bytes(1, b.outputs[0], b.inputs[0], elements_ * element_bytes(to_), false);
    convert(from_, b.inputs[0], to_, b.outputs[0], elements_);
  }

 private:
  DType from_ = DType::f32, to_ = DType::f32;
  Index elements_ = 0;
};

// One element, in a shape that is known.
class ConstantOfShapeKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    return not_whole_bytes(setup.outputs[0]);
  }
  void build(const KernelSetup& setup) override {
    const auto given = setup.node.attributes.tensor("value");
    value_ = given ? given->clone() : Tensor::scalar(0, DType::f32);
    elements_ = setup.outputs[0].elements();
    parts_ = threads();
  }
  void run(Pass, const Buffers& b) override {
    const Index size = element_bytes(value_.dtype());
    for_each_part(elements_ < (1 << 16) ? 1 : parts_, elements_, [&](int, Index first, Index last) {
      copy_strided(static_cast<char*>(b.outputs[0]) + first * size, 1, static_cast<const char*>(value_.data()), 0,
                   last - first, size);
    });
  }

 private:
  Tensor value_;
  Index elements_ = 0;
  int parts_ = 1;
};

class KnownKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup&) const override {
    return "its kernel stores what is known before the run";
  }
  void build(const KernelSetup&) override {}
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Reshape", "builtin", CopyKernel);
D5_REGISTER_KERNEL(onednn, "Flatten", "builtin", CopyKernel);
D5_REGISTER_KERNEL(onednn, "Squeeze", "builtin", CopyKernel);
D5_REGISTER_KERNEL(onednn, "Unsqueeze", "builtin", CopyKernel);
D5_REGISTER_KERNEL(onednn, "Identity", "builtin", CopyKernel);
D5_REGISTER_KERNEL(onednn, "Concat", "builtin", PartsKernel);
D5_REGISTER_KERNEL(onednn, "Split", "builtin", PartsKernel);
D5_REGISTER_KERNEL(onednn, "Cast", "builtin", CastKernel);
D5_REGISTER_KERNEL(onednn, "Shape", "builtin", KnownKernel);
D5_REGISTER_KERNEL(onednn, "Size", "builtin", KnownKernel);
D5_REGISTER_KERNEL(onednn, "Constant", "builtin", KnownKernel);
D5_REGISTER_KERNEL(onednn, "ConstantOfShape", "builtin", ConstantOfShapeKernel);
D5_REGISTER_KERNEL(onednn, "Range", "builtin", KnownKernel);
}  // namespace d5::onednn::own
