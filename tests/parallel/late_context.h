// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/rank_context.h"
#include "parallel/comm/staged_communicator.h"
#include "tests/support/late_backend.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {

/// The ranks of this test, each with a device whose results come late, as a GPU's do.
class LateContext final : public RankContext {
 public:
  Backend& backend() override { return late; }
  Communicator& communicator() override { return *staged_; }

  LateBackend late{make_test_backend()};

 private:
  std::unique_ptr<Communicator> staged_ = make_staged_communicator(mpi_world(), late);
};

}  // namespace lockstep::testing
