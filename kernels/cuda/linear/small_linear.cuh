// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activations/activation.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/step/staged.cuh"
#include "kernels/cuda/vector_access.cuh"

/// Fully connected layers so small that a library's launch takes longer than their work, in fp32,
/// by one block with any multiple of 32 threads. A sum's order follows from the extents alone.
namespace lockstep::cuda {

/// What one block does in about the time of a launch, some 3,000 cycles. Loads from shared memory,
/// of which a multiprocessor takes 32 words a cycle, are 16 products a cycle where no two lanes
/// want the same bank, which is what rows of staged operands are padded for; a sum's terms, which
/// one thread adds in order, take some 10 cycles each; and operands have to fit.
inline constexpr std::int64_t kMaxSmallProducts = 32768, kMaxSmallExtent = 256;
inline constexpr std::int64_t kMaxSmallOperands = 8192;  // elements of both of a product, padded

/// Length of rows that lanes read at different rows and one column: odd.
__host__ __device__ constexpr int odd_pitch(int columns) { return columns | 1; }

/// Whether the layer's three products are small.
constexpr bool is_small_layer(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const std::int64_t most = kMaxSmallExtent;
  if (rows > most || in > most || out > most || rows * in * out == 0) return false;
  const std::int64_t odd_in = odd_pitch(int(in)), odd_out = odd_pitch(int(out));
  return rows * in * out <= kMaxSmallProducts && (rows + out) * odd_in <= kMaxSmallOperands &&
         rows * odd_out + out * odd_in <= kMaxSmallOperands &&
         rows * (staged_pitch(int(in)) + staged_pitch(int(out))) <= kMaxSmallOperands;
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
  StagedAt x_at, weight_at;           ///< in shared memory
  StagedAt bias_at, y_at, before_at;  ///< there as well, or nowhere
  Inverse by_out;
};

/// dx = dy W, or (dy W) f'(h); a ReLU's gradient after that, where the next kernel is one.
struct SmallLinearBwdData {
  const float* dy;      ///< [rows, out]
  const float* weight;  ///< [out, in]
  const float* h;       ///< [rows, in]; null: without f
  float* dx;            ///< [rows, in]
  std::int32_t rows, in, out;
  ops::Activation activation;  ///< f: none or a GELU
  StagedAt dy_at, weight_at;   ///< in shared memory
  StagedAt h_at, dx_at;        ///< there as well, or nowhere
  StagedAt relu_y_at, before_relu_at;
  const float* relu_y;  ///< [rows, in]; null: no ReLU
  float* before_relu;   ///< [rows, in]; null: not wanted
  Inverse by_in;
};

/// dW = dy^T x, db = the sums of dy's columns
struct SmallLinearBwdWeights {
  const float* x;   ///< [rows, in]
  const float* dy;  ///< [rows, out]
  float* dweight;   ///< [out, in]
  float* dbias;     ///< [out]; null: not wanted
  std::int32_t rows, in, out;
  bool weight_accumulates, bias_accumulates;  ///< where the run does
  StagedAt x_at, dy_at;                       ///< in shared memory
  Inverse by_columns;                         ///< of dW, and of db as one more
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

/// An element of y a thread, its products added in order.
__device__ inline void run_step(const SmallLinear& s, float* shared) {
  constexpr int kPack = Pack<float>::kElems;
  const int pitch = staged_pitch(s.in);
  for (int e = int(threadIdx.x); e < s.rows * s.out; e += int(blockDim.x)) {
    const int row = quotient(e, s.by_out), column = e - row * s.out;
    const float* x = shared + s.x_at + row * pitch;
    const float* weight = shared + s.weight_at + column * pitch;
    float sum = 0.0f;
    int left = s.in;
#pragma unroll 1
    for (; left >= kPack; left -= kPack, x += kPack, weight += kPack) {
      const Pack<float> a = load_pack(x), b = load_pack(weight);
      for (int k = 0; k < kPack; ++k) sum = fmaf(a.values[k], b.values[k], sum);
    }
    for (int k = 0; k < kPack - 1; ++k)
      if (left > k) sum = fmaf(x[k], weight[k], sum);
    if (s.bias != nullptr)
      sum += is_staged(s.bias_at) ? shared[s.bias_at + column] : s.bias[column];
    const int place = row * staged_pitch(s.out) + column;
    if (s.before != nullptr) s.before[e] = sum;
    if (is_staged(s.before_at)) shared[s.before_at + place] = sum;
    const float y = activated(s.activation, sum);
    s.y[e] = y;
    if (is_staged(s.y_at)) shared[s.y_at + place] = y;
  }
}

/// An element of dx a thread, its products added in order.
__device__ inline void run_step(const SmallLinearBwdData& s, float* shared) {
  constexpr int kPack = Pack<float>::kElems;
  const int pitch = staged_pitch(s.in), dy_pitch = staged_pitch(s.out);
  for (int e = int(threadIdx.x); e < s.rows * s.in; e += int(blockDim.x)) {
    const int row = quotient(e, s.by_in), column = e - row * s.in;
    const float* dy = shared + s.dy_at + row * dy_pitch;
    const float* weight = shared + s.weight_at + column;
    float sum = 0.0f;
    int left = s.out;
#pragma unroll 1
    for (; left >= kPack; left -= kPack, dy += kPack) {
      const Pack<float> a = load_pack(dy);
      for (int k = 0; k < kPack; ++k, weight += pitch) sum = fmaf(a.values[k], *weight, sum);
    }
    for (int k = 0; k < kPack - 1; ++k, weight += pitch)
      if (left > k) sum = fmaf(dy[k], *weight, sum);
    const int place = row * pitch + column;
    if (s.activation != ops::Activation::none) {
      const float h = is_staged(s.h_at) ? shared[s.h_at + place] : s.h[e];
      if (s.activation == ops::Activation::gelu_erf) sum = GeluErfGradient<float>{}(sum, h);
      if (s.activation == ops::Activation::gelu_tanh) sum = GeluTanhGradient<float>{}(sum, h);
    }
    if (s.relu_y != nullptr) {
      if (s.before_relu != nullptr) s.before_relu[e] = sum;
      if (is_staged(s.before_relu_at)) shared[s.before_relu_at + place] = sum;
      sum = ReluGradient{}(sum, is_staged(s.relu_y_at) ? shared[s.relu_y_at + place] : s.relu_y[e]);
    }
    s.dx[e] = sum;
    if (is_staged(s.dx_at)) shared[s.dx_at + place] = sum;
  }
}

/// Eight threads an element of dW or db: each adds every eighth row's product in order, then they
/// add pairwise.
__device__ inline void run_step(const SmallLinearBwdWeights& s, bool accumulate, float* shared) {
  constexpr int kLanes = 8;
  const int x_pitch = staged_pitch(s.in), dy_pitch = staged_pitch(s.out);
  constexpr int kTeams = kWarp / kLanes;  // of a warp
  const int lane = int(threadIdx.x) % kLanes, team = int(threadIdx.x) % kWarp / kLanes;
  const int teams = int(blockDim.x) / kLanes;
  const int columns = s.in + (s.dbias != nullptr ? 1 : 0);
  // The threads of a warp go round as often: they meet in the shuffles.
  for (int first = int(threadIdx.x) / kWarp * kTeams; first < s.out * columns; first += teams) {
    const int e = first + team, o = quotient(e, s.by_columns), i = e - o * columns;
    const bool exists = e < s.out * columns, of_bias = i == s.in;
    float sum = 0.0f;
    if (exists) {
      const float* dy = shared + s.dy_at + lane * dy_pitch + o;
      const float* x = of_bias ? shared + kStagedOne : shared + s.x_at + lane * x_pitch + i;
      const int x_stride = of_bias ? 0 : kLanes * x_pitch;
#pragma unroll 4
      for (int row = lane; row < s.rows; row += kLanes, dy += kLanes * dy_pitch, x += x_stride)
        sum = fmaf(*dy, *x, sum);
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
