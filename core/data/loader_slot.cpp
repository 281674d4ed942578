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

void check_images(const Dataset& dataset, const LoaderOptions& options) {
  const TensorType& input = dataset.spec().input;
  LOCKSTEP_CHECK(!options.mirror || (input.dtype == DType::u8 && input.shape.rank() == 3),
                 ConfigError,
                 "`tta` flip: expected images, u8[H, W, C], but {} has samples of {}",
                 dataset.describe(),
                 input.to_string());
  const Augmentation& augmentation = options.augmentation;
  augmentation.validate();
  if (augmentation.none()) return;
  LOCKSTEP_CHECK(augmentation.resized_crop == 0,
                 ConfigError,
                 "`augment`: {} is drawn while files are decoded; give resized-crop to the source",
                 augmentation.to_string());
  LOCKSTEP_CHECK(input.dtype == DType::u8 && input.shape.rank() == 3,
                 ConfigError,
                 "`augment`: {} needs images, u8[H, W, C], but {} has samples of {}",
                 augmentation.to_string(),
                 dataset.describe(),
                 input.to_string());
  const std::int64_t channels = input.shape[2];
  LOCKSTEP_CHECK(!augmentation.changes_pixels() || channels == 1 || channels == 3,
                 ConfigError,
                 "`augment`: {} needs images of 1 or 3 channels, but {} has samples of {}",
                 augmentation.to_string(),
                 dataset.describe(),
                 input.to_string());
  if (augmentation.mixes()) {
    check_mixed(dataset.spec());
    LOCKSTEP_CHECK(options.micro_batch >= 2,
                   ConfigError,
                   "`augment`: {} mixes the images of a micro-batch, so `micro_batch` must be 2 or "
                   "more, got {}",
                   augmentation.to_string(),
                   options.micro_batch);
  }
  for (const SampleSpec& spec : dataset.specs())
    LOCKSTEP_CHECK(
        augmentation.shift + augmentation.crop < std::min(spec.input.shape[0], spec.input.shape[1]),
        ConfigError,
        "`augment`: {} could move an image of {} out of sight; shift and crop together must "
        "be smaller than its sides",
        augmentation.to_string(),
        spec.input.to_string());
}

LoaderSlot::LoaderSlot(const Dataset& dataset, const LoaderOptions& options)
    : input_bytes(std::size_t(options.micro_batch) * dataset.spec().input.bytes() *
                  (options.mirror ? 2 : 1)),
      target_bytes(std::size_t(options.micro_batch) *
                   target_type(dataset.spec(), options.augmentation).bytes()),
      input(memory(options, input_bytes)),
      target(memory(options, target_bytes)),
      mixed(options.augmentation.mixes()),
      mirrored(options.mirror) {
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
  LOCKSTEP_ASSERT(inside &&
                  (request.copies.empty() || request.copies.size() == request.samples.size()));
  const SampleSpec& spec = dataset.specs()[dataset.spec_of(request.epoch)];
  skipped.clear();
  if (options.skip_bad_samples || !request.copies.empty()) {
    load_one_by_one(dataset, spec, options);
  } else {
    dataset.load_batch(request.epoch, request.samples, input.get(), target.get());
  }
  if (options.loaded) options.loaded();
  if (!options.augmentation.none()) change(spec, options);
  if (options.mirror) add_mirrored(spec);
  loaded_input_bytes = std::size_t(count) * spec.input.bytes() * (options.mirror ? 2 : 1);
  loaded_target_bytes = std::size_t(count) * target_type(spec, options.augmentation).bytes();
}

void LoaderSlot::change(const SampleSpec& spec, const LoaderOptions& options) {
  const Shape& image = spec.input.shape;
  std::byte* sample_input = input.get();
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    augment(options.augmentation,
            image,
            zero,
            seed_of_copy(options.seed, copy_of(i)),
            request.epoch,
            request.samples[i],
            sample_input,
            scratch.data());
    sample_input += spec.input.bytes();
  }
  if (!mixed) return;
  const auto count = std::int64_t(request.samples.size());
  const Mix mix =
      draw_mix(options.augmentation, image, options.seed, request.epoch, request.position);
  mix_images(mix, image, count, input.get(), scratch.data());
  mix_targets(mix, count, target.get());
}

void LoaderSlot::add_mirrored(const SampleSpec& spec) {
  const std::size_t bytes = spec.input.bytes(), count = request.samples.size();
  for (std::size_t i = 0; i < count; ++i)
    mirror(spec.input.shape, input.get() + i * bytes, input.get() + (count + i) * bytes);
}

void LoaderSlot::load_one_by_one(const Dataset& dataset,
                                 const SampleSpec& spec,
                                 const LoaderOptions& options) {
  const std::int64_t size = dataset.size();
  std::byte *to_input = input.get(), *to_target = target.get();
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    const std::int64_t sample = request.samples[i];
    std::string what;  // is wrong with it
    for (std::int64_t attempt = 0;; ++attempt) {
      try {
        dataset.load_copy(
            request.epoch, (sample + attempt) % size, copy_of(i), to_input, to_target);
        break;
      } catch (const DataError& problem) {
        if (!options.skip_bad_samples) throw;
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
    if (options.loaded && options.skip_bad_samples) options.loaded();
    to_input += spec.input.bytes();
    to_target += spec.target.bytes();
  }
}

LoadedBatch LoaderSlot::batch() const {
  return {.input = input.get(),
          .target = target.get(),
          .samples = std::int64_t(request.samples.size()),
          .mixed = mixed,
          .mirrored = mirrored,
          .input_bytes = loaded_input_bytes,
          .target_bytes = loaded_target_bytes};
}

std::size_t LoaderSlot::memory_bytes() const {
  return input_bytes + target_bytes + scratch.size() +
         request.samples.capacity() * sizeof(std::int64_t) +
         request.copies.capacity() * sizeof(int);
}

}  // namespace lockstep::data
