// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activation.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/reduce.cuh"

/// Fully connected layers so small that a library's launch takes longer than their work, in fp32,
/// by one block with any multiple of 32 threads. A sum's order follows from the extents alone.
namespace lockstep::cuda {

/// What one block does in about the time of a launch, some 3,000 cycles. Two loads a product from
/// shared memory, of which a multiprocessor takes 32 a cycle, are 16 products a cycle where no two
/// lanes want the same bank, which is what rows of staged operands are padded for; a sum's terms,
/// which one thread adds in order, take some 10 cycles each; and operands have to fit.
inline constexpr std::int64_t kMaxSmallProducts = 32768, kMaxSmallExtent = 256;
inline constexpr std::int64_t kMaxSmallOperands = 8192;  // elements of both of a product, padded
inline constexpr std::size_t kSmallLinearSharedBytes = kMaxSmallOperands * sizeof(float);

/// Length of staged rows that lanes read at different rows and one column: odd.
__host__ __device__ constexpr int odd_pitch(int columns) { return columns | 1; }
/// And of those that eight lanes read at rows of their own, next to lanes of the next three
/// columns: an odd multiple of four.
__host__ __device__ constexpr int team_pitch(int columns) { return (columns + 3) / 8 * 8 + 4; }

/// Whether the layer's three products are small.
constexpr bool is_small_layer(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const std::int64_t most = kMaxSmallExtent;
  if (rows > most || in > most || out > most || rows * in * out == 0) return false;
  const std::int64_t odd_in = odd_pitch(int(in)), odd_out = odd_pitch(int(out));
  return rows * in * out <= kMaxSmallProducts && (rows + out) * odd_in <= kMaxSmallOperands &&
         rows * odd_out + out * odd_in <= kMaxSmallOperands &&
         rows * (team_pitch(int(in)) + team_pitch(int(out))) <= kMaxSmallOperands;
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

/// A matrix in shared memory, where any thread finds any element in a few cycles.
struct Staged {
  const float* rows;
  int pitch;
  __device__ const float* row(int r) const { return rows + r * pitch; }
};

/// Two of them, one after the other.
struct StagedPair {
  /// By all threads of the block, which meet. What is after `shared` is free since they met last.
  __device__ StagedPair(const float* from_a,
                        int a_rows,
                        int a_columns,
                        int a_pitch,
                        const float* from_b,
                        int b_rows,
                        int b_columns,
                        int b_pitch,
                        unsigned char* shared)
      : a(stage(from_a, a_rows, a_columns, a_pitch, reinterpret_cast<float*>(shared))),
        b(stage(from_b,
                b_rows,
                b_columns,
                b_pitch,
                reinterpret_cast<float*>(shared) + a_rows * a_pitch)) {
    __syncthreads();
  }
  Staged a, b;

 private:
  __device__ static Staged stage(const float* from, int rows, int columns, int pitch, float* to) {
    for (int i = int(threadIdx.x); i < rows * columns; i += int(blockDim.x)) {
      const int row = i / columns;
      to[row * pitch + i - row * columns] = from[i];
    }
    return {to, pitch};
  }
};

/// An element of y a thread, its products added in order.
__device__ inline void run_step(const SmallLinear& s, unsigned char* shared) {
  const int pitch = odd_pitch(s.in);
  const StagedPair staged(s.x, s.rows, s.in, pitch, s.weight, s.out, s.in, pitch, shared);
  for (int e = int(threadIdx.x); e < s.rows * s.out; e += int(blockDim.x)) {
    const int row = e / s.out, column = e - row * s.out;
    const float* const x = staged.a.row(row);
    const float* const weight = staged.b.row(column);
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
  const StagedPair staged(
      s.dy, s.rows, s.out, odd_pitch(s.out), s.weight, s.out, s.in, odd_pitch(s.in), shared);
  for (int e = int(threadIdx.x); e < s.rows * s.in; e += int(blockDim.x)) {
    const int row = e / s.in, column = e - row * s.in;
    const float* const dy = staged.a.row(row);
    float sum = 0.0f;
#pragma unroll 4
    for (int o = 0; o < s.out; ++o) sum = fmaf(dy[o], staged.b.row(o)[column], sum);
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
  const StagedPair staged(
      s.x, s.rows, s.in, team_pitch(s.in), s.dy, s.rows, s.out, team_pitch(s.out), shared);
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
        sum = fmaf(staged.b.row(row)[o], of_bias ? 1.0f : staged.a.row(row)[i], sum);
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
