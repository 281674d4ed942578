// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader_slot.h"

#include <algorithm>

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
  skipped = 0;
  if (options.skip_bad_samples) {
    load_good_samples(dataset, options.loaded);
  } else {
    dataset.load_batch(request.epoch, request.samples, input.data(), target.data());
  }
  if (options.loaded) options.loaded();
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

void LoaderSlot::load_good_samples(const Dataset& dataset, const std::function<void()>& loaded) {
  const std::int64_t size = dataset.size();
  const std::size_t input_bytes = dataset.spec().input.bytes(),
                    target_bytes = dataset.spec().target.bytes();
  std::byte *to_input = input.data(), *to_target = target.data();
  for (const std::int64_t sample : request.samples) {
    for (std::int64_t attempt = 0;; ++attempt) {
      try {
        dataset.load(request.epoch, (sample + attempt) % size, to_input, to_target);
        break;
      } catch (const DataError& problem) {
        if (attempt == 0 && skipped++ == 0) first_skipped = problem.what();
        if (attempt + 1 < std::min(size, Loader::kMostSkippedInARow)) continue;
        throw DataError(
            fmt::format("{} samples in a row are bad; the last: {}", attempt + 1, problem.what()),
            problem.hint());
      }
    }
    if (loaded) loaded();
    to_input += input_bytes;
    to_target += target_bytes;
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
