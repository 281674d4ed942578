// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

std::string host_name();
/// What no other running machine has, whatever its containers are named: the kernel's boot id; the
/// host's name where that is hidden.
std::string machine_id();

}  // namespace lockstep
