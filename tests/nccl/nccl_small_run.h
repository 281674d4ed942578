// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/data/sources.h"
#include "tests/nccl/nccl_fixture.h"
#include "tests/parallel/small_runs.h"

namespace lockstep::testing {

/// This rank's device, its memory joined to others' by NCCL.
class NcclContext final : public RankContext {
 public:
  explicit NcclContext(Communicator& host = mpi_world())
      : host_(host), nccl_(make_nccl({.join_s = 30}, host)) {}
  Backend& backend() override { return device(); }
  Communicator& communicator() override { return *nccl_; }
  Communicator& host_communicator() override { return host_; }

 private:
  Communicator& host_;
  std::unique_ptr<Communicator> nccl_;
};

/// With dropout, several buckets, and a short last batch that leaves a rank of four without work.
inline SmallRun small_run() {
  SmallRun run{[](Builder& nn, Value x) {
                 x = nn.conv2d(x, {.out_channels = 4, .kernel = 3, .stride = 4, .padding = 1});
                 x = nn.dropout(nn.relu(nn.batch_norm(x)), 0.25f);
                 return nn.linear(nn.flatten(x), {.out_features = 10});
               },
               data::glyphs(28, 5),
               {.global_batch = 16, .micro_batch = 4, .steps = 14}};
  run.options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f};
  run.options.bucket_mb = 0.001;
  run.options.log_every = 3;  // those steps are measured, and launched eagerly
  run.options.eval_every = 5;
  run.options.workers = 1;
  return run;
}

}  // namespace lockstep::testing
