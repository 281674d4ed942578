// SPDX-License-Identifier: Apache-2.0
#include "core/io/sharded_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/io/strict_json.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxShards = 1000;  // each is an open file

nlohmann::json read_index(const std::string& index) {
  const FileReader file(index);
  LOCKSTEP_CHECK(file.bytes() <= kMaxIndexBytes,
                 DataError,
                 "{}: has {} bytes, expected at most {}",
                 as_written(index),
                 file.bytes(),
                 kMaxIndexBytes);
  std::string text(file.bytes(), '\0');
  file.read(index, 0, std::as_writable_bytes(std::span(text)));
  constexpr int kMaxDepth = 8;  // of "metadata", which may hold anything
  nlohmann::json parsed = parse_strict_json(text, index, kMaxDepth);
  if (!parsed.is_object() || !parsed.contains("weight_map") || !parsed["weight_map"].is_object())
    throw DataError(as_written(index) + ": no index of weights: it has no object \"weight_map\"");
  return parsed;
}

/// An index must not make a run read files that its user did not name.
fs::path shard_path(const std::string& index, const std::string& name) {
  const fs::path shard = name;
  const bool leaves = std::ranges::any_of(shard, [](const fs::path& p) { return p == ".."; });
  if (name.empty() || name.find('\0') != name.npos || shard.is_absolute() || leaves)
    throw DataError(fmt::format("{}: the shard '{}' lies outside of the index's folder",
                                as_written(index),
                                as_written(printable(name))),
                    "expected the name of a file in the folder of the index");
  return fs::path(index).parent_path() / shard;
}

}  // namespace

ShardedWeights::ShardedWeights(const std::string& index, const OpenShard& open_shard)
    : WeightSource(index) {
  const nlohmann::json parsed = read_index(index);
  std::map<std::string, std::size_t> numbers;  // of shards, by name
  std::vector<std::map<std::string_view, std::size_t>> entries;
  for (const auto& [tensor, value] : parsed["weight_map"].items()) {
    LOCKSTEP_CHECK(value.is_string(),
                   DataError,
                   "{}: the shard of {} is not a string",
                   as_written(index),
                   as_written(printable(tensor)));
    const std::string name = value.get<std::string>();
    const auto [found, is_new] = numbers.emplace(name, shards_.size());
    if (is_new) {
      LOCKSTEP_CHECK(shards_.size() < kMaxShards,
                     DataError,
                     "{}: names more than {} shards",
                     as_written(index),
                     kMaxShards);
      shards_.push_back(open_shard(shard_path(index, name).string()));
      entries.emplace_back();
      for (std::size_t i = 0; i < shards_.back()->entries().size(); ++i)
        entries.back().emplace(shards_.back()->entries()[i].name, i);
    }
    const std::size_t shard = found->second;
    const auto place = entries[shard].find(tensor);
    LOCKSTEP_CHECK(place != entries[shard].end(),
                   DataError,
                   "{}: {} is not in {}",
                   as_written(index),
                   as_written(printable(tensor)),
                   as_written(shards_[shard]->name()));
    entries_.push_back(shards_[shard]->entries()[place->second]);
    places_.emplace_back(shard, place->second);
  }
}

void ShardedWeights::read(std::size_t index, std::span<std::byte> to) const {
  const auto [shard, entry] = places_[index];
  shards_[shard]->read(entry, to);
}

}  // namespace lockstep::io
