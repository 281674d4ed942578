// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

/// What GEMMs in bf16 need around them. Pointers are aligned to 16 bytes; everything is enqueued
/// on the device's compute stream.
namespace lockstep::cuda {

/// The bf16 copy of a parameter, rounded to nearest even.
void round_to_bf16(const Device& device, void* copy, const float* parameter, std::int64_t elems);

/// gradient[i] = values[i] + (accumulate ? gradient[i] : 0), in fp32; `type`: of the values.
void store_gradient(const Device& device,
                    float* gradient,
                    const void* values,
                    DType type,
                    std::int64_t elems,
                    bool accumulate);

}  // namespace lockstep::cuda
