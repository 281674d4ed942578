// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

namespace lockstep::cpu {

/// y: [samples, 1 + tokens, width]; see ops::ClassToken.
LOCKSTEP_STORED_LOOP(void,
                     class_token,
                     (T * y,
                      const T* x,
                      const float* token,
                      const float* positions,
                      std::int64_t samples,
                      std::int64_t tokens,
                      std::int64_t width));

}  // namespace lockstep::cpu
