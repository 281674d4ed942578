// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/bound_kernel.h"

// Note [Small programs]
//
// A launch costs the device about two microseconds, also inside a graph, before and behind whatever
// it does. A kernel whose work one multiprocessor does in less than that is a SmallKernel: its work
// is a plain description, a BlockStep, that one block of threads carries out. Program has the
// backend join consecutive kernels (Backend::join); a run of SmallKernels becomes one launch of one
// block, a block program, which takes its steps from its arguments and does them one after another
// with a barrier behind each. A SmallKernel alone is a block program of one step: so the bits are
// the same where kernels run one by one, to be timed or looked at.
//
// What is small follows from extents alone, never from ranks: see the limits in block_step.cuh.
namespace lockstep::cuda {

struct BlockStep;

class SmallKernel : public BoundKernel {
 public:
  using BoundKernel::BoundKernel;
  /// Of a bound kernel.
  virtual BlockStep step() const = 0;
  void run(const RunState& state) final;
};

/// See Backend::join().
JoinedKernels join(const Device& device, std::span<Kernel* const> kernels);

}  // namespace lockstep::cuda
