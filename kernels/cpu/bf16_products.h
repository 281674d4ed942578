// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::cpu {

/// What multiplies bf16 here. The bits of bf16 programs depend on it.
enum class Bf16Products {
  amx,          ///< AMX tiles
  avx512_bf16,  ///< vdpbf16ps
  widened,      ///< fp32 GEMMs of widened values: no faster than fp32
};
/// library_bf16_products(); `widened` where isa() is not avx512.
Bf16Products bf16_products();
std::string_view name_of(Bf16Products products);

/// What the matrix library, which computes them, multiplies bf16 with on this processor, AVX-512
/// given. Defined in onednn/ and absent/, as the rest of matrix_library.h.
Bf16Products library_bf16_products();

}  // namespace lockstep::cpu
