// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/window.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace d5 {
namespace {

// Sizes beyond this are no window; below it no product of two of them overflows.
constexpr Index most = (Index{1} << 31) - 1;
// Taps and outputs of an axis are not both beyond this: whoever counts goes through the fewer of them.
constexpr Index most_counted = Index{1} << 24;

std::vector<Index> read(const Attributes& a, const std::string& name, size_t count, Index otherwise, Index least,
                        std::string_view place) {
  std::vector<Index> values = a.integers(name, std::vector<Index>(count, otherwise));
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count)
    throw Error("{} {} has {} values ({}); {} are wanted", place, name, values.size(), fmt::join(values, ","), count);
  for (const Index value : values)
    if (value < least || value > most)
      throw Error("{} {} is {}; values from {} to {} are legal", place, name, fmt::join(values, ","), least, most);
  return values;
}

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// The attributes that every window has, read and checked.
struct Options {
  Options(const Attributes& a, std::span<const Index> sizes, std::span<const Index> kernel, std::string_view place) {
    const size_t rank = sizes.size();
    if (rank < 1 || rank > 3) throw Error("{} {} axes slide; 1 to 3 are supported", place, rank);
    strides = read(a, "strides", rank, 1, 1, place);
    dilations = read(a, "dilations", rank, 1, 1, place);
    pads = read(a, "pads", 2 * rank, 0, 0, place);
    auto_pad = a.text("auto_pad", "NOTSET");
    same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!same && auto_pad != "NOTSET" && auto_pad != "VALID")
      throw Error("{} auto_pad is '{}'; legal: NOTSET, SAME_UPPER, SAME_LOWER, VALID", place, auto_pad);
    if (auto_pad != "NOTSET" && std::ranges::any_of(pads, [](Index p) { return p != 0; }))
      throw Error("{} pads {} and auto_pad {} exclude each other", place, fmt::join(pads, ","), auto_pad);
    for (size_t i = 0; i < rank; ++i)
      if (kernel[i] < 1 || kernel[i] > most || sizes[i] > most)
        throw Error("{} kernel {} on input {}: sizes from 1 to {} are legal", place, fmt::join(kernel, "x"),
                    fmt::join(sizes, "x"), most);
  }
  std::vector<Index> strides, dilations, pads;
  std::string auto_pad;
  bool same;
};

}  // namespace

Window::Window(const Attributes& a, std::span<const Index> sizes, std::span<const Index> kernel_sizes,
               std::string_view place)
    : rank_(sizes.size()) {
  const Options o(a, sizes, kernel_sizes, place);
  for (size_t i = 0; i < rank_; ++i) {
    const size_t axis = 3 - rank_ + i;
    input[axis] = sizes[i];
    kernel[axis] = kernel_sizes[i];
    stride[axis] = o.strides[i];
    dilation[axis] = o.dilations[i];
    const Index extent = (kernel[axis] - 1) * dilation[axis] + 1;
    if (o.same) {
      output[axis] = ceil_div(sizes[i], o.strides[i]);
      const Index total = std::max<Index>(0, (output[axis] - 1) * o.strides[i] + extent - sizes[i]);
      pad[axis] =
          o.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;  // the odd one goes to the end, or the beginning
      pad_end[axis] = total - pad[axis];
    } else {
      pad[axis] = o.pads[i];
      pad_end[axis] = o.pads[rank_ + i];
      const Index padded = o.pads[i] + sizes[i] + o.pads[rank_ + i];
      if (extent > padded)
        throw Error("{} kernel {} with dilation {} spans {}, more than the padded input of {} (axis {} of {})", place,
                    kernel[axis], dilation[axis], extent, padded, i, fmt::join(sizes, "x"));
      const Index room = padded - extent;
      output[axis] = (a.flag("ceil_mode", false) ? ceil_div(room, o.strides[i]) : room / o.strides[i]) + 1;
      // With ceil_mode a window may begin in the padding at the end: it does not count.
      if ((output[axis] - 1) * o.strides[i] >= sizes[i] + o.pads[i] && a.flag("ceil_mode", false)) --output[axis];
    }
    if (std::min(kernel[axis], output[axis]) > most_counted)
      throw Error("{} {} taps at each of {} places (axis {} of {}): one of the two may be more than {}", place,
                  kernel[axis], output[axis], i, fmt::join(sizes, "x"), most_counted);
  }
}

