// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/rank_context.h"
#include "parallel/comm/staged_communicator.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

/// The device of this test program and whatever communicator the test works with.
class DeviceContext final : public RankContext {
 public:
  explicit DeviceContext(Communicator& communicator, DeviceReach reach = DeviceReach::none)
      : staged_(make_staged_communicator(communicator, *backend_, reach)) {}
  Backend& backend() override { return *backend_; }
  Communicator& communicator() override { return *staged_; }

 private:
  std::unique_ptr<Backend> backend_ = make_test_backend();
  std::unique_ptr<Communicator> staged_;
};

}  // namespace lockstep::testing
