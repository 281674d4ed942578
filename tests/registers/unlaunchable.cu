// SPDX-License-Identifier: Apache-2.0
// Kernels for self_test.py, which are compiled and never run.

/// A thread needs a register for each element, and more.
template <int elems>
__device__ void use_registers(float* values, int count) {
  float held[elems];
  for (int i = 0; i < elems; ++i) held[i] = values[i * count + int(threadIdx.x)];
  for (int turn = 0; turn < count; ++turn)
    for (int i = 0; i < elems; ++i) held[i] = held[i] * held[(i + 1) % elems] + float(turn);
  for (int i = 0; i < elems; ++i) values[i * count + int(threadIdx.x)] = held[i];
}

__global__ void unbounded_kernel(float* values, int count) { use_registers<90>(values, count); }

__global__ void __launch_bounds__(256) bounded_kernel(float* values, int count) {
  use_registers<90>(values, count);
}

__global__ void small_kernel(float* values, int count) {
  if (int(threadIdx.x) < count) values[threadIdx.x] *= 2.0f;
}
