// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::cpu {

/// Note [Loops for two instruction sets]
///
/// Own loops live in kernels/cpu/loops/*.cpp. CMake compiles each of these files twice, for
/// x86-64-v3 and for x86-64-v4, with LOCKSTEP_ISA defined as `avx2` or `avx512`, and the file puts
/// its functions into `namespace lockstep::cpu::LOCKSTEP_ISA`. A header declares them:
///
///     LOCKSTEP_LOOP(void, relu, (float* y, const float* x, std::int64_t elems));
///
/// and a kernel fetches the one for this processor, once, at its construction:
///
///     decltype(&avx2::relu) relu_ = LOCKSTEP_CHOOSE(relu);
///
/// A loop over activations is a template over the type they are stored as, float or Bf16:
/// LOCKSTEP_STORED_LOOP declares it in terms of `T`, the file of loops/ defines the template and
/// ends with LOCKSTEP_INSTANTIATE(relu), and the kernel fetches LOCKSTEP_CHOOSE(relu<T>).
///
/// What a file of loops/ includes must define no function with external linkage outside
/// `LOCKSTEP_ISA`: the linker keeps one copy of such a function, perhaps the AVX-512 one, for the
/// whole program. So include <cstdint>, loops/simd.h and headers of plain structs, no more.
/// Contraction is off: a fused multiply-add happens where the code says `fma`.
enum class Isa { avx2, avx512 };

/// The best set that this processor and its operating system have.
/// Throws EnvironmentError: no AVX2 with FMA.
Isa best_isa();
/// The set that LOCKSTEP_CHOOSE takes: best_isa() until use_isa() says otherwise.
Isa isa();
/// For tests of both sets: what is chosen from now on uses `isa`. Not for several threads.
/// Throws EnvironmentError: the processor lacks it.
void use_isa(Isa isa);

std::string_view name_of(Isa isa);

/// What multiplies bf16 here. The bits of bf16 programs depend on it.
enum class Bf16Products {
  amx,          ///< AMX tiles
  avx512_bf16,  ///< vdpbf16ps
  widened,      ///< fp32 products of widened values: no faster than fp32
};
/// Asks what the matrix library, which computes them, may use; `widened` where isa() is avx2.
Bf16Products bf16_products();
std::string_view name_of(Bf16Products products);

#define LOCKSTEP_LOOP(result, name, parameters) \
  namespace avx2 {                              \
  result name parameters;                       \
  }                                             \
  namespace avx512 {                            \
  result name parameters;                       \
  }

#define LOCKSTEP_STORED_LOOP(result, name, parameters) \
  namespace avx2 {                                     \
  template <typename T>                                \
  result name parameters;                              \
  }                                                    \
  namespace avx512 {                                   \
  template <typename T>                                \
  result name parameters;                              \
  }

#define LOCKSTEP_INSTANTIATE(name)            \
  template decltype(name<float>) name<float>; \
  template decltype(name<Bf16>) name<Bf16>

#define LOCKSTEP_CHOOSE(name)                                                              \
  (::lockstep::cpu::isa() == ::lockstep::cpu::Isa::avx512 ? &::lockstep::cpu::avx512::name \
                                                          : &::lockstep::cpu::avx2::name)

}  // namespace lockstep::cpu
