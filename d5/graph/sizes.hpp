// SPDX-License-Identifier: Apache-2.0
// Free sizes of inputs ("N", "batch") and their values. As read they are 1.
#pragma once

#include <map>
#include <set>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

std::set<std::string> free_sizes(const Graph&);
std::map<std::string, Index> parse_sizes(const std::string& text);  // "H=8,W=8"; UsageError on anything else

// Binds the symbols; they stay symbols and can be bound anew. UsageError names one that the graph does not have.
void bind_sizes(Graph&, const std::map<std::string, Index>& sizes);
// The same for good: they are sizes like any other then.
void fix_sizes(Graph&, const std::map<std::string, Index>& sizes);

// The symbols that are the first size of a data input: what counts samples. Empty: the batch is what it is.
std::set<std::string> batch_sizes(const Graph&);
// Binds those. UsageError where there are none and the first data input has another first size.
void bind_batch(Graph&, Index samples);

// An input gets exactly this type and shape. Error where a fixed size, the number of axes or the element type differ.
void bind_input(Graph&, const std::string& name, DType, const Shape&);

// The input becomes a constant: a value that decides shapes, known before the run.
void bind_value(Graph&, const std::string& name, Tensor value);

}  // namespace d5
