// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "tests/ops/op_case.h"

namespace lockstep::test {

/// An f32 tensor rounded to bf16, to nearest even.
HostTensor rounded_to_bf16(const HostTensor& tensor);

/// The same case with bf16 activations; none where its operator has none, or they already are.
/// Weights that a kernel packs as bf16 are given values that bf16 holds, so that the reference sees
/// what the kernel does.
std::optional<OpCase> bf16_variant(const OpCase& test_case);

}  // namespace lockstep::test
