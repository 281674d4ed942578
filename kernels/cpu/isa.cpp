// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#include "core/base/check.h"

namespace lockstep::cpu {
namespace {

Isa detect() {
#if defined(__aarch64__)
  return Isa::neon;
#else
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::avx2;
  throw EnvironmentError("the CPU backend needs a processor with AVX2 and FMA, this one has not",
                         "run on an x86-64-v3 processor (Intel Haswell, AMD Zen, or newer)");
#endif
}

/// The set for kernels made from now on.
Isa& chosen() {
  static Isa isa = best_isa();
  return isa;
}

}  // namespace

Isa best_isa() {
  static const Isa best = detect();
  return best;
}

Isa isa() { return chosen(); }

void use_isa(Isa isa) {
  LOCKSTEP_CHECK(baseline_isa() <= isa && isa <= best_isa(),
                 EnvironmentError,
                 "this processor lacks {}",
                 name_of(isa));
  chosen() = isa;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::neon:
      return "neon";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      break;
  }
  return "avx512";
}

}  // namespace lockstep::cpu
