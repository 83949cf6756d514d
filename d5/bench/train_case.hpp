// SPDX-License-Identifier: Apache-2.0
// The fields of a case of level 2, and the training they describe.
#pragma once

#include "d5/bench/fields.hpp"
#include "d5/training/trainer.hpp"

namespace d5 {

const std::vector<CaseField>& train_fields();  // every case of level 2 has them

// "adam:learning_rate=0.001:beta1=0.9": a name and its values, separated by colons.
struct NamedValues {
  std::string name;
  std::vector<std::string> values;  // "beta1=0.9"
};
NamedValues parse_named_values(const std::string& text);
// The text of {"name": "adam", "learning_rate": 0.001}, as a recipe may write it; text stays text.
std::string named_values_text(const Json& value);

OptimizerSettings optimizer_of(const Json& fields);
// Why an optimizer of a framework cannot be had here: the reason why its backend is off.
std::optional<std::string> why_no_optimizer(const Json& fields);
ScheduleSettings schedule_of(const Json& fields);
struct SchemeSettings {
  std::string name;
  Attributes values;  // as given; the defaults of the others are the scheme's
};
SchemeSettings scheme_of(const Json& fields);  // where none is named: single, of several ranks dsgd
Index batch_of_all_ranks(const Json& fields);  // samples of a step
std::string loss_of_case(const Json& fields);  // the field, else the network's own, else the task's
std::string task_of_case(const Json& fields);

// Where the data is not there and `fixture` is set, a few random samples of the right sizes stand in for it.
struct TrainingCase {
  TrainingSettings settings;
  NetworkOfSize discriminator;    // of task gan, whose network is the generator
  std::string data_note;          // of a fixture: why
  std::string resume_note;        // why a training that was to go on did not
  std::optional<double> optimum;  // the best quality that is possible, where the data says so
  std::string optimum_why;
};
TrainingCase training_case(const Json& fields, bool fixture);

// A network of the case, without its loss, in the form that the mode asks for.
Graph bare_network(const Json& fields, const std::string& network, Index samples, Mode);

Json train_identity(const Json& fields);                       // what a checkpoint must agree in
std::string checkpoint_file(const Json& fields, Index ranks);  // in the folder that the field names; empty: none
// Where the baseline lies that this case is compared with (training/trajectory.hpp): one folder for all cases that
// begin with the same weights and see the same batches, in the folder that the field names. Empty: none is wanted.
std::string trajectory_folder(const Json& fields);
Json trajectory_runner(const Json& fields);  // the fields in which such cases may differ
// The trained network as ONNX with its normalisation inside, or as .npz: by the end of the name.
void export_trained(const Json& fields, const TrainingSettings&, const ParameterSet&, const std::string& file);
void check_export(const std::string& file);  // Error where it cannot be written
// The same of a checkpoint, also of several ranks; as .npz all its sections, and `about` as the bytes of its JSON.
void export_checkpoint(const std::string& checkpoint, const std::string& file);

}  // namespace d5
