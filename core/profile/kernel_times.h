// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/graph/operator.h"
#include "lockstep/device_use.h"

namespace lockstep {

class Profiler;

/// "conv2d kernel=3 stride=1 (f32[8, 28, 28, 1], f32[4, 3, 3, 1]) -> (f32[8, 28, 28, 4])": kernels
/// of one name are taken to need equally long.
std::string kernel_name(const Operator& op,
                        std::span<const TensorType> inputs,
                        std::span<const TensorType> outputs);

/// How long the kernels of one rank took, for predictions of runs of more of them.
struct KernelTimes {
  bool gpu = false;
  int ranks = 1;                          ///< of the run that was measured
  DevicePeaks peaks;                      ///< of the device: for kernels that are not here
  std::map<std::string, double> seconds;  ///< of one run, by kernel_name()
  double kernel_s = 0;       ///< of a kernel that is not here, more than the peaks allow
  double launch_s = 0;       ///< of the host, to hand a kernel over; 0: unknown
  double micro_batch_s = 0;  ///< of the host, to load and copy a micro-batch
  /// Read and written in sums of shards; 0: unknown, `peaks` have it.
  double sum_bytes_per_s = 0;
  /// Of a step, all else: the update and records.
  double step_s = 0;
  /// Quantiles 0, 1/n, ... 1 of the time of a step's kernels, as a multiple of the median, which
  /// `seconds` stand for; ascending. Fewer than two: unknown.
  std::vector<double> step_factors;

  /// The multiple of the median that a share `u` of steps, from 0 to 1, stays below; 1: unknown.
  double factor_at(double u) const;
};

/// Of what a stopped profiler saw. On the processor's clock `seconds` and the other times are of a
/// median step; of a device that was traced, its own means, and nothing is known of the host.
/// `gpu`: what the device is, also where its own clock could not be asked. `ranks`: of the run.
KernelTimes kernel_times_of(const Profiler& profiler,
                            const DevicePeaks& peaks,
                            bool gpu,
                            int ranks);

std::string to_json(const KernelTimes& times);
/// Throws ConfigError naming `name`, the member, what it is and what it should be.
KernelTimes parse_kernel_times(const std::string& text, const std::string& name);

}  // namespace lockstep
