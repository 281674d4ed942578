// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/vector_access.cuh"

// Elementwise functions. A thread computes one pack of 16 bytes of the output at a time and walks
// on by the grid; the last elements that fill no pack are done one by one by the first threads.
// Bytes: each input and the output once. Bound by memory.
namespace lockstep::cuda {

/// y[i] = function(inputs[i]...), in fp32. y may be one of the inputs.
template <typename Function, typename T, typename... Inputs>
__global__ void map_kernel(Function function, T* y, std::int64_t elems, const Inputs*... inputs) {
  wait_for_earlier_work();
  static_assert(((sizeof(Inputs) == sizeof(T)) && ...), "packs of one size");
  constexpr int kElems = Pack<T>::kElems;
  const std::int64_t packs = elems / kElems;
  for (std::int64_t p = global_thread(); p < packs; p += all_threads()) {
    Pack<T> result;
    [&](const auto&... loaded) {
      for (int i = 0; i < kElems; ++i)
        result.values[i] = from_float<T>(function(to_float(loaded.values[i])...));
    }(load_pack(inputs + p * kElems)...);
    store_pack(y + p * kElems, result);
  }
  for (std::int64_t i = packs * kElems + global_thread(); i < elems; i += all_threads())
    y[i] = from_float<T>(function(to_float(inputs[i])...));
}

/// Enqueues map_kernel under the name `what`. Pointers are aligned to 16 bytes.
template <typename Function, typename T, typename... Inputs>
void map(const char* what,
         Function function,
         T* y,
         std::int64_t elems,
         cudaStream_t stream,
         const Inputs*... inputs) {
  launch(what,
         cover(ceil_div(elems, Pack<T>::kElems)),
         stream,
         map_kernel<Function, T, Inputs...>,
         function,
         y,
         elems,
         inputs...);
}

}  // namespace lockstep::cuda
