// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/flat_space.h"

namespace lockstep {

/// Note [Weights in bf16]. Of a sharded optimizer in bf16, owners send the weights that kernels
/// round anyway (bf16_weights()) as bf16: 2 bytes in place of 4, so that a step sends 3/4 of its
/// bytes. The fp32 values stay with the owner, whose updates alone read them. What other ranks
/// receive they hold in fp32 in the same place: a rounded value rounded again is itself, so that
/// kernels compute with the same bits on all ranks, and no kernel knows of it. Weights that a
/// kernel reads in fp32 (biases, weights of norms, tables of embeddings) travel in fp32 in the same
/// message. Whoever wants the values themselves (checkpoints, the average of the weights, the end
/// of a run) has them gathered in fp32 first: OwnerExchange::gather_weights().

/// Neighbouring weights of a message.
struct WeightPiece {
  std::int64_t offset = 0;  ///< in the flat space
  std::int64_t elems = 0;
  std::int64_t place = 0;  ///< in the message, in units of 2 bytes; even
  bool bf16 = false;       ///< rounded; otherwise fp32
};

/// What the owner of a chunk of a sharded bucket sends of it.
struct WeightBlock {
  std::vector<WeightPiece> pieces;  ///< in flat order; all of the chunk
  std::int64_t place = 0;           ///< in the message, in units of 2 bytes; even
  std::int64_t units = 0;           ///< of 2 bytes, with padding
};

/// The blocks of all chunks, one after another: of equal size, which one all-gather brings
/// together, unless padding would make the message larger by more than a sixteenth.
struct WeightMessage {
  Bucket bucket;
  std::vector<WeightBlock> blocks;  ///< [ranks], by owned_index()

  std::int64_t units() const {
    return blocks.empty() ? 0 : blocks.back().place + blocks.back().units;
  }
};

/// Of a sharded bucket of `space`.
WeightMessage make_weight_message(const FlatSpace& space, const Bucket& bucket);

}  // namespace lockstep
