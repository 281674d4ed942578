// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "parallel/session/job.h"

namespace lockstep {

/// main() for an own program: connects the ranks, runs `body` on each, and turns exceptions into
/// one message (with rank, host and hint) and the exit code of the README's table. Where one rank
/// fails and others continue, it ends the job, so that no rank waits forever; `limits` are for
/// those that freeze or get stuck. Return what it returns: one of several ranks that met an error
/// ends half a second later.
int run_job(int argc,
            char** argv,
            const std::function<void(Job&)>& body,
            const WatchLimits& limits = {});

}  // namespace lockstep
