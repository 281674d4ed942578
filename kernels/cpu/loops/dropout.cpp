// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/philox.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

template <typename T>
LOCKSTEP_INLINE void drop(
    T* y, const T* x, VecU words, std::int64_t count, const DropoutStream& stream) {
  const VecU threshold = stream.threshold - VecU{};
  const Vec scale = broadcast(stream.scale);
  if (count >= kLanes) {
    store(y, words >= threshold ? load(x) * scale : zero());
  } else {
    const Mask lanes = first_lanes(count);
    store(y, words >= threshold ? load(x, lanes) * scale : zero(), lanes);
  }
}

}  // namespace

template <typename T>
void dropout(T* y,
             const T* x,
             std::int64_t samples,
             std::int64_t sample_elems,
             const DropoutStream& stream) {
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t e = 0; e < sample_elems; e += kPhiloxStep) {
      const Words words =
          philox_words(stream, stream.first_sample + std::uint64_t(n), std::uint64_t(e) / 4);
      for (int v = 0; v < 2 * kPhiloxSets; ++v) {
        const std::int64_t done = e + v * kLanes, i = n * sample_elems + done;
        if (done >= sample_elems) break;
        drop(y + i, x + i, words.vectors[v], sample_elems - done, stream);
      }
    }
}

LOCKSTEP_INSTANTIATE(dropout);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
