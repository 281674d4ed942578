// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cupti.h>
#include <string>

/// What differs between the CUDA toolkits that this can be built with, 12.4 to 13.x, where a file
/// name (libcupti.so.12, libcupti.so.13) does not say it. Kernels, cuBLASLt, cuDNN and NCCL need
/// nothing here: the functions and types in use have one form in all of them.
namespace lockstep::cuda {

/// Records of CUPTI's activities. Later toolkits append fields and count the names up; the fields
/// read here keep their places in all, and these names are in every toolkit from 12.4 on.
using CuptiKernel = CUpti_ActivityKernel9;
using CuptiCopy = CUpti_ActivityMemcpy5;
using CuptiFill = CUpti_ActivityMemset4;

/// The CUDA that CUPTI's interface `number` belongs to. From CUDA 13.0 on it says so itself, 130001
/// being an update of 13.0; before it was counted: 22 in CUDA 12.4, 28 in 12.9.
constexpr int cupti_cuda_major(std::uint32_t number) {
  if (number >= 130000) return int(number / 10000);
  return number >= 19 ? 12 : number >= 1 ? 11 : 0;
}

/// "13.0", "12 (interface 22)"
inline std::string cupti_version_text(std::uint32_t number) {
  if (number >= 130000)
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100);
  return std::to_string(cupti_cuda_major(number)) + " (interface " + std::to_string(number) + ")";
}

}  // namespace lockstep::cuda
