// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onnxruntime/library.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace d5::onnxruntime {
namespace {

constexpr std::array element_types{
    std::pair{DType::f64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    std::pair{DType::f32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    std::pair{DType::f16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    std::pair{DType::bf16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    std::pair{DType::i8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    std::pair{DType::i16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    std::pair{DType::i32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    std::pair{DType::i64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    std::pair{DType::u8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    std::pair{DType::u16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    std::pair{DType::u32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    std::pair{DType::u64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    std::pair{DType::boolean, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
};

}  // namespace

const OrtApi& api() {
  static const OrtApi* const found = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!found)
    throw Error("[onnxruntime] library {} has no interface of version {}, which deep500 was built with",
                OrtGetApiBase()->GetVersionString(), ORT_API_VERSION);
  return *found;
}

void check(OrtStatus* status) {
  if (!status) return;
  std::string message = api().GetErrorMessage(status);
  std::ranges::replace(message, '\n', ' ');
  api().ReleaseStatus(status);
  throw Error("[onnxruntime] {}", message);
}

const OrtEnv& environment() {
  static const OrtEnv* const environment = [] {
    OrtEnv* made = nullptr;
    check(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "d5", &made));
    check(api().DisableTelemetryEvents(made));
    return made;  // lives as long as the process: its threads may outlive static destructors
  }();
  return *environment;
}

ONNXTensorElementDataType element_type(DType type) {
  for (const auto& [ours, theirs] : element_types)
    if (ours == type) return theirs;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

DType dtype_of_element(ONNXTensorElementDataType type) {
  for (const auto& [ours, theirs] : element_types)
    if (theirs == type) return ours;
  throw Error("[onnxruntime] its element type {} is not known here", static_cast<int>(type));
}

Owned<OrtValue> value_over(const Tensor& tensor) {
  OrtMemoryInfo* memory = nullptr;
  check(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  const Owned<OrtMemoryInfo> keep(memory);
  OrtValue* value = nullptr;
  check(api().CreateTensorWithDataAsOrtValue(memory, tensor.data(), tensor.bytes(), tensor.shape().sizes().data(),
                                             tensor.shape().rank(), element_type(tensor.dtype()), &value));
  return Owned<OrtValue>(value);
}

Tensor tensor_of(const OrtValue& value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api().GetTensorTypeAndShape(&value, &info));
  const Owned<OrtTensorTypeAndShapeInfo> keep(info);
  ONNXTensorElementDataType type{};
  size_t rank = 0;
  check(api().GetTensorElementType(info, &type));
  check(api().GetDimensionsCount(info, &rank));
  std::vector<Index> sizes(rank);
  check(api().GetDimensions(info, sizes.data(), rank));
  const Tensor tensor(dtype_of_element(type), Shape(std::move(sizes)));
  void* data = nullptr;
  check(api().GetTensorMutableData(const_cast<OrtValue*>(&value), &data));
  if (tensor.bytes() > 0) std::memcpy(tensor.data(), data, tensor.bytes());
  return tensor;
}

}  // namespace d5::onnxruntime
