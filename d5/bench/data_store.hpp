// SPDX-License-Identifier: Apache-2.0
// The samples of a case laid down in another container, on the path that is to be measured: once, then found again.
#pragma once

#include <memory>
#include <string>

#include "d5/bench/session.hpp"
#include "d5/datasets/dataset.hpp"

namespace d5 {

struct StoredData {
  std::string path;               // for open_container
  double bytes = 0, seconds = 0;  // of the writing, storage reached; known from then where it was done before
};
// `identity` is all that the samples depend on: another one is another folder. An empty `folder` is the user's cache.
// UsageError where the container cannot hold them.
StoredData store_samples(const Dataset&, const std::string& container, const std::string& folder, const Json& identity);

// The set with its field "image", u8[CxHxW], packed by this decoder's inverse.
std::shared_ptr<const Dataset> encoded(std::shared_ptr<const Dataset>, const std::string& decoder);

}  // namespace d5
