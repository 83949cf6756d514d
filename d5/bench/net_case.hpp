// SPDX-License-Identifier: Apache-2.0
// The fields of a case of level 1, and the network they describe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/bench/fields.hpp"
#include "d5/graph/transform.hpp"

namespace d5 {

// What is timed: the network as it is used; its backward pass alone; or forward and backward, a training step without
// the update.
enum class NetPass { forward, backward, step };

const std::vector<CaseField>& network_fields();                     // every case of level 1 has them
std::vector<Parameter> own_parameters(const std::string& network);  // of a built-in one; none for a file
bool is_file(const std::string& network);                           // an ONNX file rather than a built-in name

NetPass net_pass(const Json& fields);
CompileOptions net_compile_options(const Json& fields);
Execution net_execution(const Json& fields);  // what its transforms ask for beside the graph
// In one step: the first size of its first data input, of the first with a free one where there is any.
Index samples_of(const Graph&);
// Of a file: a batch that it does not have, sizes that nobody gave.
std::vector<std::string> warnings_of_sizes(const Graph&, const Json& fields);

// In the form that the pass asks for, with its loss where it learns and one is known. `batch` replaces the field's, and
// that of a transform; 0 leaves the sizes of a file as they are.
Graph network_of(const Json& fields, std::optional<Index> batch = {});

}  // namespace d5
