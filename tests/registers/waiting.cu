// SPDX-License-Identifier: Apache-2.0
// Kernels for waits_self_test.py, which are compiled and never run.

__device__ inline void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
__device__ inline void trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__global__ void waiting_kernel(float* y, const float* x) {
  wait();
  trigger();
  y[threadIdx.x] = x[threadIdx.x];
}
__global__ void never_kernel(float* y) { y[threadIdx.x] = 1.0f; }
__global__ void late_kernel(float* y, const volatile float* x) {
  const float read = x[threadIdx.x];
  wait();
  y[threadIdx.x] = read;
}
__global__ void counting_kernel(int* count) {
  atomicAdd(count, int(threadIdx.x));
  wait();
}
__global__ void swapping_kernel(int* state, int* was) {
  const int before = atomicCAS(state, 1, 2);
  wait();
  was[threadIdx.x] = before;
}
/// Whose addresses are in shared memory or in global memory.
__global__ void either_reads_kernel(int* y, int* x, int count) {
  extern __shared__ int shared[];
  const volatile int* from = count + int(threadIdx.x) > 3 ? x : shared;
  const int read = *from;
  wait();
  y[threadIdx.x] = read;
}
__global__ void either_writes_kernel(int* y, int count) {
  extern __shared__ int shared[];
  volatile int* to = count + int(threadIdx.x) > 3 ? y : shared;
  *to = count;
  wait();
}
/// May stay: what it changes is the block's own.
__global__ void shared_kernel(int* y) {
  __shared__ int count;
  const int before = atomicCAS(&count, 1, 2);
  wait();
  y[threadIdx.x] = before;
}
__global__ void some_kernel(float* y, const float* x, int count) {
  if (int(threadIdx.x) >= count) return;
  wait();
  y[threadIdx.x] = x[threadIdx.x];
}
__global__ void early_trigger_kernel(float* y, const float* x) {
  trigger();
  wait();
  y[threadIdx.x] = x[threadIdx.x];
}
