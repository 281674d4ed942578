// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/advice/memory_format.h"
#include "launcher/plan/forecast.h"
#include "launcher/settings/train_flags.h"
#include "parallel/exchange/host_traffic.h"
#include "parallel/memory/memory_plan.h"

namespace lockstep {

/// Everything that `lockstep plan` says.
struct PlanReport {
  TrainFlags flags;
  std::string data;    ///< what the samples are
  std::string device;  ///< whose kernels were planned
  std::string note;    ///< of the device; may be empty
  TableSubject subject;
  MemoryPlan plan;
  bool fits_nothing = false;  ///< --recompute auto fits nothing: `plan` is what comes closest
  std::vector<MicroBatchRow> rows;
  /// With --memory-limit: what --recompute as asked allows, and --recompute auto.
  std::optional<LargestMicroBatch> largest, largest_recomputing;
  /// Where those are 0: the micro-batch that takes the least.
  std::optional<MinMemory> least, min_recomputing;
  std::optional<MemoryAdvice> advice;  ///< where `plan` does not fit
  std::optional<Forecast> forecast;    ///< with --network
  int ranks_per_host = 0;              ///< of --ranks-per-host or --network; 0: not known
  std::optional<HostTraffic> traffic;  ///< where that is known
};

/// For people, `layers` with a table by layer.
std::string to_text(const PlanReport& report, bool layers);
/// One object: see the README.
std::string to_json(const PlanReport& report, bool layers);

}  // namespace lockstep
