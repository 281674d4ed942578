// SPDX-License-Identifier: Apache-2.0
#include "core/step/weight_average.h"

namespace lockstep {

WeightAverage::WeightAverage(Backend& backend,
                             const Ownership& ownership,
                             OwnerExchange* owners,
                             const Ema& ema,
                             std::int64_t global_batch,
                             float* parameters)
    : backend_(backend),
      ema_(ema),
      global_batch_(global_batch),
      ownership_(ownership),
      owners_(owners),
      parameters_(parameters) {
  if (ema.on())
    average_ =
        backend.allocate(std::size_t(ownership.elems()) * sizeof(float), "average of the weights");
}

void WeightAverage::begin() {
  if (!average_) return;
  for (const OwnedStretch& own : ownership_.stretches())
    backend_.copy(average_->as<float>() + own.local,
                  parameters_ + own.offset,
                  std::size_t(own.elems) * sizeof(float));
}

void WeightAverage::update(std::int64_t step,
                           const StepOutcome* outcome,
                           const StepCounters* counters) {
  if (!average_) return;
  for (const OwnedStretch& own : ownership_.stretches())
    backend_.update_average({.average = average_->as<float>() + own.local,
                             .values = parameters_ + own.offset,
                             .elems = own.elems,
                             .rate = rate(step),
                             .outcome = outcome,
                             .counters = counters});
}

float WeightAverage::rate(std::int64_t step) const {
  return average_ ? ema_rate(ema_, global_batch_, std::uint64_t(step)) : 0.0f;
}

void WeightAverage::swap() {
  if (!average_) return;
  for (const OwnedStretch& own : ownership_.stretches())
    backend_.swap(average_->as<float>() + own.local, parameters_ + own.offset, own.elems);
  if (owners_ != nullptr) owners_->gather_weights(parameters_);
}

std::optional<FlatArray> WeightAverage::array() {
  if (!average_) return std::nullopt;
  return FlatArray{kAverageName, average_->as<float>(), /*owned=*/owners_ != nullptr};
}

}  // namespace lockstep
