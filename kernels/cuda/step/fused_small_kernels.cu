// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "kernels/cuda/step/block_plan.h"
#include "kernels/cuda/step/fused_small_kernels.h"
#include "lockstep/error.h"

// Programs of small steps in one launch of one block. Bound by latency, of device memory and of
// arguments once, at the beginning, and then of instructions and of shared memory; so loops are
// unrolled little, that the code stays in the instruction caches.
namespace lockstep::cuda {
namespace {

/// Four warps for each of a multiprocessor's schedulers hide most of its latencies. What a step
/// costs a warp apart from its elements, some 60 instructions, counts for as many warps.
constexpr int kThreads = 512;

constexpr std::size_t kStepsBytes = sizeof(BlockProgram::steps);
constexpr std::size_t kSharedBytes =
    kStepsBytes + kSmallLossSharedBytes + kMaxStaged * sizeof(float);
static_assert(kStepsBytes % kPackBytes == 0 && kSmallLossSharedBytes % kPackBytes == 0);
static_assert(kSharedBytes <= 48 * 1024);

/// Arguments arrive in caches line by line, each after a latency: every warp asks for words of its
/// own, so that no step waits for them.
__device__ inline void copy_steps(const BlockProgram& program, BlockStep* steps) {
  using Word = std::uint64_t;
  static_assert(sizeof(BlockStep) % sizeof(Word) == 0);
  const auto* const from = reinterpret_cast<const Word*>(program.steps);
  auto* const to = reinterpret_cast<Word*>(steps);
  const int words = program.count * int(sizeof(BlockStep) / sizeof(Word));
  const int warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
#pragma unroll 4
  for (int i = warp; i < words; i += warps) {
    const Word word = from[i];
    if (threadIdx.x % kWarp == 0) to[i] = word;
  }
}

/// An element of a load on its way.
struct Arriving {
  float value;
  int at;
};
/// `i`: counted over all loads of the program.
__device__ inline Arriving fetch(const BlockProgram& program, int i) {
  int load = 0, before = 0;
#pragma unroll
  for (int k = 0; k < BlockProgram::kMaxLoads; ++k) {
    if (i < program.load_ends[k]) continue;
    load = k + 1;
    before = program.load_ends[k];
  }
  const BlockLoad& matrix = program.loads[load];
  const int e = i - before, row = quotient(e, matrix.by_columns);
  const int column = e - row * matrix.columns;
  return {matrix.from[e], matrix.at + row * staged_pitch(matrix.columns) + column};
}

/// Loads [begin, end) of the program. Calls meanwhile() before it waits for the first.
template <typename Meanwhile>
__device__ inline void load_matrices(
    const BlockProgram& program, int begin, int end, float* staged, Meanwhile meanwhile) {
  constexpr int kAtOnce = 2;
  const int last = end == 0 ? 0 : program.load_ends[end - 1];
  int i = int(threadIdx.x) + (begin == 0 ? 0 : program.load_ends[begin - 1]);
  const auto own = [&](int k) { return i + k * int(blockDim.x); };
  bool waits = false;
#pragma unroll 1
  do {
    Arriving elements[kAtOnce] = {};
    for (int k = 0; k < kAtOnce; ++k)
      if (own(k) < last) elements[k] = fetch(program, own(k));
    if (!waits) meanwhile();
    waits = true;
    for (int k = 0; k < kAtOnce; ++k)
      if (own(k) < last) staged[elements[k].at] = elements[k].value;
    i += kAtOnce * int(blockDim.x);
  } while (i < last);
}

/// A step's head, by one read.
__device__ inline std::uint32_t head_bits(const BlockStep& step) {
  static_assert(offsetof(BlockStep, head) == 0 && sizeof(BlockStep::Head) == sizeof(std::uint32_t));
  return *reinterpret_cast<const std::uint32_t*>(&step);
}
__device__ inline BlockStep::Head head_of(std::uint32_t bits) {
  return {BlockStep::Kind(bits & 0xff), (bits >> 8 & 0xff) != 0, std::int16_t(bits >> 16)};
}

__global__ void __launch_bounds__(kThreads)
    block_program_kernel(const __grid_constant__ BlockProgram program, bool accumulate) {
  wait_for_earlier_work();
  auto* const steps = dynamic_shared<BlockStep>();
  auto* const rows = dynamic_shared<float>(kStepsBytes);
  auto* const staged = dynamic_shared<float>(kStepsBytes + kSmallLossSharedBytes);
  int loaded = program.steps[0].head.loads_end;
  load_matrices(program, 0, loaded, staged, [&] { copy_steps(program, steps); });
  if (threadIdx.x == 0) staged[kStagedOne] = 1.0f;
  __syncthreads();
  std::uint32_t next = head_bits(steps[0]);
#pragma unroll 1
  for (int i = 0; i < program.count; ++i) {
    const BlockStep::Head head = head_of(next);
    if (i + 1 < program.count) next = head_bits(steps[i + 1]);
    if (head.loads_end > loaded) {
      __syncthreads();
      load_matrices(program, loaded, head.loads_end, staged, [] {});
      loaded = head.loads_end;
      __syncthreads();
    }
    run_step(head, steps[i], accumulate, staged, rows);
  }
}

void launch_program(const Device& device, const BlockProgram& program, const RunState& state) {
  launch("block_program",
         {.block = dim3(kThreads), .shared_bytes = kSharedBytes},
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
  BlockPlanner planner;
  LOCKSTEP_ASSERT(planner.add(step()));
  launch_program(device(), planner.program(), state);
}

JoinedKernels join(const Device& device, std::span<Kernel* const> kernels) {
  BlockPlanner planner;
  std::size_t count = 0;
  for (; count < kernels.size(); ++count) {
    const auto* small = dynamic_cast<const SmallKernel*>(kernels[count]);
    if (small == nullptr || !planner.add(small->step())) break;
  }
  if (count < 2) return {};
  return {std::make_unique<BlockProgramKernel>(planner.program(), device), count};
}

}  // namespace lockstep::cuda
