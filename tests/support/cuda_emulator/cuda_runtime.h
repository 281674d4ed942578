// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kernels/cuda sees in place of CUDA's header where it is compiled as C++ for the emulator:
// see Note [How the emulator works] in block_run.h.

#include "tests/support/cuda_emulator/device_functions.h"
#include "tests/support/cuda_emulator/device_math.h"
#include "tests/support/cuda_emulator/launch.h"
#include "tests/support/cuda_emulator/runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
