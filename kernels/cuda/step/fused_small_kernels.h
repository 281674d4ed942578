// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/bound_kernel.h"

// Note [Small programs]
//
// A launch costs the device about two microseconds in addition to the kernel's own work, also
// inside a graph. A kernel whose work one multiprocessor does in less than that is a SmallKernel: a
// plain description of its work, a BlockStep, is executed by one block of threads. Program passes
// consecutive kernels to Backend::join(); a run of SmallKernels becomes one batched launch of one
// block, a block program, which reads its steps from its arguments and executes them in order. A
// SmallKernel alone is a block program of one step: so the bits are the same where kernels run one
// by one, to be timed or checked.
//
// What such a launch takes is latency and instructions of index arithmetic, so a plan
// (block_plan.h), made when kernels are joined, says
//   - what is loaded to shared memory, all at once before the first step: matrices are read from
//     there, and what a step writes is there for the steps after it as well as in device memory,
//   - before which steps threads meet: where one needs what other threads have written, or
//     overwrites what they read,
//   - a ReLU's gradient as the end of the product before it.
//
// Extents alone decide what is small, never ranks: see the limits in small_linear.cuh,
// small_loss.cuh and small_elementwise.cuh.
namespace lockstep::cuda {

struct BlockStep;

class SmallKernel : public BoundKernel {
 public:
  using BoundKernel::BoundKernel;
  /// The work of this kernel, which is bound.
  virtual BlockStep step() const = 0;
  void run(const RunState& state) final;
};

/// See Backend::join().
JoinedKernels join(const Device& device, std::span<Kernel* const> kernels);

}  // namespace lockstep::cuda
