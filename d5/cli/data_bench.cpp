// SPDX-License-Identifier: Apache-2.0
// d5 data bench: what the input pipeline delivers. Every field of a case is an option, every option an axis.
#include <map>

#include "d5/bench/data_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

// In the order of the table's columns: what is compared varies fastest.
const std::vector<std::pair<std::string, std::string>> field_help{
    {"access", "ordered, shuffle, choice, weighted (every class equally often)"},
    {"batch", "samples of a batch"},
    {"threads", "that read; the child is pinned to as many cores"},
    {"processes", "that read at once, each its share of the samples and with so many threads"},
    {"ahead", "batches that are read ahead"},
    {"cache", "hot or cold: the kernel's page cache of the files"},
    {"augment", "steps and their values: 'crop padding=4 + flip + normalise mean=0.5'"},
    {"options", "of the set or container: 'part=test;size=1000'"},
    {"samples", "only so many; -1: all"},
    {"pixels", "decode pictures to this many a side; -1: leave them as they are, 0: as stored"},
    {"fit", "resize (the shorter side is scaled to fit) or crop (the middle, pixels as stored)"},
    {"data", "folder of named sets [D5_DATA, else the user's cache]"},
    {"seed", "of the order and the augmentations"},
    {"on_error", "fail, or skip: samples that cannot be read are left out and counted"},
    {"container", "how files are read (d5 list containers) [by their names]"},
    {"decoder", "how the store holds pictures: jpeg, png, raw, none (pixels) [as the set does]"},
    {"store", "write the samples into this container first, and read them from there"},
    {"path", "folders for the store: disks, shared file systems [the user's cache]"},
};

struct BenchFlags : RunFlags {
  std::string sets = "generated-images";
  std::map<std::string, std::string> fields;
};

}  // namespace

RunCommand add_data_bench(CLI::App& data) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      data.add_subcommand("bench", "What the loader delivers, against what reading costs and the storage gives");
  command
      ->add_option(
          "dataset", flags->sets,
          "Sets by name, files or folders, separated by commas; the first is what the others are compared with")
      ->capture_default_str();
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  add_run_flags(*command, *flags);
  command->footer(
      "Example: d5 data bench generated-images --access ordered,shuffle --batch 32,256 --threads 1,2\n"
      "         d5 data bench cifar-10 --store raw,tar,tfrecord,hdf5 --path /local/scratch,/shared --access shuffle\n"
      "         d5 data bench cifar-10 --store folder,tar --decoder jpeg,png,raw --samples 5000");
  return [flags] {
    Recipe recipe{.name = "data", .kind = "data"};
    for (const auto& [field, about] : field_help)
      if (!flags->fields[field].empty()) recipe.axes.push_back({field, parse_values(flags->fields[field])});
    recipe.axes.push_back({"dataset", parse_values(flags->sets)});
    return execute(recipe, *flags);
  };
}

}  // namespace d5
