// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "tests/benchmarks/operator_run.h"

namespace lockstep {

/// What all cases use, for the whole run.
struct Machine {
  Backend& backend;
  DevicePeaks peaks;
};

/// Times `run` and counts GFLOP/s, GB/s of the bytes that it must move, and percent of the
/// roofline.
inline void time_operator(benchmark::State& state, OperatorRun& run, const Machine& machine) {
  const double begin = thread_seconds();
  for (auto _ : state) {
    run.run();
    benchmark::ClobberMemory();
  }
  const double seconds = (thread_seconds() - begin) / double(state.iterations());
  const Cost cost = run.cost();
  state.counters["GFLOP/s"] = cost.flops / seconds * 1e-9;
  state.counters["GB/s"] = cost.bytes / seconds * 1e-9;
  state.counters["roofline%"] = run.roofline_percent(seconds, machine.peaks);
}

/// Measures the peaks that the counters are shares of and notes them in the report's heading.
inline Machine measured(Backend& backend) {
  const DevicePeaks peaks = backend.measure_peaks();
  benchmark::AddCustomContext("device", backend.device_class());
  benchmark::AddCustomContext("peaks",
                              fmt::format("{:.1f} GFLOP/s fp32, {:.1f} bf16, {:.1f} GB/s",
                                          peaks.fp32_flops * 1e-9,
                                          peaks.bf16_flops * 1e-9,
                                          peaks.bytes * 1e-9));
  return {backend, peaks};
}

}  // namespace lockstep
