// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/foreign_workers.hpp"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "d5/core/plugins.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

std::vector<std::string> between_colons(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ':');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

fs::path own_folder() {
  fs::path folder;
  for (const char* data : {"../share/deep500", D5_DATA_FROM_LIBRARY}) {  // of the build folder, of an installation
    std::error_code none;
    folder = (library_folder() / data / "workers").lexically_normal();
    if (fs::exists(folder, none)) break;
  }
  return folder;
}

std::vector<fs::path> worker_folders() {
  std::vector<fs::path> folders;
  for (const std::string& folder : between_colons(variable("D5_WORKER_PATH"))) folders.push_back(fs::absolute(folder));
  folders.push_back(own_folder());
  return folders;
}

bool is_program(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none) && access(path.c_str(), X_OK) == 0;
}

fs::path on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_program(program) ? fs::path(program) : fs::path();
  for (const std::string& folder : between_colons(variable("PATH")))
    if (is_program(fs::path(folder) / program)) return fs::path(folder) / program;
  return {};
}

// The folders of packages below a prefix such as /usr: those of any Python 3, because a path does not tell the release.
std::vector<fs::path> package_folders(const fs::path& prefix) {
  std::vector<fs::path> found;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(prefix / lib, none))
      if (entry.path().filename().string().starts_with("python3"))
        for (const char* kind : {"site-packages", "dist-packages", ""}) found.push_back(entry.path() / kind);
  }
  return found;
}

// pyenv puts a script in the place of every Python, which starts that of PYENV_VERSION or of its file `version`.
fs::path behind_shim(const fs::path& python) {
  if (python.parent_path().filename() != "shims") return python;
  const fs::path root = python.parent_path().parent_path();
  std::string version = variable("PYENV_VERSION");
  if (version.empty()) std::getline(std::ifstream(root / "version"), version);
  const fs::path real = root / "versions" / version.substr(0, version.find(':')) / "bin" / python.filename();
  return is_program(real) ? real : python;
}

// Folders that .pth files name, one a line: packages installed in place, and environments that borrow from others.
std::vector<fs::path> named_folders(const fs::path& packages) {
  std::vector<fs::path> named;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(packages, none)) {
    if (entry.path().extension() != ".pth") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      if (!line.empty() && !line.starts_with('#') && !line.starts_with("import")) named.push_back(packages / line);
  }
  return named;
}

bool sees_system_packages(const fs::path& environment) {
  std::ifstream file(environment / "pyvenv.cfg");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("include-system-site-packages") && line.find("true") != std::string::npos) return true;
  return false;
}

std::string capitals(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(c)) : '_';
  return text;
}

ForeignWorker judge(const std::string& name, const std::string& about, const fs::path& program,
                    const std::vector<std::string>& packages, const std::string& install) {
  ForeignWorker worker{.status = {.name = name, .foreign = true}, .install = install};
  const auto off = [&](const std::string& reason) {
    worker.status.reason = install.empty() ? reason : reason + "; " + install;
    return worker;
  };
  if (packages.empty()) {
    if (!is_program(program)) return off(fmt::format("{} is not there or cannot be executed", program.string()));
    worker.command = {program.string(), name};
  } else {
    fs::path python;
    try {
      python = find_python(program.stem(), packages);
    } catch (const UsageError& error) {
      return off(error.what());
    }
    if (python.empty()) return off("no Python is found");
    worker.command = {python.string(), "-B", program.string(), name};  // -B: writes nothing beside the program
    const std::string others = variable("PYTHONPATH");
    worker.environment = {{"PYTHONPATH", (own_folder() / "python").string() + (others.empty() ? "" : ":" + others)}};
    for (const std::string& package : packages)
      if (!has_package(python, package)) return off(fmt::format("{} has no package '{}'", python.string(), package));
  }
  worker.status.available = true;
  worker.status.reason = packages.empty() ? about : fmt::format("{} ({})", about, worker.command.front());
  return worker;
}

std::string text_of(const toml::node& node, const std::string& what) {
  if (const auto* text = node.as_string()) return text->get();
  throw UsageError("[worker] line {}: {} is no text", node.source().begin.line, what);
}

