// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/job.h"
#include "lockstep/progress.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// What the live line says in addition to a run's records, from its plan. `measures_peak`: has the
/// device show what it can, which takes some tenths of a second and, on the CPU, 0.2 GiB for that
/// time; to be asked on all ranks or none, since they share a machine's memory. The peak stays
/// unknown where `headroom_bytes` are too few for that, and for tf32, whose peak nothing measures.
ProgressContext progress_context(Job& job,
                                 const MemoryPlan& plan,
                                 Precision precision,
                                 bool measures_peak,
                                 std::uint64_t headroom_bytes);

}  // namespace lockstep
