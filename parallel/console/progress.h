// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/progress.h"

namespace lockstep {

/// "step 120/940  epoch 0.51  loss 0.1234  acc 96.5%  lr 0.100  12,345 samples/s  21 ms"
std::string step_line(const StepRecord& record);
/// "validation at step 940 (epoch 4): loss 0.0312  acc 99.02%  (1.2 s)"
std::string evaluation_line(const EvaluationRecord& record);

/// "[rank 3 node7] warning: rank 3 is slower than the others: score 1.8 in loading (42.0 ms a
/// micro-batch, median 12.0 ms)"
std::string slow_rank_line(const SlowRankRecord& record);

/// What follows the bar, the most wanted first: "2m 03s left", "loss 0.1234",
/// "12,345 samples/s", "310 GFLOP/s, 61% of peak", "1.21 GiB of 1.40 GiB". `memory_bytes`: that
/// rank 0 holds now; 0: not known.
std::vector<std::string> live_parts(const StepRecord& record,
                                    const ProgressContext& facts,
                                    double seconds_left,
                                    std::uint64_t memory_bytes);

/// step_line() with GFLOP/s and the time left after it, where they fit into a line.
std::string plain_line(const StepRecord& record, const ProgressContext& facts, double seconds_left);

}  // namespace lockstep
