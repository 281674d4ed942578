// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convert.h"
#include "tests/gpu/rates.h"

namespace lockstep::rates {

/// Gradients of weights that a convolution leaves in its workspace, on their way to the flat space:
/// a part of conv2d_bwd_weights, alone.
void time_store_gradient(Rates& rates) {
  const std::int64_t elems = rates.small() ? 1000 : std::int64_t{25} << 20;
  Backend& backend = rates.backend();
  cuda::Device device;
  device.compute = static_cast<cudaStream_t>(backend.native_stream());
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool accumulate : {false, true}) {
      const TensorType values{{elems}, type};
      const std::size_t bytes = values.bytes() + (accumulate ? 2 : 1) * f32({elems}).bytes();
      rates.time({.name = accumulate ? "store_gradient accumulated" : "store_gradient",
                  .shape = values.shape.to_string(),
                  .type = type},
                 {.flops = 0, .bytes = double(bytes)},
                 f32({elems}).bytes(),
                 [&] {
                   return [=, from = rates.filled(values), to = rates.filled(f32({elems}))] {
                     cuda::store_gradient(
                         device, to->as<float>(), from->data(), type, elems, accumulate);
                   };
                 });
    }
}

}  // namespace lockstep::rates
