// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activation.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/reduce.cuh"

/// Fully connected layers so small that a library's launch takes longer than their work, in fp32,
/// by one block with any multiple of 32 threads. A sum's order follows from the extents alone.
namespace lockstep::cuda {

/// What one block does in about the time of a launch, some 3,000 cycles. Two loads a product from
/// shared memory, of which a multiprocessor takes 32 a cycle, are 16 products a cycle; a sum's
/// terms, which one thread adds in order, take some 10 cycles each; and operands have to fit.
inline constexpr std::int64_t kMostSmallProducts = 32768, kMostSmallExtent = 256;
inline constexpr std::int64_t kMostSmallOperands = 8192;  // elements of both of a product
inline constexpr std::size_t kSmallLinearSharedBytes = kMostSmallOperands * sizeof(float);

/// Whether the layer's three products are small.
constexpr bool is_small_layer(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const std::int64_t most = kMostSmallExtent;
  return rows <= most && in <= most && out <= most && rows * in * out > 0 &&
         rows * in * out <= kMostSmallProducts &&
         rows * in + rows * out + in * out <= kMostSmallOperands;
}

/// y = f(x W^T + b)
struct SmallLinear {
  const float* x;       ///< [rows, in]
  const float* weight;  ///< [out, in]
  const float* bias;    ///< [out]; null: none
  float* y;             ///< [rows, out]
  float* before;        ///< [rows, out], what f is applied to; null: not wanted
  std::int32_t rows, in, out;
  ops::Activation activation;
};

/// dx = dy W, or (dy W) f'(h)
struct SmallLinearBwdData {
  const float* dy;      ///< [rows, out]
  const float* weight;  ///< [out, in]
  const float* h;       ///< [rows, in]; null: without f
  float* dx;            ///< [rows, in]
  std::int32_t rows, in, out;
  ops::Activation activation;  ///< f: none or a GELU
};

/// dW = dy^T x, db = the sums of dy's columns
struct SmallLinearBwdWeights {
  const float* x;   ///< [rows, in]
  const float* dy;  ///< [rows, out]
  float* dweight;   ///< [out, in]
  float* dbias;     ///< [out]; null: not wanted
  std::int32_t rows, in, out;
  bool weight_accumulates, bias_accumulates;  ///< where the run does
};

__device__ inline float activated(ops::Activation activation, float x) {
  switch (activation) {
    case ops::Activation::relu:
      return Relu{}(x);
    case ops::Activation::gelu_erf:
      return GeluErf<float>{}(x);
    case ops::Activation::gelu_tanh:
      return GeluTanh<float>{}(x);
    case ops::Activation::none:
      break;
  }
  return x;
}

/// Two operands in shared memory, where any thread finds any element in a few cycles.
struct StagedPair {
  /// By all threads of the block, which meet. What is behind `shared` is free since they met last.
  __device__ StagedPair(
      const float* from_a, int a_elems, const float* from_b, int b_elems, unsigned char* shared)
      : a(reinterpret_cast<float*>(shared)), b(a + a_elems) {
    for (int i = int(threadIdx.x); i < a_elems; i += int(blockDim.x)) a[i] = from_a[i];
    for (int i = int(threadIdx.x); i < b_elems; i += int(blockDim.x)) b[i] = from_b[i];
    __syncthreads();
  }
  float *a, *b;
};

/// An element of y a thread, its products added in order.
__device__ inline void run_step(const SmallLinear& s, unsigned char* shared) {
  const StagedPair staged(s.x, s.rows * s.in, s.weight, s.out * s.in, shared);
  for (int e = int(threadIdx.x); e < s.rows * s.out; e += int(blockDim.x)) {
    const int row = e / s.out, column = e - row * s.out;
    const float* const x = staged.a + row * s.in;
    const float* const weight = staged.b + column * s.in;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < s.in; ++i) sum = fmaf(x[i], weight[i], sum);
    if (s.bias != nullptr) sum += s.bias[column];
    if (s.before != nullptr) s.before[e] = sum;
    s.y[e] = activated(s.activation, sum);
  }
}

/// An element of dx a thread, its products added in order.
__device__ inline void run_step(const SmallLinearBwdData& s, unsigned char* shared) {
  const StagedPair staged(s.dy, s.rows * s.out, s.weight, s.out * s.in, shared);
  for (int e = int(threadIdx.x); e < s.rows * s.in; e += int(blockDim.x)) {
    const int row = e / s.in, column = e - row * s.in;
    const float* const dy = staged.a + row * s.out;
    const float* const weight = staged.b + column;
    float sum = 0.0f;
#pragma unroll 4
    for (int o = 0; o < s.out; ++o) sum = fmaf(dy[o], weight[o * s.in], sum);
    if (s.activation == ops::Activation::gelu_erf) sum = GeluErfGradient<float>{}(sum, s.h[e]);
    if (s.activation == ops::Activation::gelu_tanh) sum = GeluTanhGradient<float>{}(sum, s.h[e]);
    s.dx[e] = sum;
  }
}

/// Eight threads an element of dW or db: each adds every eighth row's product in order, then they
/// add pairwise.
__device__ inline void run_step(const SmallLinearBwdWeights& s,
                                bool accumulate,
                                unsigned char* shared) {
  constexpr int kLanes = 8;
  const StagedPair staged(s.x, s.rows * s.in, s.dy, s.rows * s.out, shared);
  const int lane = int(threadIdx.x) % kLanes, team = int(threadIdx.x) / kLanes;
  const int teams = int(blockDim.x) / kLanes;
  const int columns = s.in + (s.dbias != nullptr ? 1 : 0);
  // All threads go round as often: they meet in the shuffles.
  for (int first = 0; first < s.out * columns; first += teams) {
    const int e = first + team, o = e / columns, i = e - o * columns;
    const bool exists = e < s.out * columns, of_bias = i == s.in;
    float sum = 0.0f;
    if (exists) {
#pragma unroll 4
      for (int row = lane; row < s.rows; row += kLanes)
        sum = fmaf(staged.b[row * s.out + o], of_bias ? 1.0f : staged.a[row * s.in + i], sum);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    if (!exists || lane != 0) continue;
    float& result = of_bias ? s.dbias[o] : s.dweight[o * s.in + i];
    const bool adds = accumulate && (of_bias ? s.bias_accumulates : s.weight_accumulates);
    result = adds ? result + sum : sum;
  }
}

}  // namespace lockstep::cuda
