// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader_slot.h"

#include "core/base/error.h"

namespace lockstep::data {

LoaderSlot::LoaderSlot(const Dataset& dataset, const LoaderOptions& options) {
  const SampleSpec& spec = dataset.spec();
  request.samples.reserve(std::size_t(options.micro_batch));
  input.resize(std::size_t(options.micro_batch) * spec.input.bytes());
  target.resize(std::size_t(options.micro_batch) * spec.target.bytes());
  if (!options.augmentation.none()) scratch.resize(spec.input.bytes());
}

void LoaderSlot::fill(const Dataset& dataset, const LoaderOptions& options) {
  const auto count = std::int64_t(request.samples.size());
  LOCKSTEP_ASSERT(count >= 1 && count <= options.micro_batch);
  const auto size = std::uint64_t(dataset.size());
  bool inside = true;
  for (const std::int64_t sample : request.samples) inside &= std::uint64_t(sample) < size;
  LOCKSTEP_ASSERT(inside);
  dataset.load_batch(request.epoch, request.samples, input.data(), target.data());
  if (options.augmentation.none()) return;
  const Shape& image = dataset.spec().input.shape;
  std::byte* sample_input = input.data();
  for (const std::int64_t sample : request.samples) {
    augment(options.augmentation,
            image,
            options.seed,
            request.epoch,
            sample,
            sample_input,
            scratch.data());
    sample_input += scratch.size();
  }
}

LoadedBatch LoaderSlot::batch() const {
  return {input.data(), target.data(), std::int64_t(request.samples.size())};
}

std::size_t LoaderSlot::memory_bytes() const {
  return input.size() + target.size() + scratch.size() +
         request.samples.capacity() * sizeof(std::int64_t);
}

}  // namespace lockstep::data
