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