std::vector<ForeignWorker> read_description(const fs::path& file) {
  const toml::table table = toml::parse_file(file.string());
  std::string program, install;
  std::vector<std::string> packages;
  const toml::table* names = table["backends"].as_table();
  for (const auto& [key, value] : table) {
    if (key == "program") {
      program = text_of(value, "program");
    } else if (key == "install") {
      install = text_of(value, "install");
    } else if (key == "packages" && value.is_array()) {
      for (const toml::node& package : *value.as_array()) packages.push_back(text_of(package, "a package"));
    } else if (!names || &value != names) {
      static const std::vector<std::string> legal{"program", "packages", "install", "backends"};
      fail_unknown(fmt::format("[worker] line {}:", key.source().begin.line), "key", key.str(), legal);
    }
  }
  if (program.empty() || !names || names->empty())
    throw UsageError("[worker] 'program' and at least one name under [backends] are needed");
  std::vector<ForeignWorker> workers;
  for (const auto& [name, about] : *names)
    workers.push_back(judge(std::string(name.str()), text_of(about, std::string(name.str())),
                            file.parent_path() / program, packages, install));
  return workers;
}

// A description that cannot be read is a backend that is off: the others are not its victims.
std::vector<ForeignWorker> read_or_explain(const fs::path& file) {
  std::string reason;
  try {
    return read_description(file);
  } catch (const toml::parse_error& error) {
    reason = fmt::format("line {}: {}", error.source().begin.line, error.description());
  } catch (const UsageError& error) {
    reason = error.what();
  }
  return {{.status = {.name = file.stem(), .reason = fmt::format("{}: {}", file.string(), reason), .foreign = true}}};
}

}  // namespace

bool has_package(const fs::path& named, const std::string& package) {
  const fs::path python = behind_shim(fs::absolute(named)), prefix = python.parent_path().parent_path();
  std::error_code none;
  const bool isolated = fs::exists(prefix / "pyvenv.cfg", none) && !sees_system_packages(prefix);
  std::vector<fs::path> folders = package_folders(prefix);
  const auto add = [&](const std::vector<fs::path>& more) { folders.insert(folders.end(), more.begin(), more.end()); };
  if (!isolated) {
    add(package_folders(fs::weakly_canonical(python, none).parent_path().parent_path()));
    if (const std::string home = variable("HOME"); !home.empty()) add(package_folders(fs::path(home) / ".local"));
  }
  for (size_t i = 0, count = folders.size(); i < count; ++i) add(named_folders(folders[i]));
  for (const std::string& folder : between_colons(variable("PYTHONPATH"))) folders.emplace_back(folder);
  return std::ranges::any_of(folders, [&](const fs::path& folder) {
    std::error_code error;
    return fs::exists(folder / package, error) || fs::exists(folder / (package + ".py"), error);
  });
}

fs::path find_python(const std::string& worker, const std::vector<std::string>& packages) {
  for (const std::string& name : {"D5_PYTHON_" + capitals(worker), std::string("D5_PYTHON")})
    if (const std::string value = variable(name); !value.empty()) {
      if (const fs::path python = on_path(value); !python.empty()) return python;
      throw UsageError("{} of {} cannot be executed", value, name);
    }
  const fs::path library = library_folder(), system = on_path("python3");
  std::vector<fs::path> candidates;
  for (const fs::path& build : {library / "..", library / "../.."})  // build/lib or build/asan/lib
    for (const fs::path& folder : {build / "dependencies" / worker, build / "dependencies"})
      candidates.push_back((folder / "bin/python3").lexically_normal());
  candidates.push_back(system);
  candidates.emplace_back("/usr/bin/python3");
  for (const fs::path& python : candidates)
    if (is_program(python) &&
        std::ranges::all_of(packages, [&](const std::string& package) { return has_package(python, package); }))
      return python;
  return system;
}

std::vector<ForeignWorker> foreign_workers() {
  std::vector<ForeignWorker> workers;
  for (const fs::path& folder : worker_folders()) {
    std::vector<fs::path> files;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().extension() == ".toml") files.push_back(entry.path());
    std::ranges::sort(files);
    for (const fs::path& file : files)
      for (ForeignWorker& worker : read_or_explain(file))
        if (std::ranges::none_of(workers, [&](const auto& w) { return w.status.name == worker.status.name; }))
          workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace d5
