// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/data/sources.h"

namespace lockstep::data {

struct PackOptions {
  int short_side = 256;  ///< larger images are shrunk to it, smaller ones stay
  int threads = 1;
  std::int64_t max_pixels = kDefaultMaxPixels;  ///< files with more are refused
  bool skip_bad_samples = false;                ///< skip what cannot be decoded
  /// Told now and then how many samples are done.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

struct PackReport {
  std::int64_t train_samples = 0, validation_samples = 0;
  std::int64_t skipped = 0;
  std::string first_skipped;  ///< what was wrong with the first of them
  int classes = 0;
  std::uint64_t bytes = 0;  ///< of the file
};

/// Writes the image folder `folder` (see images() for its layouts) as one file for packed(). The
/// file's bytes depend on the images and `short_side` alone. It is written next to `file` under
/// another name and takes its place when it is complete and on disk; on any error nothing is left.
/// Throws DataError as images() and its load() do, or where skipping leaves a part empty;
/// EnvironmentError where the file cannot be written; ConfigError: options out of range.
PackReport pack_images(const std::string& folder,
                       const std::string& file,
                       const PackOptions& options);

}  // namespace lockstep::data
