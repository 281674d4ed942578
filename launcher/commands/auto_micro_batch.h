// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/settings/train_flags.h"
#include "lockstep/job.h"
#include "parallel/memory/memory_advisor.h"

namespace lockstep {

/// What `--micro-batch auto` stands for in this run: in `flags.options`, sets the micro-batch, and
/// recompute with its memory-limit where it is brought in, to those of the checkpoint that
/// `flags.options.checkpoint` says to resume from, otherwise to what choose_micro_batch() finds for
/// `request` in `room`. Returns why, for people. Collective. Throws what choose_micro_batch() and
/// find_resume_point() throw.
std::string resolve_micro_batch(Job& job,
                                const PlanRequest& request,
                                const MemoryTarget& room,
                                TrainFlags& flags);

}  // namespace lockstep
