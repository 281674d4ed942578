// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/peaks.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "core/base/error.h"
#include "kernels/cpu/dnnl_common.h"
#include "kernels/cpu/elementwise.h"

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

/// Weights in the layout that the library likes best, as the kernels have them.
double product_flops(dnnl::memory::data_type type) {
  return translate("peak measurement", [&] {
    const auto plain = [&](dnnl::memory::format_tag tag) {
      return dnnl::memory::desc({kSize, kSize}, type, tag);
    };
    const auto a = plain(dnnl::memory::format_tag::ab), any = plain(dnnl::memory::format_tag::any);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, any, a), dnnl_engine());
    std::vector<float> zeros(std::size_t(kSize * kSize) * 2);
    const dnnl::memory left(a, dnnl_engine(), zeros.data());
    const dnnl::memory right(description.weights_desc(), dnnl_engine());
    const dnnl::memory result(a, dnnl_engine());
    std::fill_n(static_cast<std::byte*>(right.get_data_handle()),
                right.get_desc().get_size(),
                std::byte{0});
    const dnnl::matmul product(description);
    dnnl::stream stream(dnnl_engine());
    const double seconds = best_seconds([&] {
      product.execute(stream,
                      {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
      stream.wait();
    });
    return 2.0 * double(kSize * kSize * kSize) / seconds;
  });
}

double stream_bytes() {
  std::vector<float> a(std::size_t(kStreamElems), 1.0f), b(a), out(a);
  const auto add = LOCKSTEP_CHOOSE(add<float>);
  const double seconds = best_seconds([&] { add(out.data(), a.data(), b.data(), kStreamElems); });
  return 3.0 * double(kStreamElems) * sizeof(float) / seconds;
}

}  // namespace

DevicePeaks measure_peaks() {
  DevicePeaks peaks{.fp32_flops = product_flops(dnnl::memory::data_type::f32),
                    .bf16_flops = 0,
                    .bytes = stream_bytes()};
  try {
    peaks.bf16_flops = product_flops(dnnl::memory::data_type::bf16);
  } catch (const Error&) {
    // The library has no bf16 product for this processor.
  }
  return peaks;
}

}  // namespace lockstep::cpu
