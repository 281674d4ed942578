// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// `lockstep --version`: "lockstep 0.1.0". With --json one object: "lockstep" (version, commit,
/// compiler, flags), "backends" (what is built in and what this machine gives them), "libraries"
/// (that this process has loaded, those of GPUs opened for it) and "sbom" (an SPDX 2.3 document).
/// Starts neither MPI nor a device. Throws ConfigError: an unknown flag.
int version_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
