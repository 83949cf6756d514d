// SPDX-License-Identifier: Apache-2.0
// The training set and the test set of a case, as the fields name them.
#pragma once

#include "d5/bench/fields.hpp"
#include "d5/datasets/augmentation.hpp"
#include "d5/graph/graph.hpp"

namespace d5 {

struct TrainData {
  std::shared_ptr<const Augmented> train, test;
};
// Sets with parts are opened twice; of others the last `test_share` of the samples is the test, unless test_dataset
// names another set. Pixels in u8 become f32 (normalise). Error where files are not there.
TrainData open_train_data(const Json& fields);

// Random samples that fit the network (with its loss): to see that a recipe runs where its data is not.
TrainData fixture_data(const Graph& with_loss, Index samples, uint64_t seed);

// Mean and deviation that `normalise` names, 0 and 1 otherwise; one value or one for each channel.
struct Normalisation {
  std::vector<double> mean{0.0}, deviation{1.0};
};
Normalisation normalisation_of(const Json& fields);

}  // namespace d5
