// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/stored_layout.hpp"

#include <c10/core/InferenceMode.h>

#include "d5/backends/torch/library.hpp"

namespace d5::libtorch {
namespace {

class StoredLayout final : public Layout {
 public:
  StoredLayout(PlannedValue value, bool channels_last) : value_(std::move(value)), channels_last_(channels_last) {}

  size_t bytes() const override { return static_cast<size_t>(value_.spec.bytes()); }
  std::string name() const override { return channels_last_ ? "channels_last" : value_.rows.name; }
  void from_plain(const Tensor& plain, void* native) const override {
    const c10::InferenceMode inference;
    stored(native).copy_(reordered_rows(value_, wrap(plain), true));
  }
  void to_plain(const void* native, const Tensor& plain) const override {
    const c10::InferenceMode inference;
    wrap(plain).copy_(reordered_rows(value_, stored(const_cast<void*>(native)), false));
  }

 private:
  at::Tensor stored(void* native) const {
    return wrap(native, value_.spec.dtype, value_.spec.shape, at::kCPU, channels_last_);
  }

  PlannedValue value_;
  bool channels_last_;
};

}  // namespace

at::Tensor reordered_rows(const PlannedValue& value, const at::Tensor& tensor, bool to_library) {
  if (value.rows.order.empty()) return tensor;
  std::vector<int64_t> order = value.rows.order;
  if (!to_library)
    for (size_t i = 0; i < order.size(); ++i) order[static_cast<size_t>(value.rows.order[i])] = static_cast<int64_t>(i);
  const Tensor list = Tensor::from<int64_t>({static_cast<Index>(order.size())}, order);
  return tensor.index_select(1, wrap(list).to(tensor.device()));
}

LayoutPtr stored_layout(const PlannedValue& value, bool channels_last) {
  if (!channels_last && value.rows.order.empty()) return nullptr;
  return std::make_shared<StoredLayout>(value, channels_last);
}

}  // namespace d5::libtorch
