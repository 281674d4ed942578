// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/load_request.h"

namespace lockstep::data {

/// Throws ConfigError: what the options do to images cannot be done to these samples; see Loader's
/// constructor.
void check_images(const Dataset& dataset, const LoaderOptions& options);

/// Memory for one micro-batch, and the request that fills it. Used by one thread at a time.
struct LoaderSlot {
  LoaderSlot(const Dataset& dataset, const LoaderOptions& options);

  /// Loads and augments `request`. Throws what the dataset throws, unless samples are skipped.
  void fill(const Dataset& dataset, const LoaderOptions& options);
  LoadedBatch batch() const;
  std::size_t memory_bytes() const;

  void load_one_by_one(const Dataset& dataset,
                       const SampleSpec& spec,
                       const LoaderOptions& options);
  void change(const SampleSpec& spec, const LoaderOptions& options);
  void add_mirrored(const SampleSpec& spec);

  int copy_of(std::size_t place) const {
    return request.copies.empty() ? 0 : request.copies[place];
  }

  LoadRequest request;
  std::size_t input_bytes, target_bytes;
  std::size_t loaded_input_bytes = 0, loaded_target_bytes = 0;  ///< of them, by the last fill()
  std::shared_ptr<std::byte[]> input;
  std::shared_ptr<std::byte[]> target;
  std::vector<std::byte> scratch;     ///< one sample, for augmentation
  std::vector<std::byte> zero;        ///< a pixel that the model sees as 0, for erased parts
  std::vector<std::int64_t> skipped;  ///< samples that others took the place of, in the last fill()
  std::string first_skipped;          ///< what was wrong with the first of them
  std::exception_ptr error;           ///< what happened instead of a batch
  bool mixed = false;                 ///< targets are soft_target()
  bool mirrored = false;
  bool filled = false;  ///< input and target, or error, are there for the training thread
};

}  // namespace lockstep::data
