// SPDX-License-Identifier: Apache-2.0
// Which tensors of a network are trained, and what is minimised. Both travel in the metadata of the file, so that a
// network that was trained here opens elsewhere, and opens here again as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

// Float constants become parameters: those that the file names, else all that feed an operator with a gradient with
// more than one element in all. The running statistics of BatchNormalization become parameters without a gradient.
// Their values are in Graph::initial. Returns the names of those with a gradient.
std::vector<std::string> make_trainable(Graph&);

// The inverse: parameters with a value become constants. `values` replaces Graph::initial, by name.
void freeze_parameters(Graph&, const std::map<std::string, Tensor>& values = {});

// Writes the list of trainable tensors into the metadata, from the parameters of the graph.
void record_trainable(Graph&);

std::optional<std::string> loss_of(const Graph&);  // the name of the value that is minimised
void set_loss(Graph&, const std::string& value);   // Error where no node makes it

}  // namespace d5
