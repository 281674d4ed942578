// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/planted_kernels.h"

#include "core/ops/scale.h"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector_access.cuh"

namespace lockstep::test {
namespace {

using namespace cuda;

/// Floats on the device: 0, 1, 2, ...
class Floats {
 public:
  explicit Floats(int elems) : elems_(std::size_t(elems)) {
    check(cudaMalloc(&data_, elems_ * sizeof(float)), "floats");
    std::vector<float> values(elems_);
    for (std::size_t i = 0; i < elems_; ++i) values[i] = float(i);
    check(cudaMemcpy(data_, values.data(), elems_ * sizeof(float), cudaMemcpyHostToDevice), "in");
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { cudaFree(data_); }

  float* data() { return data_; }
  std::vector<float> values() const {
    std::vector<float> values(elems_);
    check(cudaMemcpy(values.data(), data_, elems_ * sizeof(float), cudaMemcpyDeviceToHost), "out");
    return values;
  }

 private:
  std::size_t elems_;
  float* data_ = nullptr;
};

constexpr std::size_t kSharedBytes = kThreads * sizeof(float);

/// Launches a block of kThreads threads, which has `elems` floats to write.
template <typename... Parameters, typename... Arguments>
std::vector<float> launched(const char* what,
                            int elems,
                            void (*kernel)(float*, Parameters...),
                            Arguments... arguments) {
  Floats y(elems);
  launch(what,
         {.grid = 1, .block = kThreads, .shared_bytes = kSharedBytes},
         {},
         kernel,
         y.data(),
         arguments...);
  return y.values();
}

__global__ void copy_kernel(float* y, const float* x, int elems) {
  wait_for_earlier_work();
  const int i = int(threadIdx.x);
  if (i < elems) y[i] = x[i];
}

__global__ void shared_kernel(float* y, int moved) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  const int t = int(threadIdx.x);
  shared[t + moved] = float(t);
  y[t] = shared[t + moved];
}

__global__ void rotate_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  const int t = int(threadIdx.x);
  shared[t] = float(t);
  if (!bug) __syncthreads();
  y[global_thread()] = shared[(t + 1) % kThreads];
}

__global__ void reuse_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  const int t = int(threadIdx.x);
  shared[t] = float(t);
  __syncthreads();
  const float first = shared[(t + 1) % kThreads];
  if (!bug) __syncthreads();
  shared[t] = 2 * first;
  __syncthreads();
  y[t] = shared[(t + 1) % kThreads];
}

__global__ void warp_rotate_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  const int t = int(threadIdx.x), warp = t / kWarp * kWarp;
  shared[t] = float(t);
  if (!bug) __syncwarp();
  y[t] = shared[warp + (t + 1) % kWarp];
}

__global__ void uninitialised_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  if (!bug) shared[threadIdx.x] = 1;
  y[threadIdx.x] = shared[threadIdx.x];
}

__global__ void branches_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  if (bug && threadIdx.x < kThreads / 2)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void early_return_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  y[threadIdx.x] = 1;
  if (bug && threadIdx.x == 5) return;
  __syncthreads();
}

__global__ void early_lane_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  if (bug && threadIdx.x == 5) return;
  y[threadIdx.x] = warp_reduce(1.0f, Sum{});
}

__global__ void other_mask_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  const unsigned half = 0xffffu;
  if (threadIdx.x % kWarp < 16)
    y[threadIdx.x] = __shfl_sync(half, float(threadIdx.x), bug ? 20 : 3);
  else
    y[threadIdx.x] = 0;
}

__global__ void packs_kernel(float* y, const float* x) {
  wait_for_earlier_work();
  Pack<float> result, loaded = load_pack(x + 4 * threadIdx.x);
  for (int i = 0; i < 4; ++i) result.values[i] = 2 * loaded.values[i];
  store_pack(y + 4 * threadIdx.x, result);
}

/// Of what 32 lanes write, a row is 4 of them: lane 4 g + t gets what it wrote itself.
__global__ void matrices_kernel(float* y, int moved) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<Bf16>();
  const int t = int(threadIdx.x);
  shared[2 * t] = shared[2 * t + 1] = from_float<Bf16>(float(t));
  __syncthreads();
  std::uint32_t matrices[4];
  load_matrices<false>(matrices, shared + 8 * (t % 8) + moved);
  y[t] = __uint_as_float(matrices[3] << 16);
}

__global__ void copies_kernel(float* y, const float* x) {
  wait_for_earlier_work();
  auto* shared = dynamic_shared<float>();
  const int t = int(threadIdx.x);
  AsyncCopies copies;
  if (t < kThreads / 4) copies.start<16>(shared + 4 * t, x + 4 * t, t % 2 == 0);
  copies.wait();
  __syncthreads();
  y[t] = shared[t];
}

__global__ void sum_up_kernel(float* y, int* counter, bool bug) {
  wait_for_earlier_work();
  if (threadIdx.x == 0) {
    if (bug)
      ++*counter;
    else
      atomicAdd(counter, 1);
  }
  y[global_thread()] = 1;
}

__global__ void hand_over_kernel(float* y, bool bug) {
  wait_for_earlier_work();
  const std::int64_t i = global_thread();
  if (blockIdx.x == 0) y[i] = -1;
  if (blockIdx.x == 1) y[i] = y[bug ? i - kThreads : i];
}

