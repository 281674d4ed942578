// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cuda_runtime.h>

// Note [Dependent launches]
//
// Between two kernels of a stream a device is idle for about as long as it takes to begin a launch.
// With programmatic dependent launch (compute capability 9.0 and later; CUDA Programming Guide,
// "Programmatic Dependent Launch and Synchronization") the blocks of the next kernel, C, are placed
// once those of the one before, B, have all triggered it, and wait on the device. launch() asks for
// it by cudaLaunchAttributeProgrammaticStreamSerialization; what kernels do makes it right:
//   - The first statement of each own kernel is wait_for_earlier_work(): every thread waits until
//     what the stream did before is complete and visible. So C neither reads what B has not written
//     nor writes what B may still read.
//   - The wait is for direct predecessors alone. C may rely on B's predecessor, A, as B's threads
//     have waited for A: the end of B implies the end of A. A block that ended without waiting
//     would break that for kernels after it.
//   - The trigger comes after the wait. It could stand before it as well, since C waits; but so C
//     begins when A is over, at most one grid waits while another works, and no cache line from
//     before A's end can be in a multiprocessor's L1 cache when C reads. A kernel's own code before
//     its first access is some index arithmetic, so that an earlier trigger had nothing to gain.
//   - Blocks that wait hold registers and shared memory, but B's own blocks have all begun by then,
//     and what other streams have to do waits for them no longer than B takes: B is an own kernel,
//     which waits for no other rank. NCCL's kernels, which do, never trigger before they end.
//
// Libraries' kernels, copies and fills, which launch() does not launch, have no such attribute, and
// wait for all of what came before them. Own kernels trigger whatever the switch says: where a
// library itself asks for a dependent launch, its kernel may be placed earlier in default runs as
// well, and waits on the device as own ones do. NCCL asks only for its symmetric collectives, which
// need windows registered with the communicator, and Lockstep registers none. After a copy, a fill
// or a wait for an event a dependent launch is an ordinary one.
//
// A capture turns the attribute into a programmatic edge of the graph
// (cudaGraphKernelNodePortProgrammatic), which connects two kernels. What such an edge means in
// addition to others, after a wait for another stream, the guide does not say: in a capture a
// launch is dependent only where a kernel is all that comes before it. Graphs are never updated
// (cudaGraphExecUpdate), and their edges are not asked for, which would need another call.
//
// The emulator holds every launch to this, whether it is dependent or not: each thread waits
// exactly once, before its first access. tests/registers/kernel_waits.py finds the same in machine
// code. Not yet run on a GPU: hence off unless LOCKSTEP_DEPENDENT_LAUNCH=1.
namespace lockstep::cuda {

/// Asks for dependent launches from now on, or no longer; for the whole process.
void set_dependent_launches(bool on);

inline std::atomic<bool>& dependent_launches_state() {
  static constinit std::atomic<bool> on = false;
  return on;
}

/// Whether they are asked for.
inline bool dependent_launches() {
  return dependent_launches_state().load(std::memory_order_relaxed);
}

/// Whether the next launch on `stream` may be dependent: the stream is not being captured, or what
/// it has come to is one kernel. Throws what check() throws.
bool may_launch_dependent(cudaStream_t stream);

}  // namespace lockstep::cuda