Window Window::transposed(const Attributes& a, std::span<const Index> x, std::span<const Index> kernel_sizes,
                          std::string_view place) {
  const Options o(a, x, kernel_sizes, place);
  const auto shape = a.integers("output_shape"), more = read(a, "output_padding", x.size(), 0, 0, place);
  if (!shape.empty() && shape.size() != x.size())
    throw Error("{} output_shape has {} values ({}); {} are wanted", place, shape.size(), fmt::join(shape, ","),
                x.size());
  Window w;
  w.rank_ = x.size();
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t axis = 3 - x.size() + i;
    if (x[i] < 1) throw Error("{} X is {} along its sliding axes; sizes from 1 are legal", place, fmt::join(x, "x"));
    if (more[i] >= std::max(o.strides[i], o.dilations[i]))
      throw Error("{} output_padding is {}; it must be less than the stride ({}) or the dilation ({})", place,
                  fmt::join(more, ","), o.strides[i], o.dilations[i]);
    const Index full = o.strides[i] * (x[i] - 1) + (kernel_sizes[i] - 1) * o.dilations[i] + 1 + more[i];
    Index size = full - o.pads[i] - o.pads[x.size() + i];
    Index before = o.pads[i];
    if (o.same || !shape.empty()) {
      size = shape.empty() ? x[i] * o.strides[i] : shape[i];
      const Index total = std::max<Index>(0, full - size);
      before = o.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    if (size < 1 || size > most)
      throw Error("{} Y would be {} along axis {}; sizes from 1 to {} are legal (X {}, kernel {}, pads {})", place,
                  size, i, most, fmt::join(x, "x"), fmt::join(kernel_sizes, "x"), fmt::join(o.pads, ","));
    w.input[axis] = size;
    w.output[axis] = x[i];
    w.kernel[axis] = kernel_sizes[i];
    w.stride[axis] = o.strides[i];
    w.dilation[axis] = o.dilations[i];
    w.pad[axis] = before;
    w.pad_end[axis] = full - size - before;
  }
  return w;
}

Index Window::padded_taps(Index output_element) const {
  const auto o = position(output_element, output);
  Index product = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const Index room = input[axis] + pad_end[axis] - source(axis, o[axis], 0);
    product *= std::min(kernel[axis], ceil_div(room, dilation[axis]));
  }
  return product;
}

Window::Range Window::outputs(size_t axis, Index tap) const {
  const Index shift = tap * dilation[axis] - pad[axis];  // output o reads o * stride + shift
  const Index first = shift >= 0 ? 0 : ceil_div(-shift, stride[axis]);
  const Index last = shift >= input[axis] ? 0 : ceil_div(input[axis] - shift, stride[axis]);
  return {first, std::min(last, output[axis])};
}

Window::Range Window::inside(size_t axis, Index o) const {
  const Index from = source(axis, o, 0);
  const Index first = from >= 0 ? 0 : ceil_div(-from, dilation[axis]);
  const Index last = from >= input[axis] ? 0 : ceil_div(input[axis] - from, dilation[axis]);
  return {first, std::min(last, kernel[axis])};
}

double Window::pairs() const {
  double product = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    double sum = 0;
    const bool by_tap = kernel[axis] <= output[axis];
    for (Index i = 0; i < std::min(kernel[axis], output[axis]); ++i) {
      const Range range = by_tap ? outputs(axis, i) : inside(axis, i);
      sum += static_cast<double>(std::max<Index>(0, range.last - range.first));
    }
    product *= sum;
  }
  return product;
}

double Window::most_readers() const {
  double product = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    std::vector<Index> readers(static_cast<size_t>(input[axis]), 0);
    for (Index t = 0; t < kernel[axis]; ++t) {
      const Range range = outputs(axis, t);
      for (Index o = range.first; o < range.last; ++o) ++readers[source(axis, o, t)];
    }
    product *= readers.empty() ? 0 : static_cast<double>(*std::ranges::max_element(readers));
  }
  return product;
}

void Window::check_no_empty_window(std::string_view place) const {
  for (size_t axis = 3 - rank_; axis < 3; ++axis) {
    const auto check = [&](Index o) {
      if (const Range taps = inside(axis, o); taps.first >= taps.last)
        throw Error(
            "{} the window of output {} along axis {} lies wholly in the padding (input {}, kernel {}, dilation {}, "
            "pad {})",
            place, o, axis - (3 - rank_), input[axis], kernel[axis], dilation[axis], pad[axis]);
    };
    // Of windows that begin before the input the first reaches least far; where taps can step over the input, the
    // places where they meet it come again.
    const Index before = std::min(output[axis], ceil_div(pad[axis], stride[axis]));
    const Index different = dilation[axis] <= input[axis] ? 1 : dilation[axis] / std::gcd(stride[axis], dilation[axis]);
    for (Index o = 0; o < std::min(before, different); ++o) check(o);
    // Those that begin behind it come last.
    if (const Index behind = ceil_div(input[axis] + pad[axis], stride[axis]); behind < output[axis]) check(behind);
  }
}

std::vector<Parameter> window_parameters() {
  return {{"stride", "steps of the window", "1"},
          {"pad", "padding on both sides of each axis", "0"},
          {"pads", "padding at the beginning of each axis, then at the end; empty: use pad", ""},
          {"dilation", "distance between taps", "1"},
          {"auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", "NOTSET"}};
}

Attributes window_attributes(const Attributes& values, size_t rank) {
  Attributes a{{"strides", sizes(values, "stride", rank)},
               {"dilations", sizes(values, "dilation", rank)},
               {"auto_pad", values.text("auto_pad", "NOTSET")}};
  std::vector<Index> pads;
  if (values.text("pads", "").empty()) {
    pads = sizes(values, "pad", rank);
    pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  } else {
    pads = sizes(values, "pads", 2 * rank);
  }
  a.set("pads", std::move(pads));
  return a;
}

std::vector<Index> window_sizes(const Attributes& values, const std::string& name) {
  const auto list = parse_shape(values.text(name, "")).sizes();
  if (list.empty() || list.size() > 3)
    throw UsageError("[operator] {} is '{}'; 1 to 3 sizes are wanted, as in 56x56", name, values.text(name, ""));
  return list;
}

}  // namespace d5
