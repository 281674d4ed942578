// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/linear/bias.h"

// The bias after a GEMM, for those whose epilogue the library does not take. A thread handles
// 16 bytes of a row of y, or one element where rows do not start at multiples of that, and walks on
// by as many whole rows as the grid covers, so that it reads its part of the bias once. Bytes: the
// values read and y written once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kBlocksOfMultiprocessor = 16;

template <typename From, typename To, int N>
__global__ void add_bias_kernel(
    To* y, const From* values, const float* bias, std::int64_t groups_of_row, std::int64_t groups) {
  wait_for_earlier_work();
  const std::int64_t step = all_threads() / groups_of_row * groups_of_row;
  const std::int64_t first = global_thread();
  if (first >= step || first >= groups) return;
  const Floats<N> b = load_floats<N>(bias + first % groups_of_row * N);
  for (std::int64_t g = first; g < groups; g += step) {
    Floats<N> sum = b;
    if (values != nullptr) {
      const Floats<N> value = load_floats<N>(values + g * N);
      for (int i = 0; i < N; ++i) sum.values[i] += value.values[i];
    }
    store_floats(y + g * N, sum);
  }
}

template <typename From, typename To>
void add(const Device& device, const BiasAddition& w) {
  with_width<To>(w.columns, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const std::int64_t groups_of_row = w.columns / kWidth;
    const std::int64_t groups = w.rows * groups_of_row;
    // At least one whole row.
    const std::int64_t most =
        std::max(device.multiprocessors * kBlocksOfMultiprocessor, ceil_div(groups_of_row, kBlock));
    launch("add_bias",
           cover(groups, most),
           device.compute,
           add_bias_kernel<From, To, kWidth>,
           static_cast<To*>(w.y),
           static_cast<const From*>(w.values),
           w.bias,
           groups_of_row,
           groups);
  });
}

}  // namespace

void add_bias(const Device& device, const BiasAddition& what) {
  if (what.rows == 0 || what.columns == 0) return;
  if (what.type == DType::f32)
    add<float, float>(device, what);
  else if (what.values_type == DType::f32)
    add<float, Bf16>(device, what);
  else
    add<Bf16, Bf16>(device, what);
}

}  // namespace lockstep::cuda
