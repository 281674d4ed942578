// SPDX-License-Identifier: Apache-2.0
#include "core/step/weight_average.h"

namespace lockstep {

WeightAverage::WeightAverage(Backend& backend,
                             const FlatSpace& space,
                             const Ema& ema,
                             std::int64_t global_batch,
                             float* parameters)
    : backend_(backend),
      ema_(ema),
      global_batch_(global_batch),
      elems_(space.elems),
      parameters_(parameters) {
  if (ema.on())
    average_ = backend.allocate(std::size_t(elems_) * sizeof(float), "average of the weights");
}

void WeightAverage::begin() {
  if (average_) backend_.copy(average_->data(), parameters_, average_->bytes());
}

void WeightAverage::update(std::int64_t step,
                           const StepOutcome* outcome,
                           const StepCounters* counters) {
  if (!average_) return;
  backend_.update_average({.average = average_->as<float>(),
                           .values = parameters_,
                           .elems = elems_,
                           .rate = rate(step),
                           .outcome = outcome,
                           .counters = counters});
}

float WeightAverage::rate(std::int64_t step) const {
  return average_ ? ema_rate(ema_, global_batch_, std::uint64_t(step)) : 0.0f;
}

void WeightAverage::swap() {
  if (average_) backend_.swap(average_->as<float>(), parameters_, elems_);
}

std::optional<FlatArray> WeightAverage::array() {
  if (!average_) return std::nullopt;
  return FlatArray{kAverageName, average_->as<float>()};
}

}  // namespace lockstep
