// SPDX-License-Identifier: Apache-2.0
// The child's side for our own backends: `d5 worker` reads requests from D5_WORKER_FD until close.
#pragma once

namespace d5 {

int worker_main();

}  // namespace d5
