// SPDX-License-Identifier: Apache-2.0
// Kernels for budgets_self_test.py, which are compiled and never run.

/// Four reads of 16 bytes are under way in its loop.
__global__ void reading_kernel(float4* sums, const float4* values, int count) {
  float4 sum = {};
#pragma unroll 1
  for (int i = int(threadIdx.x) * 4; i < count; i += 1024) {
    float4 read[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) read[k] = values[i + k];
#pragma unroll
    for (int k = 0; k < 4; ++k) sum.x += read[k].x * read[k].y * read[k].z * read[k].w;
  }
  sums[threadIdx.x] = sum;
}

/// Has 32 registers, and holds 90 numbers.
__global__ void __launch_bounds__(1024, 2) spilling_kernel(float* values, int count) {
  float held[90];
#pragma unroll
  for (int i = 0; i < 90; ++i) held[i] = values[i * count + int(threadIdx.x)];
#pragma unroll 1
  for (int turn = 0; turn < count; ++turn)
#pragma unroll
    for (int i = 0; i < 90; ++i) held[i] = held[i] * held[(i + 1) % 90] + float(turn);
#pragma unroll
  for (int i = 0; i < 90; ++i) values[i * count + int(threadIdx.x)] = held[i];
}

/// Has no loop.
__global__ void straight_kernel(float* values) { values[threadIdx.x] *= 2.0f; }