__global__ void sums_kernel(float* y) {
  wait_for_earlier_work();
  const int t = int(threadIdx.x);
  y[t] = block_sum(float(t), dynamic_shared<float>());
  y[kThreads + t] = float(__ballot_sync(kAllLanes, t % 4 == 0));
  y[2 * kThreads + t] = float(__syncthreads_count(t < 5));
  y[3 * kThreads + t] = __shfl_down_sync(kAllLanes, float(t), 2) + __shfl_up_sync(kAllLanes, 1, 1);
  y[4 * kThreads + t] = float(__any_sync(kAllLanes, t == 3) + 2 * __all_sync(kAllLanes, t < 32));
}

__global__ void shape_kernel() { wait_for_earlier_work(); }

__global__ void scale_kernel(float* y, const float* x, float factor, std::int64_t elems) {
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads()) y[i] = factor * x[i];
}

class IncompleteScale final : public BoundKernel {
 public:
  IncompleteScale(float factor, std::int64_t elems)
      : BoundKernel(no_device_), factor_(factor), elems_(elems) {}
  void run(const RunState&) override {
    launch("scale", cover(elems_), {}, scale_kernel, output(0), input(0), factor_, elems_);
  }

 private:
  Device no_device_;
  float factor_;
  std::int64_t elems_;
};

}  // namespace

std::vector<float> copy_past_the_end(bool bug) {
  Floats x(kThreads);
  const int elems = kThreads - 2;
  return launched("copy", elems, copy_kernel, x.data(), bug ? kThreads : elems);
}
std::vector<float> copy_from_host(bool bug) {
  Floats x(kThreads);
  const std::vector<float> host = x.values();
  return launched("copy", kThreads, copy_kernel, bug ? host.data() : x.data(), kThreads);
}
std::vector<float> past_shared_memory(bool bug) {
  return launched("shared", kThreads, shared_kernel, bug ? 1 : 0);
}
std::vector<float> rotate_without_barrier(bool bug) {
  Floats y(2 * kThreads);
  launch("rotate",
         {.grid = 2, .block = kThreads, .shared_bytes = kSharedBytes},
         {},
         rotate_kernel,
         y.data(),
         bug);
  return y.values();
}
std::vector<float> reuse_without_barrier(bool bug) {
  return launched("reuse", kThreads, reuse_kernel, bug);
}
std::vector<float> rotate_without_syncwarp(bool bug) {
  return launched("warp_rotate", kThreads, warp_rotate_kernel, bug);
}
std::vector<float> read_unwritten_shared(bool bug) {
  return launched("uninitialised", kThreads, uninitialised_kernel, bug);
}
std::vector<float> barrier_in_branches(bool bug) {
  return launched("branches", kThreads, branches_kernel, bug);
}
std::vector<float> return_before_barrier(bool bug) {
  return launched("early_return", kThreads, early_return_kernel, bug);
}
std::vector<float> return_before_shuffle(bool bug) {
  return launched("early_lane", kThreads, early_lane_kernel, bug);
}
std::vector<float> shuffle_beyond_mask(bool bug) {
  return launched("other_mask", kThreads, other_mask_kernel, bug);
}
std::vector<float> unaligned_packs(bool bug) {
  Floats x(4 * kThreads + 1);
  return launched("packs", 4 * kThreads, packs_kernel, x.data() + (bug ? 1 : 0));
}
std::vector<float> unaligned_matrices(bool bug) {
  return launched("matrices", kThreads, matrices_kernel, bug ? 4 : 0);
}
std::vector<float> unaligned_copies(bool bug) {
  Floats x(kThreads + 1);
  return launched("copies", kThreads, copies_kernel, x.data() + (bug ? 1 : 0));
}
std::vector<float> count_blocks(bool bug) {
  Floats y(3 * kThreads), counter(1);
  launch("sum_up",
         {.grid = 3, .block = kThreads},
         {},
         sum_up_kernel,
         y.data(),
         reinterpret_cast<int*>(counter.data()),
         bug);
  int count = 0;
  check(cudaMemcpy(&count, counter.data(), sizeof count, cudaMemcpyDeviceToHost), "count");
  return {float(count)};
}
std::vector<float> read_of_another_block(bool bug) {
  Floats y(2 * kThreads);
  launch("hand_over", {.grid = 2, .block = kThreads}, {}, hand_over_kernel, y.data(), bug);
  return y.values();
}
std::vector<float> sums() { return launched("sums", 5 * kThreads, sums_kernel); }

void launch_shape(unsigned grid_y, unsigned threads, std::size_t shared_bytes, bool opt_in) {
  const int most = opt_in ? int(shared_bytes) : 48 << 10;
  check(cudaFuncSetAttribute(shape_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
        "opting in");
  launch("shape",
         {.grid = dim3(1, grid_y), .block = threads, .shared_bytes = shared_bytes},
         {},
         shape_kernel);
}

std::unique_ptr<Kernel> make_incomplete_scale(const KernelSpec& spec, bool bug) {
  return std::make_unique<IncompleteScale>(op_cast<ops::Scale>(spec.op).factor(),
                                           spec.inputs[0].elems() - (bug ? 1 : 0));
}

}  // namespace lockstep::test
