// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Files up to so many bytes are read whole.
constexpr std::uint64_t kWholeSampleBytes = std::uint64_t{64} << 20;
/// Of larger files: the first, the last, and so many more blocks.
constexpr int kSampledBlocks = 64;
constexpr std::uint64_t kSampledBlockBytes = 64 << 10;

/// The sample of one file; empty where there is none: whoever trains on it will say so. Throws
/// DataError where it cannot be read, as a hash of a part would look like another content.
ContentSample sample_file(const std::string& path, std::uint64_t seed);

/// Of a source of many files, so many are asked for their size and time, all where there are no
/// more...
constexpr std::int64_t kSizedFiles = 1 << 17;
/// ... and so many of those are read as sample_file() does.
constexpr std::int64_t kReadFiles = 256;

/// The sample of `count` files named by `path`, which is called by several threads. One that is not
/// there counts as empty. Throws as sample_file().
ContentSample sample_files(std::int64_t count,
                           const std::function<std::string(std::int64_t)>& path,
                           std::uint64_t seed);

}  // namespace lockstep::data
