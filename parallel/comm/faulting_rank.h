// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// What an error that every rank throws alike knows of the one rank that caused it: a second base,
/// in addition to a class of lockstep/error.h. Records of the fault then name that rank.
struct FaultingRank {
  int rank = -1;
  std::string host = {};
  std::int64_t step = 0;  ///< of the fault, from 1; 0: unknown
};

}  // namespace lockstep
