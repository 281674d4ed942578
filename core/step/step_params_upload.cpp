// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_params_upload.h"

#include <algorithm>
#include <cstring>

#include "core/exec/program.h"
#include "core/nn/trace.h"

namespace lockstep {
namespace {

constexpr std::size_t kCounterBytes = aligned_in_arena(sizeof(StepCounters));

}  // namespace

std::size_t StepParamsUpload::device_bytes(const DeviceTraits& traits, const Graph& graph) {
  const std::size_t inputs = input_offsets(graph).back();
  const bool joint = traits.copies_beside_compute && inputs <= kMaxInputBytes;
  return joint ? kCounterBytes + inputs : sizeof(StepCounters);
}

std::byte* StepParamsUpload::inputs_in(DeviceBuffer& place, const Graph& graph) {
  if (std::ranges::count(graph.input_names(), kTeacherName) > 0) return nullptr;
  const std::size_t bytes = kCounterBytes + input_offsets(graph).back();
  return bytes <= place.bytes() ? place.data() + kCounterBytes : nullptr;
}

StepParamsUpload::StepParamsUpload(Backend& backend,
                                   const Graph& graph,
                                   int slots,
                                   DeviceBuffer* place)
    : backend_(backend),
      own_(place != nullptr
               ? nullptr
               : backend.allocate(device_bytes(backend.traits(), graph), "counters of a step")),
      device_(place != nullptr ? place : own_.get()),
      slot_bytes_(aligned_in_arena(device_bytes(backend.traits(), graph))),
      slots_(backend.allocate_host(std::size_t(slots) * slot_bytes_, "counters of micro-batches")) {
}

const StepCounters* StepParamsUpload::on_device() const {
  return backend_.captures_graphs() ? device_->as<StepCounters>() : nullptr;
}

bool StepParamsUpload::holds(const void* input) const {
  const auto* const at = static_cast<const std::byte*>(input);
  return at >= device_->data() && at < device_->data() + device_->bytes();
}

void StepParamsUpload::send(std::size_t slot, std::uint64_t first_sample) {
  if (on_device() != nullptr) send(slot, first_sample, {});
}

void StepParamsUpload::send(std::size_t slot,
                            std::uint64_t first_sample,
                            std::span<const Input> inputs) {
  std::byte* const begin = slots_->data() + slot * slot_bytes_;
  auto& counters = *reinterpret_cast<StepCounters*>(begin);
  counters = counters_;
  counters.first_sample = first_sample;
  std::size_t end = sizeof(StepCounters);
  for (const Input& input : inputs) {
    if (input.to == nullptr || input.bytes == 0) continue;
    const auto offset = std::size_t(static_cast<std::byte*>(input.to) - device_->data());
    std::memcpy(begin + offset, input.from, input.bytes);
    end = std::max(end, offset + input.bytes);
  }
  backend_.copy_to_device(device_->data(), begin, end);
}

}  // namespace lockstep
