// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/cost/network.h"

namespace lockstep {

/// --network: a name of named_network(), or a TOML file with
///   ranks_per_host = 8
///   inside_latency_us = 2       # between two ranks of a host
///   inside_bandwidth_GBps = 450 # of a rank, 1e9 bytes a second in each direction
///   between_latency_us = 5      # between two ranks of different hosts
///   between_bandwidth_GBps = 400 # of a host, which its ranks share
/// where hosts of one rank need nothing of inside. Throws ConfigError: neither a name nor a file,
/// a line that is not TOML, a key that is unknown or missing, a number that is none or out of
/// range.
Network open_network(const std::string& name_or_file);

/// Of a file's text; `name` is for messages.
Network parse_network(const std::string& text, const std::string& name);

}  // namespace lockstep
