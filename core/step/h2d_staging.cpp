// SPDX-License-Identifier: Apache-2.0
#include "core/step/h2d_staging.h"

namespace lockstep {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

H2dStaging::H2dStaging(Backend& backend, const Graph& graph, int slots) : backend_(backend) {
  if (!backend.traits().copies_beside_compute) return;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < graph.input_names().size(); ++i) {
    const std::size_t input = graph.value(graph.input_value(int(i))).type.bytes();
    bytes += input;
    slot_bytes_ += padded(input);
  }
  if (bytes < kMinBytes) return;
  memory_ = backend.allocate(std::size_t(slots) * slot_bytes_, "micro-batches on their way");
  for (int slot = 0; slot < slots; ++slot) arrived_.push_back(backend.make_event());
}

void H2dStaging::copy(std::size_t slot, std::array<Copy, 2> inputs) {
  if (memory_ == nullptr || padded(inputs[0].bytes) + inputs[1].bytes > slot_bytes_) {
    for (const Copy& input : inputs) backend_.copy_to_device(input.to, input.from, input.bytes);
    return;
  }
  std::byte* const begin = memory_->data() + slot * slot_bytes_;
  const std::array<std::byte*, 2> places{begin, begin + padded(inputs[0].bytes)};
  {
    const StreamScope scope(backend_, DeviceStream::copies);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      backend_.copy_to_device(places[i], inputs[i].from, inputs[i].bytes);
    backend_.record(*arrived_[slot]);
  }
  backend_.wait_for(*arrived_[slot]);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    backend_.copy(inputs[i].to, places[i], inputs[i].bytes);
}

}  // namespace lockstep
