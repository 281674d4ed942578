// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

/// Backend's functions of the same names, enqueued on the device's compute stream.
namespace lockstep::cuda {

void add(const Device& device, float* out, const float* a, const float* b, std::int64_t elems);
/// False, and nothing done: more terms than a launch takes.
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
void add_in_order(const Device& device, const double* values, std::int64_t count, double* result);
/// Norms included, where gradients are few. False, and nothing done: they are not.
bool conclude_small_step(const Device& device, const StepSums& sums, StepOutcome* outcome);
/// `norms` in device memory: the squared norms of sums.tensors.
void conclude_step(const Device& device,
                   const StepSums& sums,
                   const double* norms,
                   StepOutcome* outcome);
/// result[i], on the host, of ranges[i]. `tiles`: hash_tiles(ranges) numbers in device memory;
/// `host_tiles`: as many for a copy of them. Waits for the stream.
void hash(const Device& device,
          const float* values,
          std::span<const FlatRange> ranges,
          std::uint64_t* result,
          std::uint64_t* tiles,
          std::span<std::uint64_t> host_tiles);
std::size_t hash_tiles(std::span<const FlatRange> ranges);
void update_running_statistics(const Device& device,
                               float* values,
                               const float* sums,
                               std::span<const RunningStatistic> statistics,
                               const StepOutcome* outcome);

}  // namespace lockstep::cuda
