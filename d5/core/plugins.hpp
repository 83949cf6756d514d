// SPDX-License-Identifier: Apache-2.0
// The plugins of this run: what a user named (--plugin, --source, D5_PLUGINS) and which library was opened for it.
// Their libraries stand in the variable D5_PLUGINS, separated by ':', so that every child opens the same ones.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace d5 {

struct Plugin {
  std::string option;   // "--plugin" or "--source"
  std::string given;    // the file as the user named it
  std::string library;  // what is opened: the file itself, or what was compiled from it
  std::string hash;     // of the file's contents
};

// Opens it. The answer is how many things it registered. UsageError where it does not load, is of another ABI, or
// crashes or hangs while it is opened: that is tried in another process first. Once per library.
size_t open_plugin(Plugin);
const std::vector<Plugin>& opened_plugins();
void tell_children();  // D5_PLUGINS names those that were opened, and no others

// "my.cpp replaces the operator 'Relu' of deep500": every name that a plugin took over.
struct Takeover {
  std::string kind, name, text;
};
std::vector<Takeover> takeovers();

// Of libd5; modules, backends.txt and compile.txt lie in d5/ beside it.
std::filesystem::path library_folder();

std::vector<std::string> plugins_of_environment();  // D5_PLUGINS as it is

std::string content_hash(std::string_view contents);  // 32 hexadecimal digits: FNV-1a of 128 bits
std::string file_contents(const std::string& path);   // UsageError where it cannot be read

}  // namespace d5
