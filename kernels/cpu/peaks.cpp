// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/peaks.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matrix_library.h"

namespace lockstep::cpu {
namespace {

/// CPU time of this thread: what neighbours take from it does not lower the peak.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

constexpr std::int64_t kSize = 1024;
constexpr std::int64_t kStreamElems = std::int64_t{1} << 24;  // 64 MiB an array
constexpr int kRuns = 8;

template <typename Work>
double best_seconds(Work work) {
  work();
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const double begin = now();
    work();
    best = std::min(best, now() - begin);
  }
  return best;
}

/// 0 where the library has no such GEMM here.
double product_flops(DType type) {
  const auto product = make_square_matmul(type, kSize);
  return product ? 2.0 * double(kSize * kSize * kSize) / best_seconds(product) : 0;
}

double stream_bytes() {
  std::vector<float> a(std::size_t(kStreamElems), 1.0f), b(a), out(a);
  const auto add = LOCKSTEP_CHOOSE(add<float>);
  const double seconds = best_seconds([&] { add(out.data(), a.data(), b.data(), kStreamElems); });
  return 3.0 * double(kStreamElems) * sizeof(float) / seconds;
}

}  // namespace

DevicePeaks measure_peaks() {
  return {.fp32_flops = product_flops(DType::f32),
          .bf16_flops = product_flops(DType::bf16),
          .bytes = stream_bytes()};
}

}  // namespace lockstep::cpu
