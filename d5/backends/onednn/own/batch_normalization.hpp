// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "d5/backends/kernel.hpp"

namespace d5::onednn::own {

// The kernels for channels last (batch_normalization.cpp) and, in training, first (normalization.cpp), and why a node
// cannot be computed by them.
std::unique_ptr<Kernel> make_channels_last();
std::unique_ptr<Kernel> make_channels_first();
std::optional<std::string> why_not_channels_last(const KernelSetup&);
std::optional<std::string> why_not_channels_first(const KernelSetup&);

}  // namespace d5::onednn::own
