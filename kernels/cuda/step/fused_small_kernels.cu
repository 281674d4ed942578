// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/step/block_step.cuh"
#include "kernels/cuda/step/fused_small_kernels.h"
#include "lockstep/error.h"

// Programs of small steps in one launch of one block. Bound by latency: each step has a few rounds
// of loads that hit the L1 or L2 cache, and a barrier after it.
namespace lockstep::cuda {
namespace {

/// The max that registers allow, which hides most latency.
constexpr int kThreads = 1024;

struct BlockProgram {
  static constexpr int kMax = 24;
  BlockStep steps[kMax];
  std::int32_t count;
};
static_assert(sizeof(BlockProgram) <= 3840, "the arguments of a kernel have 4 KiB");

__global__ void __launch_bounds__(kThreads)
    block_program_kernel(const __grid_constant__ BlockProgram program, bool accumulate) {
  wait_for_earlier_work();
  for (int i = 0; i < program.count; ++i) {
    if (i > 0) __syncthreads();  // what a step wrote, the next may read
    run_step(program.steps[i], accumulate, dynamic_shared<unsigned char>());
  }
}

void launch_program(const Device& device, const BlockProgram& program, const RunState& state) {
  launch("block_program",
         {.block = dim3(kThreads), .shared_bytes = kBlockStepSharedBytes},
         device.compute,
         block_program_kernel,
         program,
         state.accumulate);
}

class BlockProgramKernel final : public Kernel {
 public:
  BlockProgramKernel(const BlockProgram& program, const Device& device)
      : program_(program), device_(device) {}
  void bind(const KernelBuffers&) override {
    throw InternalError(
        "fused small kernels were bound again: kernels are bound before they are fused");
  }
  void run(const RunState& state) override { launch_program(device_, program_, state); }

 private:
  const BlockProgram program_;
  const Device& device_;
};

}  // namespace

void SmallKernel::run(const RunState& state) {
  BlockProgram program{};
  program.steps[0] = step();
  program.count = 1;
  launch_program(device(), program, state);
}

JoinedKernels join(const Device& device, std::span<Kernel* const> kernels) {
  BlockProgram program{};
  for (Kernel* const kernel : kernels) {
    const auto* small = dynamic_cast<const SmallKernel*>(kernel);
    if (small == nullptr || program.count == BlockProgram::kMax) break;
    program.steps[program.count++] = small->step();
  }
  if (program.count < 2) return {};
  return {std::make_unique<BlockProgramKernel>(program, device), std::size_t(program.count)};
}

}  // namespace lockstep::cuda
