// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/exec/communicator.h"

namespace lockstep {

/// Which ranks see `folder` as rank 0 does, which puts a file into it, or into the first folder
/// above that is there. All look for it, for some seconds, since network file systems remember what
/// was not there. A rank whose `folder` is empty sees none.
struct FolderSight {
  std::string host;     ///< rank 0's
  std::string blind;    ///< ranks that do not see it: "rank 3 on node7"; empty: all do
  int blind_ranks = 0;  ///< how many those are
};

/// Collective. Nothing, on every rank alike: rank 0 cannot write a file there. `writes`: a rank
/// that may not write to that file does not see it either, nor does one whose `folder` has another
/// name.
std::optional<FolderSight> look_for_shared_folder(Communicator& communicator,
                                                  const std::string& folder,
                                                  bool writes = false);

/// Throws EnvironmentError, on every rank alike, naming the ranks and hosts that do not see
/// `folder`: checkpoints written on one node must be readable on all. Collective.
void check_shared_folder(Communicator& communicator, const std::string& folder);

}  // namespace lockstep
