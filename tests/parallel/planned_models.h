// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "lockstep/replica.h"
#include "lockstep/weights.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/discs.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/device_context.h"

/// Runs whose memory plans differ in kind: models, precisions, optimizers, sharding, recomputing,
/// growing images.
namespace lockstep::testing {

inline SmallRun mlp() {
  SmallRun run{nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 100}}),
               data::glyphs(64, 16),
               {.global_batch = 30, .micro_batch = 7, .steps = 1}};
  run.options.optimizer = Sgd{};
  return run;
}
inline SmallRun resnet() { return small_resnet(); }
inline SmallRun resnet_bf16() {
  SmallRun run = small_resnet();
  run.options.precision = Precision::bf16;
  return run;
}
inline SmallRun resnet_recomputed() {
  SmallRun run = small_resnet();
  run.options.recompute = Recompute::all;
  run.options.bucket_mb = 0.1;
  return run;
}
inline SmallRun resnet_grouped() {
  SmallRun run = small_resnet();
  run.options.global_batch = 32;
  run.options.batch_norm = BatchNormPolicy::parse("group:4");
  return run;
}
inline SmallRun gpt() {
  SmallRun run = small_gpt(7);
  run.options.bucket_mb = 0.01;
  return run;
}
inline SmallRun gpt_muon() {
  SmallRun run = small_gpt();
  run.options.optimizer = Muon{};
  return run;
}
inline SmallRun resnet_lamb() {
  SmallRun run = small_resnet();
  run.options.optimizer = Lamb{};
  return run;
}
inline SmallRun resnet_sharded() {
  SmallRun run = small_resnet();
  run.options.optimizer = Lamb{};
  run.options.ema = {.decay = 0.9f};
  run.options.sharding = Sharding::optimizer;
  return run;
}
inline SmallRun gpt_sharded() {
  SmallRun run = small_gpt();
  run.options.optimizer = Muon{};
  run.options.sharding = Sharding::optimizer;
  return run;
}
/// With rows of several owners.
inline SmallRun mlp_normuon_sharded() {
  SmallRun run = mlp();
  run.options.optimizer = NorMuon{};
  run.options.sharding = Sharding::optimizer;
  return run;
}
/// Whose owners send most weights as bf16.
inline SmallRun gpt_sharded_in_bf16() {
  SmallRun run = gpt_sharded();
  run.options.precision = Precision::bf16;
  return run;
}
/// Eight micro-batches, whose gradients lie in a window where ranks divide them.
inline SmallRun mlp_gradients_sharded() {
  SmallRun run = small_resnet();
  run.model =
      nn::make_model({.name = "mlp", .outputs = 10, .hidden = std::vector<std::int64_t>(16, 256)});
  run.options.optimizer = AdamW{};
  run.options.clip_agc = 0.01f;
  run.options.bucket_mb = 0.05;
  run.options.micro_batch = run.options.global_batch / 8;
  run.options.sharding = Sharding::gradients;
  return run;
}
/// With units of several owners.
inline SmallRun mlp_clipped() {
  SmallRun run = mlp();
  run.options.sharding = Sharding::optimizer;
  run.options.clip_agc = 0.01f;
  return run;
}
inline SmallRun resnet_averaged() {
  SmallRun run = small_resnet();
  run.options.ema = {.decay = 0.9f};
  return run;
}
/// Whose orthogonalization takes the largest arena.
inline SmallRun mlp_muon() {
  SmallRun run = small_resnet();
  run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {256, 256}});
  run.options.optimizer = Muon{};
  return run;
}
inline SmallRun gpt_fast() {
  SmallRun run = small_gpt();
  run.options.reduction = Reduction::fast;
  run.options.recompute = Recompute::all;
  run.options.precision = Precision::bf16;
  return run;
}

/// Images of 16, 32 and 48 pixels, and validations of 56 with mirror images, which take most.
inline SmallRun discs_growing() {
  SmallRun run{testing::disc_net, testing::discs(64, 16, 48), testing::disc_options()};
  run.data.validation = run.data.validation->resized(56);
  run.options.first_image_size = 16;
  run.options.tta = TestTimeAugmentation::flip;
  return run;
}
/// With a teacher, whose weights are those that it starts with.
inline SmallRun resnet_taught() {
  static const struct File {
    File() {
      SelfCommunicator self;
      DeviceContext context(self);
      const SmallRun run = small_resnet();
      Replica replica(
          context, teacher, softmax_cross_entropy, run.data.train->spec(), run.options, {});
      io::save_weights(path, replica.weights());
    }
    ~File() { std::filesystem::remove(path); }
    ModelFunction teacher = nn::make_model({.name = "convnet", .outputs = 10});
    std::string path =
        std::filesystem::temp_directory_path() / fmt::format("lockstep_teacher_{}", getpid());
  } file;
  SmallRun run = small_resnet();
  run.options.distillation = {.model = file.teacher, .weights = file.path};
  return run;
}

inline const auto kPlannedModels = ::testing::Values(&mlp,
                                                     &resnet,
                                                     &resnet_bf16,
                                                     &resnet_recomputed,
                                                     &resnet_grouped,
                                                     &gpt,
                                                     &gpt_fast,
                                                     &gpt_muon,
                                                     &resnet_lamb,
                                                     &resnet_averaged,
                                                     &resnet_sharded,
                                                     &gpt_sharded,
                                                     &gpt_sharded_in_bf16,
                                                     &mlp_normuon_sharded,
                                                     &mlp_clipped,
                                                     &mlp_gradients_sharded,
                                                     &mlp_muon,
                                                     &discs_growing,
                                                     &resnet_taught);

}  // namespace lockstep::testing
