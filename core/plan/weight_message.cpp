// SPDX-License-Identifier: Apache-2.0
#include "core/plan/weight_message.h"

#include <algorithm>

#include "core/plan/ownership.h"

namespace lockstep {
namespace {

// Blocks are padded where that makes the message larger by at most one part in as many.
constexpr std::int64_t kPaddingShare = 16;

WeightBlock make_block(const FlatSpace& space, const Bucket& chunk) {
  WeightBlock block;
  for (const WeightRun& run : weight_runs(space, chunk.offset, chunk.elems)) {
    block.pieces.push_back(
        {.offset = run.offset, .elems = run.elems, .place = block.units, .bf16 = run.bf16});
    block.units += run.bf16 ? run.elems : 2 * run.elems;
  }
  return block;
}

}  // namespace

WeightMessage make_weight_message(const FlatSpace& space, const Bucket& bucket) {
  WeightMessage message{.bucket = bucket, .blocks = {}};
  std::int64_t largest = 0, sum = 0;
  for (int chunk = 0; chunk < space.ranks; ++chunk) {
    message.blocks.push_back(make_block(space, chunk_of(bucket, chunk, space.ranks)));
    largest = std::max(largest, message.blocks.back().units);
    sum += message.blocks.back().units;
  }
  const bool pads = (largest * space.ranks - sum) * kPaddingShare <= sum;
  std::int64_t place = 0;
  for (WeightBlock& block : message.blocks) {
    if (pads) block.units = largest;
    block.place = place;
    for (WeightPiece& piece : block.pieces) piece.place += place;
    place += block.units;
  }
  return message;
}

}  // namespace lockstep
