// SPDX-License-Identifier: Apache-2.0
// d5 train: level 2. A recipe, or networks with every field of a case as an option, every option an axis.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "d5/bench/net_case.hpp"
#include "d5/bench/train_case.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/execute.hpp"
#include "d5/cli/open_network.hpp"
#include "d5/cli/plugins.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

struct TrainFlags : RunFlags {
  std::string what;
  std::map<std::string, std::string> fields;
  std::string launcher;
  bool resume = false;
};

// In the order of the table's columns: seeds of one configuration follow each other.
const std::vector<std::pair<std::string, std::string>> field_help{
    {"dataset", "a set by name, a file or folder (see 'd5 list datasets')"},
    {"options", "of the set: 'size=1000;classes=10'"},
    {"test_dataset", "another set to test on [the set's own test part]"},
    {"test_share", "of a set without parts: its last samples are the test"},
    {"data", "folder of named sets [D5_DATA, else the user's cache]"},
    {"samples", "train on only so many; -1: all"},
    {"test_samples", "test on only so many; -1: all"},
    {"pixels", "decode pictures to this many a side"},
    {"fit", "resize or crop, with --pixels"},
    {"augment", "steps of the training set: 'crop padding=4 + flip'"},
    {"test_augment", "steps of the test set: 'centre-crop'"},
    {"normalise", "mean and deviation of pixels taken from 0 to 1: 'mean=0.1307 deviation=0.3081'"},
    {"sampler",
     "shuffle, ordered, choice, weighted (every class equally often), or a plugin's (see 'd5 list samplers')"},
    {"loader_threads", "that read ahead; 0: the trainer reads itself"},
    {"on_error",
     "fail, or skip: others take the places of training samples that cannot be read, a test goes without; counted"},
    {"task", "classification, segmentation, language-model, regression, gan [by the network's loss]"},
    {"discriminator",
     "with task gan: the network that judges what the first one makes; sizes of the same name are shared"},
    {"loss", "cross-entropy, token-cross-entropy, mean-squared-error, binary-cross-entropy [the network's]"},
    {"schedule", "of the learning rate: 'cosine', 'step:...' (see 'd5 list schedules')"},
    {"ranks", "processes or threads that train together"},
    {"ranks_per_node", "of threads: that count as one machine; of processes: on each machine; 0: all, or evenly"},
    {"link",
     "rate of the links of an emulated cluster that is made for the case: 1gbit; of processes, one or --ranks-per-node "
     "on each node (root)"},
    {"communicator",
     "threads: ranks are threads of one process; mpi: processes that mpirun or srun starts [threads; mpi with "
     "--launcher "
     "and inside a cluster or an allocation]"},
    {"scaling", "strong: --batch is that of all ranks together; weak: of each rank"},
    {"batch", "samples of a step"},
    {"accumulate", "micro-batches of a step"},
    {"epochs", "at most"},
    {"steps", "at most; 0: as many as the epochs have"},
    {"target", "stop where the test set reaches this; runs that do not are censored"},
    {"time_limit", "stop after so many seconds"},
    {"plateau", "stop after so many epochs without a better test; 0: never"},
    {"threads", "of a child"},
    {"device", "cpu, cuda:0"},
    {"environment", "variables of the child: NAME=value;NAME=value"},
    {"dtype", "f32, or bf16 with f32 master weights"},
    {"math", "strict, tf32, bf16, winograd: what arithmetic a backend may use"},
    {"layout", "fast (the backend's own) or plain (row-major)"},
    {"kernel", "builtin, or another kernel of the backend"},
    {"deterministic", "true or false"},
    {"fallback", "error, or reference: nodes without a kernel run by plain loops"},
    {"events", "plugins that see the training go by, joined by '+'"},
    {"checkpoint", "folder for checkpoints, a file for each case"},
    {"every", "steps between checkpoints [at the end of every epoch]"},
    {"from_ranks",
     "with --resume: the checkpoint of so many ranks, where this number of ranks has none yet [the only one there is]"},
    {"restarts", "how often ranks that are lost are started again, from the last checkpoint"},
    {"elastic", "true: ranks that are left go on without a lost one, from the last checkpoint"},
    {"rank_limit", "seconds that a rank is waited for before it is taken for lost [60]"},
    {"trajectory",
     "folder: the first of several backends or optimizers is the baseline, the others are compared with it"},
    {"trajectory_every", "steps between looks at the weights"},
    {"price", "of an hour of this machine, in any currency: records then have the cost of a sample and of the target"},
    {"trace", "write a timeline of all ranks over five steps (Perfetto, Chrome); of several cases the last one's"},
    {"replay",
     "true: ranks sleep as long as rank 0 alone computed, communication is real; for more ranks than cores, nothing is "
     "learned"},
    {"export", "write the trained network: FILE.onnx (raw pixels go in) or FILE.npz"},
    {"optimizer", "name and values: adam:learning_rate=0.001:beta1=0.9 (see 'd5 list optimizers')"},
    {"algorithm",
     "of all-reduce in dsgd, compressed, mavg, easgd, dpsgd and sparcml: one of 'd5 list algorithms', or auto: as "
     "tuned here, which is done first where it was not yet [by size]"},
    {"scheme", "how ranks meet: dsgd:bucket_mb=1 [single; of several ranks dsgd] (see 'd5 list schemes')"},
    {"backend", "who computes it (see 'd5 list backends')"},
    {"seed", "of weights, order, augmentation and dropout; several: times over seeds"},
};

