// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's C interface with owners instead of Release functions, and one place where its errors are met.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "d5/core/tensor.hpp"

namespace d5::onnxruntime {

const OrtApi& api();
void check(OrtStatus*);  // Error with the library's message; releases the status
const OrtEnv& environment();

struct Release {
  void operator()(OrtSession* p) const { api().ReleaseSession(p); }
  void operator()(OrtSessionOptions* p) const { api().ReleaseSessionOptions(p); }
  void operator()(OrtValue* p) const { api().ReleaseValue(p); }
  void operator()(OrtIoBinding* p) const { api().ReleaseIoBinding(p); }
  void operator()(OrtMemoryInfo* p) const { api().ReleaseMemoryInfo(p); }
  void operator()(OrtTensorTypeAndShapeInfo* p) const { api().ReleaseTensorTypeAndShapeInfo(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

// The library's element type; ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED where it has none.
ONNXTensorElementDataType element_type(DType);
DType dtype_of_element(ONNXTensorElementDataType);

Owned<OrtValue> value_over(const Tensor&);  // the tensor's own bytes
Tensor tensor_of(const OrtValue&);          // a copy

}  // namespace d5::onnxruntime
