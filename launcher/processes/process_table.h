// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <vector>

namespace lockstep {

/// What Linux tells of other processes under /proc. Where it tells nothing: nothing, and false.

/// Those whose parent is `parent`, reaped or not.
std::vector<pid_t> children_of(pid_t parent);

/// Whether a child of any thread of `pid` lives: is neither gone nor waiting to be reaped. False
/// where the kernel does not list children.
bool has_living_children(pid_t pid);

/// Whether the first thread of `pid` sleeps until another thread frees a lock.
bool waits_for_lock(pid_t pid);

}  // namespace lockstep
