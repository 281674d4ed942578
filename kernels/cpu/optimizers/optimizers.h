// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/backend.h"

/// Backend's functions of the same names.
namespace lockstep::cpu {

void sgd_update(const SgdUpdate& update, std::span<const FlatRange> ranges);
void adamw_update(const AdamwUpdate& update, std::span<const FlatRange> ranges);

}  // namespace lockstep::cpu
