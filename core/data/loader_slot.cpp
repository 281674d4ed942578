// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader_slot.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/augment/augment_image.h"
#include "core/data/augment/mix.h"

namespace lockstep::data {

namespace {

std::shared_ptr<std::byte[]> memory(const LoaderOptions& options, std::size_t bytes) {
  if (options.allocate) return options.allocate(bytes);
  return std::shared_ptr<std::byte[]>(new std::byte[bytes]());
}

}  // namespace

LoaderSlot::LoaderSlot(const Dataset& dataset, const LoaderOptions& options)
    : input_bytes(std::size_t(options.micro_batch) * dataset.spec().input.bytes()),
      target_bytes(std::size_t(options.micro_batch) *
                   target_type(dataset.spec(), options.augmentation).bytes()),
      input(memory(options, input_bytes)),
      target(memory(options, target_bytes)),
      mixed(options.augmentation.mixes()) {
  request.samples.reserve(std::size_t(options.micro_batch));
  if (options.augmentation.none()) return;
  scratch.resize(dataset.spec().input.bytes());
  zero = zero_pixel(dataset.spec());
}

void LoaderSlot::fill(const Dataset& dataset, const LoaderOptions& options) {
  const auto count = std::int64_t(request.samples.size());
  LOCKSTEP_ASSERT(count >= 1 && count <= options.micro_batch);
  const auto size = std::uint64_t(dataset.size());
  bool inside = true;
  for (const std::int64_t sample : request.samples) inside &= std::uint64_t(sample) < size;
  LOCKSTEP_ASSERT(inside);
  skipped.clear();
  if (options.skip_bad_samples) {
    load_good_samples(dataset, options);
  } else {
    dataset.load_batch(request.epoch, request.samples, input.get(), target.get());
  }
  if (options.loaded) options.loaded();
  if (options.augmentation.none()) return;
  const Shape& image = dataset.spec().input.shape;
  std::byte* sample_input = input.get();
  for (const std::int64_t sample : request.samples) {
    augment(options.augmentation,
            image,
            zero,
            options.seed,
            request.epoch,
            sample,
            sample_input,
            scratch.data());
    sample_input += scratch.size();
  }
  if (!mixed) return;
  const Mix mix =
      draw_mix(options.augmentation, image, options.seed, request.epoch, request.position);
  mix_images(mix, image, count, input.get(), scratch.data());
  mix_targets(mix, count, target.get());
}

void LoaderSlot::load_good_samples(const Dataset& dataset, const LoaderOptions& options) {
  const std::int64_t size = dataset.size();
  const std::size_t input_stride = dataset.spec().input.bytes(),
                    target_stride = dataset.spec().target.bytes();
  std::byte *to_input = input.get(), *to_target = target.get();
  for (const std::int64_t sample : request.samples) {
    std::string what;  // is wrong with it
    for (std::int64_t attempt = 0;; ++attempt) {
      try {
        dataset.load(request.epoch, (sample + attempt) % size, to_input, to_target);
        break;
      } catch (const DataError& problem) {
        if (attempt == 0) {
          what = problem.what();
          if (skipped.empty()) first_skipped = what;
          skipped.push_back(sample);
        }
        if (attempt + 1 < std::min(size, LoaderOptions::kMaxSkippedInARow)) continue;
        throw DataError(
            fmt::format(
                "{} samples in a row are bad; the first: {}", attempt + 1, as_written(what)),
            as_written(problem.hint()));
      }
    }
    if (options.loaded) options.loaded();
    to_input += input_stride;
    to_target += target_stride;
  }
}

LoadedBatch LoaderSlot::batch() const {
  return {input.get(), target.get(), std::int64_t(request.samples.size()), mixed};
}

std::size_t LoaderSlot::memory_bytes() const {
  return input_bytes + target_bytes + scratch.size() +
         request.samples.capacity() * sizeof(std::int64_t);
}

}  // namespace lockstep::data
