// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#include "core/base/check.h"
#if !defined(__aarch64__)
#include <cpuid.h>
#endif

namespace lockstep::cpu {
namespace {

#if !defined(__aarch64__)
// Part by part, as neither GCC 11 nor Clang 16 know the levels by their names.
bool has_x86_64_v3() {
  unsigned a = 0, b = 0, basic = 0, extended = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &basic, &d) || !__get_cpuid(0x80000001, &a, &b, &extended, &d))
    return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         (basic & bit_F16C) != 0 && (basic & bit_MOVBE) != 0 && (extended & bit_LZCNT) != 0;
}

bool has_x86_64_v4() {
  return has_x86_64_v3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

Isa detect() {
#if defined(__aarch64__)
  return Isa::neon;
#else
  __builtin_cpu_init();
  if (has_x86_64_v4()) return Isa::avx512;
  if (has_x86_64_v3()) return Isa::avx2;
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
