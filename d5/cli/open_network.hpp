// SPDX-License-Identifier: Apache-2.0
// A network as a command names it: the one place that knows where networks come from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

struct OpenOptions {
  std::string sizes = {};       // free sizes, "N=16,sequence=128"; 1 where it says nothing
  bool training = false;        // of a built-in network: its training form, with its loss
  bool initial_values = false;  // of a built-in network: parameters get the values that they start with
  std::string dtype = "f32";    // of a built-in network
  std::map<std::string, std::string> values = {};  // of a built-in network: classes, width, ...; "" is the default
};

// The path of an ONNX file, or the name of a built-in network. In d5's own words.
Graph open_network(const std::string& name, const OpenOptions& = {});

// Values of the built-in networks that are named among the words, as options of a command: name -> what it is.
std::map<std::string, std::string> options_of_networks(const std::vector<std::string>& words);

}  // namespace d5
