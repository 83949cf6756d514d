// SPDX-License-Identifier: Apache-2.0
// The geometry of a window that slides over 1 to 3 axes: Conv, ConvTranspose and the pools share it. Output o of an
// axis reads, with tap t, the input at o * stride - pad + t * dilation; what lies outside the input is padding.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "d5/operators/operator.hpp"

namespace d5 {

// Always three axes: those that are missing stand in front with size 1.
class Window {
 public:
  // From the ONNX attributes strides, dilations, pads, auto_pad and ceil_mode. Error where no output fits.
  Window(const Attributes&, std::span<const Index> input, std::span<const Index> kernel, std::string_view place);
  // The window of the convolution whose gradient a ConvTranspose of X is: X stands where the window's output is, Y
  // where its input is. Reads the attributes output_padding and output_shape too.
  static Window transposed(const Attributes&, std::span<const Index> x, std::span<const Index> kernel,
                           std::string_view place);

  std::array<Index, 3> input{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{}, output{1, 1, 1};
  std::array<Index, 3> pad_end{};  // padding behind the input; pad is that before it

  std::vector<Index> output_sizes() const { return sliding(output); }
  std::vector<Index> input_sizes() const { return sliding(input); }
  Index input_elements() const { return input[0] * input[1] * input[2]; }
  Index output_elements() const { return output[0] * output[1] * output[2]; }
  Index taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  Index source(size_t axis, Index o, Index t) const { return o * stride[axis] - pad[axis] + t * dilation[axis]; }

  // Pairs of an output and a tap that reads inside the input: the multiplications of one channel.
  double pairs() const;
  // The most outputs that read one input element.
  double most_readers() const;
  // An axis and output whose window lies wholly in the padding, as an Error: a maximum over nothing has no value.
  void check_no_empty_window(std::string_view place) const;

  // How many taps of one output read the input or its padding; with ceil_mode the last ones may lie beyond both.
  Index padded_taps(Index output_element) const;

  // f(input_element, tap) for the taps of one output that read inside the input, in the order of taps.
  template <class F>
  void for_each_tap(Index output_element, F&& f) const;
  // f(output_element, tap) for the outputs that read one input element.
  template <class F>
  void for_each_reader(Index input_element, F&& f) const;
  // f(first_output_element, first_input_element, count) for each run of outputs along the last axis that read inside
  // the input with this tap; from one output to the next the input advances by stride[2].
  template <class F>
  void for_each_run(Index tap, F&& f) const;

 private:
  Window() = default;
  std::vector<Index> sliding(const std::array<Index, 3>& sizes) const {
    return {sizes.end() - static_cast<std::ptrdiff_t>(rank_), sizes.end()};
  }
  struct Range {
    Index first, last;
  };
  Range outputs(size_t axis, Index tap) const;  // those that read inside the input with this tap
  Range inside(size_t axis, Index o) const;     // taps of an output that read inside the input; first >= last: none
  static std::array<Index, 3> position(Index element, const std::array<Index, 3>& sizes) {
    return {element / (sizes[1] * sizes[2]), element / sizes[2] % sizes[1], element % sizes[2]};
  }
  size_t rank_ = 0;
};

// The parameters of a case that a window needs (stride, pad, pads, dilation, auto_pad), and the attributes they mean.
std::vector<Parameter> window_parameters();
Attributes window_attributes(const Attributes& values, size_t rank);
// "56x56" as 1 to 3 sizes; UsageError names the parameter.
std::vector<Index> window_sizes(const Attributes& values, const std::string& name);

// ---- templates
template <class F>
void Window::for_each_tap(Index output_element, F&& f) const {
  const auto o = position(output_element, output);
  const Range as = inside(0, o[0]), bs = inside(1, o[1]), cs = inside(2, o[2]);
  for (Index a = as.first; a < as.last; ++a)
    for (Index b = bs.first; b < bs.last; ++b)
      for (Index c = cs.first; c < cs.last; ++c)
        f((source(0, o[0], a) * input[1] + source(1, o[1], b)) * input[2] + source(2, o[2], c),
          (a * kernel[1] + b) * kernel[2] + c);
}

template <class F>
void Window::for_each_reader(Index input_element, F&& f) const {
  const auto x = position(input_element, input);
  for (Index tap = 0; tap < taps(); ++tap) {
    const auto t = position(tap, kernel);
    std::array<Index, 3> o{};
    bool reads = true;
    for (size_t axis = 0; axis < 3; ++axis) {
      const Index distance = x[axis] + pad[axis] - t[axis] * dilation[axis];
      o[axis] = distance / stride[axis];
      reads = reads && distance >= 0 && distance % stride[axis] == 0 && o[axis] < output[axis];
    }
    if (reads) f((o[0] * output[1] + o[1]) * output[2] + o[2], tap);
  }
}

template <class F>
void Window::for_each_run(Index tap, F&& f) const {
  const auto t = position(tap, kernel);
  const Range a = outputs(0, t[0]), b = outputs(1, t[1]), c = outputs(2, t[2]);
  if (c.first >= c.last) return;
  for (Index i = a.first; i < a.last; ++i)
    for (Index j = b.first; j < b.last; ++j)
      f((i * output[1] + j) * output[2] + c.first,
        (source(0, i, t[0]) * input[1] + source(1, j, t[1])) * input[2] + source(2, c.first, t[2]), c.last - c.first);
}

}  // namespace d5