Recipe recipe_of(const TrainFlags& flags) {
  if (flags.what.ends_with(".toml")) {
    Recipe recipe = load_recipe(flags.what);
    if (recipe.kind != "train") throw UsageError("[train] {} is no recipe of level 2; use 'd5 run'", flags.what);
    for (const auto& [field, text] : flags.fields)
      if (!text.empty()) override_value(recipe, field, parse_values(text));
    return recipe;
  }
  Recipe recipe{.name = "train", .kind = "train"};
  std::set<std::string> common;
  for (const CaseField& field : train_fields()) common.insert(field.name);
  for (const std::string& network : split_names(flags.what)) {
    recipe.name += "-" + std::filesystem::path(network).stem().string();
    recipe.blocks.push_back({.values = {{"network", network}}});
    for (const Parameter& parameter : own_parameters(network))
      if (const auto found = flags.fields.find(parameter.name);
          found != flags.fields.end() && !found->second.empty() && !common.contains(parameter.name))
        recipe.blocks.back().axes.push_back({parameter.name, parse_values(found->second)});
  }
  for (const auto& [field, about] : field_help)
    if (const std::string& text = flags.fields.at(field); !text.empty())
      recipe.axes.push_back({field, parse_values(text)});
  return recipe;
}

}  // namespace

RunCommand add_train(CLI::App& program, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = program.add_subcommand("train", "Level 2: train networks, to an accuracy or for a time");
  command
      ->add_option("what,--network", flags->what,
                   "A recipe (.toml), or networks: ONNX files or built-in names, separated by commas")
      ->required();
  for (const auto& [field, about] : field_help)
    command->add_option(option_name(field), flags->fields[field], about)
        ->group("Case (each takes several values, separated by commas)");
  command->add_flag("--resume", flags->resume, "Go on from the checkpoints in --checkpoint, where there are some")
      ->group("How to run");
  command
      ->add_option("--launcher", flags->launcher,
                   "What starts ranks that are processes: mpirun, srun [srun inside a Slurm allocation]")
      ->check(CLI::IsMember({"mpirun", "srun"}))
      ->group("How to run");
  const bool is_chosen = !arguments.empty() && arguments[0] == "train";
  for (const auto& [field, about] : options_of_networks(is_chosen ? arguments : std::vector<std::string>()))
    if (!flags->fields.contains(field))
      command->add_option(option_name(field), flags->fields[field], about)->group("Sizes of this network [default]");
  add_plugin_options(*command);
  add_result_flags(*command, *flags);
  command->footer(
      "Example: d5 train lenet --dataset mnist --backend onednn,torch --epochs 5 --target 0.989 --seed 1,2,3,4,5,6\n"
      "         d5 train recipes/generated-images.toml --checkpoint checkpoints --resume\n"
      "         d5 train mlp --features 3072 --ranks 1,2,4 --scheme dsgd --scaling weak\n"
      "'d5 train NETWORK --help' lists the sizes of a network.");
  return [flags] {
    if (flags->resume) flags->fields["resume"] = "true";
    if (!flags->launcher.empty()) setenv("D5_LAUNCHER", flags->launcher.c_str(), 1);  // the children start the ranks
    Recipe recipe = recipe_of(*flags);
    if (flags->resume && !flags->what.ends_with(".toml")) recipe.axes.push_back({"resume", {true}});
    return execute(recipe, *flags);
  };
}

}  // namespace d5
