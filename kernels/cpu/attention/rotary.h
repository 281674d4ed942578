// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// The loop of rotary positions: see ops::Rotary.
namespace lockstep::cpu {

/// Some heads of all tokens on their way from one tensor to another.
template <typename T>
struct RotaryPart {
  const T* from = nullptr;
  T* to = nullptr;
  std::int64_t from_row = 0, to_row = 0;  ///< elements between tokens
  std::int64_t heads = 0;
  bool turns = true;  ///< false: copied as they are
};

template <typename T>
struct RotaryArgs {
  RotaryPart<T> parts[3] = {};
  std::int64_t samples = 0, tokens = 0;
  std::int64_t token = 0;          ///< of every sample
  std::int64_t pairs = 0;          ///< half the columns of a head
  const float* cosines = nullptr;  ///< of the token, [pairs]
  const float* sines = nullptr;    ///< as these; negative ones turn back
};

/// Turns one token of each sample.
LOCKSTEP_STORED_LOOP(void, rotary, (const RotaryArgs<T>& args));

}  // namespace lockstep::cpu
