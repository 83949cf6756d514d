// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "d5/backends/kernel.hpp"

namespace d5::onednn::own {

// The kernel for channels last, and why a node cannot be computed by it.
std::unique_ptr<Kernel> make_batch_normalization();
std::optional<std::string> why_not_channels_last(const KernelSetup&);

}  // namespace d5::onednn::own
