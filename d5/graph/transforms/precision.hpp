// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "d5/graph/graph.hpp"

namespace d5 {

bool is_network_float(DType);  // f32, f64, f16, bf16: what networks compute in

// Every f32, f64, f16 and bf16 value has this type instead.
Graph with_float_type(Graph, DType);

}  // namespace d5
