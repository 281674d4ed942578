// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep scale`: runs a training on several numbers of ranks, one run after another, and writes
/// table, plot and predictions after each. Returns 0 where every run is done, 1 where one failed
/// or a signal ended them early. Throws ConfigError: flags, or --out holds something; what
/// launch_site() and choose_launcher() throw.
int scale_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
