// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

class KernelGroup;
struct StepCounters;

/// What changes from one run of a program to the next; kernels read it, and it is not written
/// meanwhile.
struct RunState {
  /// Outputs that accumulate into the flat gradient space add to what is there (false: overwrite).
  bool accumulate = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  /// Position in the global batch of the micro-batch's first sample; keys per-sample random
  /// numbers.
  std::uint64_t first_sample = 0;
  /// In device memory; its step and first_sample take the place of those above. Null where the
  /// device captures no graphs.
  const StepCounters* counters = nullptr;
  /// The ranks whose micro-batches form one batch-norm group; null where groups are local.
  KernelGroup* group = nullptr;
};

}  // namespace lockstep
