// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/base/env.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/scale/scale_flags.h"
#include "parallel/cost/cost_model.h"

namespace lockstep {

/// Hosts that the runs of `lockstep scale` are spread over: those of --hosts, those of the Slurm
/// allocation, otherwise this one. 0: unknown before the jobs run, or Slurm does not say.
int hosts_of(const ScaleFlags& flags, const LaunchSite& site, const VariableMap& variables);

/// Where the ranks work, for the cost model: `hosts` as hosts_of() has it. Nothing where they may
/// be on several hosts and no --network says what connects them. Ranks on a host are the slots that
/// --hosts or the allocation gives it, and otherwise those of --network; all of one host.
std::optional<Machine> machine_of(const ScaleFlags& flags,
                                  const LaunchSite& site,
                                  bool on_gpus,
                                  int hosts);

}  // namespace lockstep
