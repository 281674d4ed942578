// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/simulated_storms.h"

#include <algorithm>
#include <chrono>

#include "core/host/process_memory.h"
#include "core/optim/optimizer.h"
#include "launcher/simulate/fault_source.h"

namespace lockstep {
namespace {

StormRequest request_of(const SimulateFlags& flags, const SimulatedRuns& exact) {
  const TrainOptions& options = flags.train.options;
  const std::size_t arrays = 1 + state_names(options.optimizer).size() + (options.ema.on() ? 1 : 0);
  StormRequest request;
  request.ranks = flags.storm_ranks;
  request.ranks_per_host = flags.network.ranks_per_host;
  request.seconds = flags.storm.hours * 3600;
  request.startup_s = exact.startup_s;
  request.step_s = exact.step_s;
  request.micro_batches = double(exact.max_micro_batches);
  request.spread = flags.spread;
  request.checkpoint_bytes = double(exact.parameter_elems) * double(sizeof(float)) * double(arrays);
  request.copy_bytes_per_s = simulation::DeviceModel{}.copy_bytes_per_s;
  request.network_bytes_per_s = flags.network.between.bytes_per_s;
  request.storage_bytes_per_s = flags.storm.storage_gbps * 1e9;
  request.launch_s = flags.storm.launch_s;
  request.every_steps = options.checkpoint.every_steps;
  request.every_seconds = options.checkpoint.every_seconds;
  request.has_snapshots = flags.train.snapshots;
  request.snapshot_seconds = options.checkpoint.snapshot_seconds;
  request.snapshot_bytes_per_s = flags.storm.snapshot_gbps * 1e9;
  request.limits = flags.train.watch;
  request.max_restarts = int(flags.storm.max_restarts);
  request.backoff_s = flags.storm.backoff_s;
  return request;
}

}  // namespace

std::vector<SimulatedStorm> simulate_storms(const SimulateFlags& flags,
                                            const SimulatedRuns& exact) {
  std::vector<SimulatedStorm> storms;
  if (!flags.storm.any() || !exact.failures.empty() || exact.step_s <= 0) return storms;
  const StormRequest request = request_of(flags, exact);
  for (std::int64_t i = 0; i < flags.storm.storms; ++i) {
    SimulatedStorm& storm = storms.emplace_back();
    storm.request = request;
    storm.request.seed = flags.train.options.seed + std::uint64_t(i);
    storm.request.faults = flags.storm.planted;
    if (flags.storm.mean_s > 0)
      storm.request.faults = draw_faults(flags.storm.mean_s,
                                         request.seconds,
                                         request.ranks,
                                         request.ranks_per_host,
                                         storm.request.seed);
    const auto begin = std::chrono::steady_clock::now();
    storm.result = run_storm(storm.request);
    storm.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    storm.peak_bytes = peak_resident_bytes();
  }
  return storms;
}

bool held(std::span<const SimulatedStorm> storms) {
  return std::ranges::all_of(
      storms, [](const SimulatedStorm& storm) { return storm.result.wrongly_named == 0; });
}

}  // namespace lockstep
