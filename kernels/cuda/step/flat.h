// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

/// Backend's functions of the same names, enqueued on the device's compute stream.
namespace lockstep::cuda {

void add(const Device& device, float* out, const float* a, const float* b, std::int64_t elems);
/// False: there are more terms than one launch takes, and nothing was launched.
bool sum_tree(const Device& device,
              std::span<const TreeTerm> terms,
              float* result,
              std::int64_t elems);
/// `result` in device memory, one fp64 a range; `workspace`: squared_norms_workspace(ranges) bytes.
void squared_norms(const Device& device,
                   const float* values,
                   std::span<const FlatRange> ranges,
                   double* result,
                   void* workspace);
std::size_t squared_norms_workspace(std::span<const FlatRange> ranges);
void block_norms(const Device& device,
                 const float* values,
                 std::span<const BlockRange> ranges,
                 double* result);
void gather(const Device& device,
            const double* values,
            const std::int32_t* places,
            std::int64_t count,
            double* result);
void add_in_order(const Device& device,
                  const double* values,
                  std::span<const std::int64_t> ends,
                  double* result);
/// conclude_step() with the norms computed in the same launch. False: there are too many gradients
/// for that, and nothing was launched.
bool conclude_small_step(const Device& device, const StepSums& sums, StepOutcome* outcome);
/// `norms` in device memory: the squared norms of sums.tensors.
void conclude_step(const Device& device,
                   const StepSums& sums,
                   const double* norms,
                   StepOutcome* outcome);
void clip_values(const Device& device,
                 float* gradients,
                 float limit,
                 std::span<const FlatRange> ranges,
                 const StepOutcome* outcome);
void clip_units(const Device& device, const UnitClip& clip, std::span<const UnitRange> ranges);
void pack_weights(const Device& device,
                  const float* values,
                  std::span<const WeightPiece> pieces,
                  std::uint16_t* message);
void unpack_weights(const Device& device,
                    const std::uint16_t* message,
                    std::span<const WeightPiece> pieces,
                    float* values);
/// result[i], in host memory: the hash of ranges[i]. `tiles`: room for hash_tiles(ranges) values in
/// device memory; `host_tiles`: for as many in host memory. Waits for the stream.
void hash(const Device& device,
          const float* values,
          std::span<const HashRange> ranges,
          std::uint64_t* result,
          std::uint64_t* tiles,
          std::span<std::uint64_t> host_tiles);
std::size_t hash_tiles(std::span<const HashRange> ranges);
void update_running_statistics(const Device& device,
                               float* values,
                               const float* sums,
                               std::span<const RunningStatistic> statistics,
                               const StepOutcome* outcome);

void update_average(const Device& device, const AverageUpdate& update);
void swap(const Device& device, float* a, float* b, std::int64_t elems);

}  // namespace lockstep::cuda
