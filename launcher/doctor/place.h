// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "launcher/doctor/environment.h"
#include "launcher/doctor/nvidia.h"

namespace lockstep::doctor {

/// What every rank tells the others before it looks. Lists that do not fit end early, after a whole
/// entry.
struct Place {
  char host[64] = {};
  char threads[1024] = {};  ///< that it may use, as format_cpu_list() writes them
  char gpus[1024] = {};     ///< Gpu::id of those that it sees, with commas between them
};

Place place_of(const Environment& environment, const GpuFacts& facts);

/// Fills in what `environment` says of the job and of this host, as rank `rank` among `places`.
void resolve(Environment& environment, std::span<const Place> places, int rank);

}  // namespace lockstep::doctor
