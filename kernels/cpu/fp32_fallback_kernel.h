// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/exec/kernel.h"

namespace lockstep::cpu {

/// The kernel that `make` gives for `spec` with fp32 in place of bf16, between widening loops for
/// its bf16 inputs and rounding ones for its bf16 outputs: bf16 for operators, or processors, that
/// have no bf16 arithmetic. Rounds once, where the result is stored.
/// `weight_input`: a parameter whose values are to be rounded to bf16 first, as GEMMs that read
/// packed bf16 copies see them; -1 where there is none.
std::unique_ptr<Kernel> make_fp32_fallback_kernel(
    const KernelSpec& spec,
    int weight_input,
    const std::function<std::unique_ptr<Kernel>(const KernelSpec&)>& make);

/// Whether an input or output of `spec` is bf16.
bool has_bf16(const KernelSpec& spec);

}  // namespace lockstep::cpu
