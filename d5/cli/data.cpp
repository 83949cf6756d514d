// SPDX-License-Identifier: Apache-2.0
// d5 data: what a data set holds, whether it is whole, the same samples in another container, fetching.
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "d5/bench/data_bias.hpp"
#include "d5/cli/command.hpp"
#include "d5/datasets/classes.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/fetch.hpp"
#include "d5/datasets/generator.hpp"
#include "d5/datasets/named.hpp"
#include "d5/datasets/views.hpp"

namespace d5 {
namespace {

using Json = nlohmann::ordered_json;

struct DataFlags {
  std::string source, folder, container, to, target, fit = "resize", on_error = "fail";
  std::vector<std::string> options, target_options;
  int64_t size = -1, first = -1;
  bool json = false;
};

// What the user named: a registered set, or a file or folder.
struct Opened {
  std::shared_ptr<const Dataset> dataset;
  std::string about, container, part;  // part: of a set that has several
};

Opened open_source(const DataFlags& flags) {
  require_set_or_file(flags.source);
  Opened opened;
  Attributes options;
  if (const DatasetEntry* entry = find_registered<datasets>(flags.source)) {
    for (const std::string& option : flags.options) set_option(options, option, entry->options, "[data]");
    opened = {open_dataset(flags.source, data_folder(flags.folder), options), entry->about, "", ""};
    const auto part = std::ranges::find(entry->options, "part", &DataOption::name);
    if (part != entry->options.end()) opened.part = options.text("part", to_string(part->otherwise));
  } else {
    opened.container = flags.container.empty() ? guess_container(flags.source) : flags.container;
    const ContainerEntry& format = container(opened.container);
    for (const std::string& option : flags.options) set_option(options, option, format.options, "[data]");
    opened.dataset = open_container(opened.container, flags.source, options);
    opened.about = format.about;
  }
  if (flags.size >= 0) {
    if (flags.fit != "resize" && flags.fit != "crop")
      throw UsageError("[data] --fit is '{}'; legal: resize, crop", flags.fit);
    opened.dataset =
        decoded(opened.dataset, {.height = flags.size, .width = flags.size, .resize = flags.fit == "resize"});
  }
  return opened;
}

std::string spec(const Field& field) {
  std::string text = fmt::format("{}[{}]", name(field.dtype), field.shape ? to_string(*field.shape) : "any");
  if (field.classes) text += fmt::format(", {} classes", *field.classes);
  return text;
}

// Names of files and members may be any bytes.
void print_line(const Json& object) {
  std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

int info(const DataFlags& flags) {
  const Opened opened = open_source(flags);
  const Dataset& set = *opened.dataset;
  const auto* generated = dynamic_cast<const Generator*>(&set);
  const std::optional<Generator::Optimum> optimum = generated ? generated->optimum() : std::nullopt;
  if (flags.json) {
    Json fields = Json::array();
    for (const Field& field : set.fields()) {
      fields.push_back({{"name", field.name}, {"dtype", name(field.dtype)}});
      fields.back()["shape"] = field.shape ? Json(field.shape->sizes()) : Json();
      if (field.classes) fields.back()["classes"] = *field.classes;
    }
    Json object{{"name", flags.source}, {"about", opened.about}, {"samples", set.size()}, {"fields", fields}};
    if (!opened.container.empty()) object["container"] = opened.container;
    if (set.size() > 0) object["first"] = set.where(0);
    if (optimum) object["optimum"] = {{"metric", optimum->metric}, {"value", optimum->value}, {"why", optimum->why}};
    print_line(object);
    return exit_passed;
  }
  fmt::print("{}: {}\n", flags.source, opened.about);
  if (!opened.container.empty()) fmt::print("container  {}\n", opened.container);
  fmt::print("samples    {}\n", set.size());
  for (const Field& field : set.fields()) fmt::print("field      {:<10} {}\n", field.name, spec(field));
  if (set.size() > 0) fmt::print("first      {}\n", set.where(0));
  if (optimum) fmt::print("optimum    {} {:.6g}: {}\n", optimum->metric, optimum->value, optimum->why);
  return exit_passed;
}

// "classes 0 to 9: 5421 to 6742 samples each; chi-square 283.2 against equal shares, p = 1e-55"
std::string summary(const ClassBias& bias) {
  const auto [least, most] = std::ranges::minmax(bias.counts);
  return fmt::format("classes 0 to {}: {} to {} samples each; chi-square {:.4g} against equal shares, p = {:.2g}",
                     bias.counts.size() - 1, least, most, bias.chi_square, bias.p);
}

// Files against published sums, then every sample is read once. What is found goes into the report.
bool verify_into(Json& report, const DataFlags& flags) {
  bool good = true;
  if (const DatasetEntry* entry = find_registered<datasets>(flags.source)) {
    Attributes options;
    for (const std::string& option : flags.options) set_option(options, option, entry->options, "[data]");
    for (const FileVerdict& verdict : verify_files(flags.source, data_folder(flags.folder), options)) {
      good = good && verdict.good;
      report["files"].push_back({{"path", verdict.path}, {"good", verdict.good}, {"note", verdict.note}});
      if (!flags.json) fmt::print("{:<4} {}: {}\n", verdict.good ? "ok" : "BAD", verdict.path, verdict.note);
    }
  }
  const Opened opened = open_source(flags);
  const Dataset& set = *opened.dataset;
  if (set.size() == 0) throw Error("[data] {} holds no samples", flags.source);
  std::string damage;
  try {
    set.verify();
  } catch (const Error& error) {
    damage = error.what();
  }
  Index broken = 0;
  double bytes = 0;
  std::string first;
  const std::optional<size_t> label = class_field(set.fields());
  std::vector<Index> counts(label ? static_cast<size_t>(*set.fields()[*label].classes) : 0);
  for (Index i = 0; i < set.size(); ++i) {
    try {
      const Sample sample = set.at(i);
      for (const Tensor& tensor : sample) bytes += static_cast<double>(tensor.bytes());
      if (label) count_classes(sample[*label], counts);
    } catch (const SampleError& error) {
      if (broken++ == 0) first = error.what();
    }
  }
  good = good && broken == 0 && damage.empty();
  std::optional<ClassBias> bias;
  if (label && broken < set.size()) bias = class_bias(std::move(counts));
  if (flags.json) {
    report.update(
        Json{{"samples", set.size()}, {"broken", broken}, {"first", first}, {"bytes", bytes}, {"good", good}});
    if (!damage.empty()) report["damage"] = damage;
    if (bias) report["classes"] = {{"counts", bias->counts}, {"chi_square", bias->chi_square}, {"p", bias->p}};
  } else {
    if (!damage.empty()) fmt::print("BAD  {}\n", damage);
    fmt::print("{:<4} {} samples{} read, {:.4g} MB, {} broken{}\n", broken ? "BAD" : "ok", set.size(),
               opened.part.empty() ? "" : " of part=" + opened.part, bytes * 1e-6, broken,
               broken ? "; the first: " + first : "");
    if (bias) fmt::print("     {}\n", summary(*bias));
  }
  return good;
}

int verify(const DataFlags& flags) {
  Json report{{"name", flags.source}, {"files", Json::array()}};
  bool good = false;
  try {
    good = verify_into(report, flags);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {  // a set that cannot be opened
    if (!flags.json) throw;
    report.update(Json{{"error", error.what()}, {"good", false}});
  }
  if (flags.json) print_line(report);
  return good ? exit_passed : exit_failed;
}

// Those that can be read; what the others say goes to `skipped`. Reads each once.
std::shared_ptr<const Dataset> readable(const std::shared_ptr<const Dataset>& set, std::vector<std::string>& skipped) {
  std::vector<Index> good;
  for (Index i = 0; i < set->size(); ++i) try {
      set->at(i);
      good.push_back(i);
    } catch (const SampleError& error) {
      skipped.emplace_back(error.what());
    }
  if (good.empty() && !skipped.empty()) throw Error("[data] no sample can be read; the first: {}", skipped.front());
  return subset(set, std::move(good));
}

int convert(const DataFlags& flags) {
  if (flags.on_error != "fail" && flags.on_error != "skip")
    throw UsageError("[data] --on-error is '{}'; legal: fail, skip", flags.on_error);
  std::shared_ptr<const Dataset> set = open_source(flags).dataset;
  if (flags.first >= 0) set = range(set, 0, std::min(flags.first, set->size()));
  std::vector<std::string> skipped;
  if (flags.on_error == "skip") set = readable(set, skipped);
  const std::string to = flags.to.empty() ? guess_container(flags.target) : flags.to;
  const ContainerEntry& entry = container(to);
  Attributes options;
  for (const std::string& option : flags.target_options) set_option(options, option, entry.options, "[data]");
  write_container(to, *set, flags.target, options);
  if (flags.json) {
    Json object{{"name", flags.source}, {"target", flags.target}, {"container", to}, {"samples", set->size()}};
    object["skipped"] = skipped;
    print_line(object);
    return exit_passed;
  }
  for (const std::string& reason : skipped) fmt::print(stderr, "skipped: {}\n", reason);
  fmt::print("{} samples in {} ({}){}\n", set->size(), flags.target, to,
             skipped.empty() ? "" : fmt::format("; {} skipped", skipped.size()));
  return exit_passed;
}

int fetch(const DataFlags& flags) {
  if (registered<datasets>(flags.source).files.empty()) {
    fmt::print("{} is computed when it is read: there is nothing to fetch\n", flags.source);
    return exit_passed;
  }
  const std::string folder = data_folder(flags.folder);
  fetch_dataset(flags.source, folder, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  flags.json ? print_line(Json{{"name", flags.source}, {"folder", folder}})
             : fmt::print("{} is in {}\n", flags.source, folder);
  return exit_passed;
}

void add_source(CLI::App& command, DataFlags& flags, const char* what) {
  command.add_option("set", flags.source, what)->required();
  command.add_option("--data", flags.folder, "Folder of named sets [D5_DATA, else the user's cache]");
}

void add_reading(CLI::App& command, DataFlags& flags) {
  add_source(command, flags, "A named set (d5 list datasets), a file, a folder, or a pattern with * for shards");
  command.add_option("--container", flags.container, "How a file is read (d5 list containers) [by its name]");
  command.add_option("--option", flags.options, "NAME=VALUE of the set or container, such as part=test; repeatable")
      ->allow_extra_args(false);
  command.add_option("--size", flags.size, "Decode pictures to this many pixels a side; 0: as stored");
  command.add_option("--fit", flags.fit, "resize: the shorter side is scaled to fit; crop: pixels as stored")
      ->capture_default_str();
}

}  // namespace

RunCommand add_data(CLI::App& program) {
  auto flags = std::make_shared<DataFlags>();
  CLI::App* command = program.add_subcommand("data", "Data sets: info, verify, convert, fetch, bench, storage");
  command->require_subcommand(1);
  CLI::App* show = command->add_subcommand("info", "Samples, fields, classes");
  add_reading(*show, *flags);
  show->add_flag("--json", flags->json, "One object");
  CLI::App* check = command->add_subcommand("verify", "Compare files with published checksums, then read every sample");
  add_reading(*check, *flags);
  check->add_flag("--json", flags->json, "One object");
  CLI::App* change = command->add_subcommand("convert", "Write the same samples in another container");
  add_reading(*change, *flags);
  change->add_option("target", flags->target, "The file or folder to write")->required();
  change->add_option("--to", flags->to, "Its container [by its name]");
  change->add_option("--to-option", flags->target_options, "NAME=VALUE of that container; repeatable")
      ->allow_extra_args(false);
  change->add_option("--first", flags->first, "Only so many samples");
  change
      ->add_option("--on-error", flags->on_error,
                   "fail, or skip: samples that cannot be read are left out, counted and named")
      ->capture_default_str();
  change->add_flag("--json", flags->json, "One object");
  CLI::App* get = command->add_subcommand("fetch", "Fetch the files of a named set by HTTPS, checked and resumable");
  add_source(*get, *flags, "A named set (d5 list datasets)");
  get->add_flag("--json", flags->json, "One object");
  const RunCommand bench = add_data_bench(*command), storage = add_data_storage(*command);
  command->footer("Example: d5 data convert cifar-10 cifar.tar --option part=test --first 1000");
  return [=] {
    if (show->parsed()) return info(*flags);
    if (check->parsed()) return verify(*flags);
    if (change->parsed()) return convert(*flags);
    if (command->got_subcommand("bench")) return bench();
    if (command->got_subcommand("storage")) return storage();
    return fetch(*flags);
  };
}

}  // namespace d5
