// SPDX-License-Identifier: Apache-2.0
// Everything that can be named on the command line or in a recipe is in a registry. The file that defines a thing ends
// with one line, built-in and plugin alike:   D5_REGISTER(optimizers, "adam", Adam);
//
// A registry is declared once, in the header of its room, as a type with what an entry is and how a class becomes one:
//   struct operators { static constexpr const char* kind = "operator"; using Entry = OperatorEntry;
//                      template <class T> static Entry entry() { ... } };
// The entries live in libd5, not in a template's static: a module would otherwise see a copy of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {

// A plugin built against another ABI misses these symbols and fails to load; load_plugin() says why in plain words.
#ifndef D5_ABI  // a test defines an older one
#define D5_ABI abi_3
#endif
inline namespace D5_ABI {

void registry_add(std::string_view kind, std::string_view name, const std::type_info& type,
                  std::shared_ptr<const void> entry);
std::shared_ptr<const void> registry_find(std::string_view kind, std::string_view name,
                                          const std::type_info& type);  // or null
std::vector<std::string> registry_names(std::string_view kind);         // sorted
// The plugin or module that registered it, as load_plugin() was told; empty: part of libd5 or of the program.
std::string registry_origin(std::string_view kind, std::string_view name);

}  // namespace D5_ABI

template <class Kind, class T>
struct Registration {
  explicit Registration(std::string_view name) {
    registry_add(Kind::kind, name, typeid(typename Kind::Entry),
                 std::make_shared<const typename Kind::Entry>(Kind::template entry<T>()));
  }
};

template <class Kind>
const typename Kind::Entry* find_registered(std::string_view name) {
  return static_cast<const typename Kind::Entry*>(registry_find(Kind::kind, name, typeid(typename Kind::Entry)).get());
}

// The entry, or a UsageError with the nearest legal name.
template <class Kind>
const typename Kind::Entry& registered(std::string_view name) {
  if (const auto* entry = find_registered<Kind>(name)) return *entry;
  fail_unknown("[registry]", Kind::kind, name, registry_names(Kind::kind));
}

#define D5_JOIN_(a, b) a##b
#define D5_JOIN(a, b) D5_JOIN_(a, b)
#define D5_REGISTER(registry, name, Type) \
  [[maybe_unused]] static const ::d5::Registration<::d5::registry, Type> D5_JOIN(d5_registration_, __COUNTER__) { name }

// Opens a plugin: its registration lines run; the answer is how many there were (none where it was open already). Error
// in plain words when it is of another ABI or does not load.
size_t load_plugin(const std::string& path);

}  // namespace d5
