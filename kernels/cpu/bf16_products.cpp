// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bf16_products.h"

#include "kernels/cpu/isa.h"

namespace lockstep::cpu {

Bf16Products bf16_products() {
  return isa() == Isa::avx512 ? library_bf16_products() : Bf16Products::widened;
}

std::string_view name_of(Bf16Products products) {
  switch (products) {
    case Bf16Products::amx:
      return "amx";
    case Bf16Products::avx512_bf16:
      return "avx512_bf16";
    case Bf16Products::widened:
      break;
  }
  return "widened";
}

}  // namespace lockstep::cpu
