// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::cpu {

/// Note [Loops for several instruction sets]
///
/// Own loops live in kernels/cpu/loops/*.cpp, those of optimizers in kernels/cpu/optimizers/*.cpp.
/// CMake compiles each of these files for every set of the processor's family, with LOCKSTEP_ISA
/// defined as its name: twice on x86, for x86-64-v3 (`avx2`) and x86-64-v4 (`avx512`), once on
/// arm64 (`neon`). The file puts its functions into `namespace lockstep::cpu::LOCKSTEP_ISA`. A
/// header declares them:
///
///     LOCKSTEP_LOOP(void, relu, (float* y, const float* x, std::int64_t elems));
///
/// and a kernel fetches the one for this processor, once, at its construction:
///
///     decltype(&baseline::relu) relu_ = LOCKSTEP_CHOOSE(relu);
///
/// where `baseline` is the set that every processor of the family must have.
///
/// A loop over activations is a template over the type they are stored as, float or Bf16:
/// LOCKSTEP_STORED_LOOP declares it in terms of `T`, the file of loops/ defines the template and
/// ends with LOCKSTEP_INSTANTIATE(relu), and the kernel fetches LOCKSTEP_CHOOSE(relu<T>).
///
/// Such a file must define no function with external linkage outside `LOCKSTEP_ISA`: the linker
/// keeps one copy of such a function, perhaps the AVX-512 one, for the whole program. An inline
/// function or a template of a header is defined where it is used. So use none but those of
/// loops/simd.h and of plain structs; headers that only declare others, as those of optimizers do
/// with <vector>, may be included. tests/lint/check_loop_symbols.py looks at the object files.
/// Contraction is off: a fused multiply-add happens where the code says `fma`.
///
/// On arm64 the loops are those of `avx2`, vectors of eight lanes: the library SIMDe
/// (https://github.com/simd-everywhere/simde) makes two NEON instructions of one AVX2 intrinsic.
enum class Isa { neon, avx2, avx512 };

#if defined(__aarch64__)
namespace neon {}
namespace baseline = neon;
#else
namespace avx2 {}
namespace baseline = avx2;
#endif

/// The set that every processor of this one's family has to have.
constexpr Isa baseline_isa() {
#if defined(__aarch64__)
  return Isa::neon;
#else
  return Isa::avx2;
#endif
}
/// The best set that this processor and its operating system have.
/// Throws EnvironmentError: an x86 processor without AVX2 and FMA.
Isa best_isa();
/// The set that LOCKSTEP_CHOOSE takes: best_isa() until use_isa() says otherwise.
Isa isa();
/// For tests of all sets: what is chosen from now on uses `isa`. Not for several threads.
/// Throws EnvironmentError: the processor lacks it.
void use_isa(Isa isa);

std::string_view name_of(Isa isa);

#if defined(__aarch64__)

#define LOCKSTEP_LOOP(result, name, parameters) \
  namespace neon {                              \
  result name parameters;                       \
  }

#define LOCKSTEP_STORED_LOOP(result, name, parameters) \
  namespace neon {                                     \
  template <typename T>                                \
  result name parameters;                              \
  }

#define LOCKSTEP_CHOOSE(name) (&::lockstep::cpu::neon::name)

#else

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

#define LOCKSTEP_CHOOSE(name)                                                              \
  (::lockstep::cpu::isa() == ::lockstep::cpu::Isa::avx512 ? &::lockstep::cpu::avx512::name \
                                                          : &::lockstep::cpu::avx2::name)

#endif

#define LOCKSTEP_INSTANTIATE(name)            \
  template decltype(name<float>) name<float>; \
  template decltype(name<Bf16>) name<Bf16>

}  // namespace lockstep::cpu
