// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"

/// What weights that ranks send each other as bf16 rely on, on every device: Note [Weights in
/// bf16].
namespace lockstep::test {

/// Backend::pack_weights() and unpack_weights(), and the hash of what they leave.
void expect_weight_messages(Backend& backend);

/// Kernels that read a weight as bf16 have the same bits from the weight and from what comes out of
/// a message.
void expect_bits_of_rounded_weights(Backend& backend, bool exact_memory);

}  // namespace lockstep::test
