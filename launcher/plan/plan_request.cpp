// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan_request.h"

#include <utility>

#include "launcher/settings/class_weights.h"
#include "launcher/settings/open_data.h"
#include "lockstep/zoo.h"

namespace lockstep {

TrainOptions training_options(const TrainFlags& flags) {
  TrainOptions options = flags.options;
  options.augmentation.resized_crop = 0;
  return options;
}

PlanRequest request_for(TrainFlags& flags, data::DataSplit data, int ranks, bool on_host) {
  PlanRequest request;
  request.data = std::move(data);
  request.options = training_options(flags);
  const data::SampleSpec& samples = request.data.train->spec();
  resolve_class_weights(flags, *request.data.train);
  nn::ModelSpec spec = flags.model;
  spec.outputs = samples.classes > 0 ? samples.classes : samples.target.elems();
  request.model = nn::make_model(spec);
  request.loss = make_loss(flags, samples);
  request.ranks = ranks;
  request.on_host = on_host;
  return request;
}

}  // namespace lockstep
