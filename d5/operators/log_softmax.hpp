// SPDX-License-Identifier: Apache-2.0
// The logarithm of the softmax along one axis, its gradient and the first-order errors of both in units of the
// round-off: LogSoftmax and SoftmaxCrossEntropyLoss share them. Tensors are f64 and of one shape.
#pragma once

#include "d5/core/tensor.hpp"

namespace d5 {

void log_softmax(Index axis, const Tensor& x, const Tensor& y);
void log_softmax_gradient(Index axis, const Tensor& y, const Tensor& dy, const Tensor& dx);

Tensor log_softmax_error(Index axis, const Tensor& x);                                                    // of y
Tensor log_softmax_gradient_error(Index axis, const Tensor& y, const Tensor& y_error, const Tensor& dy);  // of dx

}  // namespace d5
