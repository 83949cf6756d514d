// SPDX-License-Identifier: Apache-2.0
// One engine and one stream per process, and the one place where oneDNN's errors become ours.
#pragma once

#include <dnnl.hpp>
#include <string>

#include "d5/backends/backend.hpp"

namespace d5::onednn {

// The first call holds the library to an ISA that really works here, before it looks at the processor itself.
dnnl::engine& engine();
dnnl::stream& stream();

// What the library was held to and why; empty where it decides alone.
std::string isa_cap();
Facts library_facts();
bool has_deterministic_attribute();

std::string status_name(dnnl_status_t);
void check(dnnl_status_t, std::string_view place);

// Runs f; an error of oneDNN leaves it as a d5::Error that names the status.
template <class F>
decltype(auto) guarded(std::string_view place, F&& f) try {
  return f();
} catch (const dnnl::error& error) {
  throw Error("[{}] oneDNN: {} ({})", place, error.message ? error.message : "error", status_name(error.status));
}

dnnl::memory::data_type data_type(DType);  // Error for a type that oneDNN does not have

}  // namespace d5::onednn
