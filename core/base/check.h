// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "lockstep/error.h"

/// Throws `ErrorType` with a message in fmt's syntax unless `condition` holds. For input.
#define LOCKSTEP_CHECK(condition, ErrorType, ...)              \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      throw ::lockstep::ErrorType(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Throws InternalError unless an invariant holds. Always on.
#define LOCKSTEP_ASSERT(condition)                                                         \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      throw ::lockstep::InternalError(                                                     \
          ::fmt::format("invariant broken at {}:{}: {}", __FILE__, __LINE__, #condition)); \
  } while (false)
