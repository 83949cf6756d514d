// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/layout.hpp"

#include <dnnl_debug.h>

#include <algorithm>

namespace d5::onednn {
namespace {

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<dnnl_dim_t>(dims[i], 1);
  return strides;
}

class OnednnLayout final : public Layout {
 public:
  OnednnLayout(const Desc& plain, const Desc& native)
      : plain_(plain),
        native_(native),
        name_(describe(native)),
        pack_(dnnl::reorder::primitive_desc(engine(), plain, engine(), native)),
        unpack_(dnnl::reorder::primitive_desc(engine(), native, engine(), plain)) {}

  size_t bytes() const override { return native_.get_size(); }
  std::string name() const override { return name_; }
  void from_plain(const Tensor& plain, void* native) const override {
    run(pack_, plain_, plain.data(), native_, native);
  }
  void to_plain(const void* native, const Tensor& plain) const override {
    run(unpack_, native_, const_cast<void*>(native), plain_, plain.data());
  }

 private:
  static void run(const dnnl::reorder& reorder, const Desc& from_desc, void* from, const Desc& to_desc, void* to) {
    guarded("onednn: reorder", [&] {
      dnnl::memory source(from_desc, engine(), from), target(to_desc, engine(), to);
      dnnl::reorder(reorder).execute(stream(), source, target);
      stream().wait();
    });
  }

  Desc plain_, native_;
  std::string name_;
  dnnl::reorder pack_, unpack_;
};

}  // namespace

Dims dims_of(const Shape& shape) { return shape.rank() == 0 ? Dims{1} : Dims(shape.begin(), shape.end()); }

Desc row_major(DType type, const Dims& dims) { return {dims, data_type(type), row_major_strides(dims)}; }
Desc strided(DType type, const Dims& dims, const Dims& strides) { return {dims, data_type(type), strides}; }
Desc any_layout(DType type, const Dims& dims) { return {dims, data_type(type), Tag::any}; }

Desc channels_last(DType type, const Dims& dims) {
  Dims order = dims;  // n, spatial..., c
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  const Dims dense = row_major_strides(order);
  Dims strides{dense[0], dense.back()};
  strides.insert(strides.end(), dense.begin() + 1, dense.end() - 1);
  return {dims, data_type(type), strides};
}

Desc ordered(DType type, const Dims& dims, const AxisOrder& order) {
  if (order.empty()) return row_major(type, dims);
  Dims strides(dims.size());
  dnnl_dim_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<dnnl_dim_t>(dims[order[i]], 1);
  }
  return strided(type, dims, strides);
}

Images::Images(const KernelSetup& setup) {
  const TensorSpec &in = setup.inputs[0], &out = setup.outputs[0];
  const AxisOrder last = channels_last_order(in.shape.rank());
  const bool both = setup.in_network && same_places(setup.input_order(0), last, in.shape) &&
                    same_places(setup.output_order(0), last, out.shape);
  const auto lies = [&](const TensorSpec& spec, const AxisOrder& order) {
    const Dims dims = dims_of(spec.shape);
    return both ? channels_last(spec.dtype, dims) : ordered(spec.dtype, dims, order);
  };
  x = lies(in, setup.input_order(0));
  y = lies(out, setup.output_order(0));
}

bool is_row_major(const Desc& desc) {
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked && desc.get_inner_nblks() == 0 &&
         desc == Desc(desc.get_dims(), desc.get_data_type(), row_major_strides(desc.get_dims()));
}

std::string describe(const Desc& desc) {
  std::string text = fmt::format("{}[", dnnl_dt2str(static_cast<dnnl_data_type_t>(desc.get_data_type())));
  const Dims dims = desc.get_dims(), strides = desc.get_strides(), padded = desc.get_padded_dims();
  for (size_t i = 0; i < dims.size(); ++i) text += fmt::format("{}{}", i ? "x" : "", dims[i]);
  text += "]:";
  for (size_t i = 0; i < strides.size(); ++i) text += fmt::format("{}{}", i ? "," : "", strides[i]);
  const Dims blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  for (size_t i = 0; i < blocks.size(); ++i) text += fmt::format(":{}{}", blocks[i], static_cast<char>('a' + axes[i]));
  if (padded != dims)
    for (size_t i = 0; i < padded.size(); ++i) text += fmt::format("{}{}", i ? "x" : ":padded ", padded[i]);
  return text;
}

LayoutPtr make_layout(const Desc& plain, const Desc& native) {
  if (plain == native) return nullptr;
  return std::make_shared<OnednnLayout>(plain, native);
}

}  // namespace d5::onednn
