// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/progress_context.h"

#include "core/host/process_memory.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kRoomToMeasure = std::uint64_t{1} << 30;

/// A second; 0 where it cannot be measured.
double peak_of_device(Backend& backend, Precision precision) {
  try {
    const DevicePeaks peaks = backend.measure_peaks();
    return_free_memory();
    const bool bf16 = precision == Precision::bf16 && backend.multiplies_bf16();
    return bf16 ? peaks.bf16_flops : peaks.fp32_flops;
  } catch (const std::exception&) {
    return 0;  // a missing line must not end a run
  }
}

}  // namespace

ProgressContext progress_context(Job& job,
                                 const MemoryPlan& plan,
                                 Precision precision,
                                 bool measures_peak,
                                 std::uint64_t headroom_bytes) {
  ProgressContext facts{.flops_per_step = plan.flops_per_step,
                        .planned_bytes = job.gpu() ? 0 : plan.table.total()};
  // What measuring holds must not count as the most that training has held.
  if (measures_peak && headroom_bytes >= kRoomToMeasure && precision != Precision::tf32 &&
      forget_peak_resident()) {
    facts.peak_flops = peak_of_device(job.backend(), precision) * job.size();
    forget_peak_resident();
  }
  return facts;
}

}  // namespace lockstep
