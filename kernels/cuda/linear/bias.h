// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

namespace lockstep::cuda {

/// y and values: [rows, columns], aligned to 16 bytes as the bias is; y may be `values`.
struct BiasAddition {
  const void* values = nullptr;  ///< null: zeros
  DType values_type = DType::f32;
  const float* bias = nullptr;  ///< [columns]
  void* y = nullptr;
  DType type = DType::f32;  ///< of y: that of the values, or bf16
  std::int64_t rows = 0, columns = 0;
};

/// y[r, c] = values[r, c] + bias[c], added in fp32 and rounded once. Enqueued on the device's
/// compute stream.
void add_bias(const Device& device, const BiasAddition& what);

}  // namespace lockstep::cuda
