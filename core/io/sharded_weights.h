// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/io/weight_source.h"

namespace lockstep::io {

/// Weights in several files, as Hugging Face writes large models: a JSON index whose "weight_map"
/// names the file of each tensor. Tensors that the index does not name are skipped.
class ShardedWeights final : public WeightSource {
 public:
  /// Opens one file with tensors; see open_weight_file().
  using OpenShard = std::function<std::unique_ptr<WeightSource>(const std::string& file)>;

  /// Throws DataError: the index is malformed; a shard lies outside of its folder, is missing, is
  /// damaged, or lacks a tensor that the index has in it.
  ShardedWeights(const std::string& index, const OpenShard& open_shard);

  void read(std::size_t index, std::span<std::byte> to) const override;

 private:
  std::vector<std::unique_ptr<WeightSource>> shards_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // of entries: shard, entry in it
};

}  // namespace lockstep::io
