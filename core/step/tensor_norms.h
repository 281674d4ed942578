// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "core/step/owner_exchange.h"

namespace lockstep {

/// Squared L2 norms of tensors in a flat array, each the sum of its blocks of kNormBlock elements
/// in fp64, in order: Backend::squared_norms(). With owners every rank squares the blocks that it
/// owns and learns those of the others, so that it needs its own part of the array alone; the bits
/// are the same.
class TensorNorms {
 public:
  /// `owners`: null: every rank has the whole array. Throws OutOfMemory.
  TensorNorms(Backend& backend, std::vector<FlatRange> tensors, OwnerExchange* owners);

  /// result: [tensors], in their order, in device memory. Enqueued; with owners a collective.
  void start(const float* values, double* result) { start(values, own_, result); }
  /// With owners: `values` holds nothing but what the rank owns (Ownership).
  void start_of_owned(const float* values, double* result) { start(values, own_alone_, result); }
  const std::vector<FlatRange>& tensors() const { return tensors_; }
  std::size_t bytes() const;

 private:
  /// Lays out the sums of blocks by owner.
  void deal_blocks();
  void start(const float* values, const std::vector<BlockRange>& own, double* result);

  Backend& backend_;
  std::vector<FlatRange> tensors_;
  OwnerExchange* owners_;
  std::vector<std::int64_t> ends_;                    // [tensors]: of their blocks in ordered_
  std::vector<std::int64_t> counts_;                  // [ranks]: blocks
  std::vector<BlockRange> own_;                       // this rank's
  std::vector<BlockRange> own_alone_;                 // where an array holds nothing else
  std::unique_ptr<DeviceBuffer> by_owner_, ordered_;  // [blocks] fp64
  std::unique_ptr<DeviceBuffer> places_;              // [blocks] int32, in by_owner_
};

}  // namespace lockstep
