// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "parallel/rank_context.h"

namespace lockstep::testing {

/// The CPU as device and whatever communicator the test works with.
class CpuContext final : public RankContext {
 public:
  explicit CpuContext(Communicator& communicator) : communicator_(communicator) {}
  Backend& backend() override { return *backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  Communicator& communicator_;
};

}  // namespace lockstep::testing
