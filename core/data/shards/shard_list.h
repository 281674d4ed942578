// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::data {

/// The most shards that one source may name.
constexpr std::size_t kMaxShards = std::size_t{1} << 17;

/// What a pattern names, in its order: "shard-{000000..000009}.tar" (with as many digits as the
/// first number has), "{a,b}.tar", several of them in one pattern; a name without braces is itself.
/// Throws ConfigError: braces that do not close or hold neither, more than kMaxShards names.
std::vector<std::string> expand_braces(const std::string& pattern);

/// The shards of a source; without a validation part `validation` is empty.
struct ShardList {
  std::vector<std::string> train, validation;
};

/// Of a pattern, or of a folder: in the order of their names' bytes, its .tar files, or those of
/// its folder train with those of val, validation or test; or those whose names hold the word
/// "train" with those whose names hold "val", "valid", "validation" or "test" (in this order, the
/// first that is there). Throws ConfigError as expand_braces() does; DataError: no such file or
/// folder, no shards in it.
ShardList find_shards(const std::string& source);

}  // namespace lockstep::data
