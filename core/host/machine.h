// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

std::string host_name();
/// What no other running machine has, whatever its containers are named: the kernel's boot id; the
/// host's name where that is hidden.
std::string machine_id();
/// What all processes of a machine have alike whose network is the same, loopback included; empty
/// where the kernel does not tell.
std::string network_id();
/// The same of processes that know each other by the same numbers.
std::string process_space_id();

}  // namespace lockstep
