// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_algorithm.hpp"

#include "d5/backends/backend.hpp"
#include "d5/bench/progress.hpp"
#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/distributed/tuned.hpp"

namespace d5 {

using Json = nlohmann::json;

std::vector<std::string> algorithm_choices() {
  Scratch scratch;
  const auto alone = thread_transports(1, 0).front();
  const Ranks ranks(*alone, scratch, 0);
  std::vector<std::string> names = registry_names(algorithms::kind);
  std::erase_if(names, [&](const std::string& name) {  // whether there is a library is said when it is run
    return name != "library" && registered<algorithms>(name)->why_not({.collective = Collective::allreduce}, ranks);
  });
  names.push_back("auto");
  return names;
}

bool sends_by_library(const Json& chosen) {
  return std::ranges::any_of(chosen.at("used"), [](const Json& row) { return row.at("algorithm") == "library"; });
}

Json choose_algorithm(const Json& fields, const ParameterSet& set, Communicator& communicator) {
  const std::string asked = fields.at("algorithm");
  Json said = {{"asked", asked}};
  if (asked == "auto" && communicator.size() > 1) {
    if (communicator.rank() == 0) report_progress("which all-reduce for which size", 0);
    const DType dtype = set.compute_dtype();
    const Tuned tuned =
        choose_tuned(communicator, Collective::allreduce, dtype, sizes_to_tune(storage_bytes(dtype, set.elements())),
                     open_communicator(fields.at("communicator")).about, Timing::missing);
    said.update({{"timed_sizes", tuned.timed}, {"seconds", tuned.seconds}, {"table", tuned.file}});
  } else if (asked != "" && asked != "auto") {
    for (const DType dtype : {set.compute_dtype(), DType::f32, DType::f64})  // gradients, parameters, sums of tests
      if (const auto reason = communicator.why_not(
              {.collective = Collective::allreduce, .count = 1, .dtype = dtype, .algorithm = asked}))
        throw CannotRun(fmt::format("[train] algorithm {}: {}", asked, *reason));
    communicator.choose(Collective::allreduce, {{0, asked}});
  }
  for (const AlgorithmChoice& row : communicator.choices(Collective::allreduce))
    said["used"].push_back({{"from_bytes", row.from_bytes}, {"algorithm", row.algorithm}});
  return said;
}

}  // namespace d5
