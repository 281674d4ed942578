// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/io/checkpoint/checkpoint.h"

namespace lockstep::io {

/// state.json. Numbers keep every bit; NaN is null, infinities are "inf" and "-inf". Throws
/// DataError naming the setting that is not UTF-8.
std::string to_text(const CheckpointState& state);

/// Throws DataError naming `file` and the key that is missing, unknown or malformed.
CheckpointState parse_state(const std::string& file, std::string_view text);

}  // namespace lockstep::io
