// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/rank_context.h"
#include "tests/support/metered_backend.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {

/// The ranks of this test, each with a device whose memory is metered.
class MeteredContext final : public RankContext {
 public:
  Backend& backend() override { return metered; }
  Communicator& communicator() override { return mpi_world(); }
  MeteredBackend metered{make_test_backend()};
};

}  // namespace lockstep::testing
