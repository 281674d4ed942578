// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_params_upload.h"

namespace lockstep {

StepParamsUpload::StepParamsUpload(Backend& backend, int slots)
    : backend_(backend),
      device_(backend.allocate(sizeof(StepCounters), "counters of a step")),
      slots_(backend.allocate_host(std::size_t(slots) * sizeof(StepCounters),
                                   "counters of micro-batches")) {}

const StepCounters* StepParamsUpload::on_device() const {
  return backend_.captures_graphs() ? device_->as<StepCounters>() : nullptr;
}

void StepParamsUpload::send(std::size_t slot, std::uint64_t first_sample) {
  if (on_device() == nullptr) return;
  StepCounters& place = slots_->as<StepCounters>()[slot];
  place = counters_;
  place.first_sample = first_sample;
  backend_.copy_to_device(device_->data(), &place, sizeof place);
}

}  // namespace lockstep
