// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/run_loaders.h"

#include "core/exec/position.h"
#include "lockstep/batch_plan.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {

void lend_to_loader(Replica& replica, data::LoaderOptions& loading) {
  loading.loaded = [&position = ReplicaState::of(replica).context.position()] { position.tick(); };
  replica.lend_memory(loading);
}

data::LoaderOptions training_loader(const TrainOptions& options, const BatchPlan& batch) {
  return {.workers = options.workers,
          .micro_batch = batch.micro_batch,
          .seed = options.seed,
          .augmentation = options.augmentation,
          .skip_bad_samples = options.skip_bad_samples};
}

data::LoaderOptions evaluation_loader(const TrainOptions& options, const BatchPlan& batch) {
  return {.workers = options.workers,
          .micro_batch = batch.micro_batch,
          .mirror = options.tta == TestTimeAugmentation::flip};
}

std::uint64_t decoding_bytes(const data::DataSplit& data,
                             const TrainOptions& options,
                             const BatchPlan& batch) {
  const auto bytes = [](const data::Dataset& part, const data::LoaderOptions& loading) {
    return part.decoding_bytes(data::Loader::max_threads(loading));
  };
  std::uint64_t sum = bytes(*data.train, training_loader(options, batch));
  if (data.validation && options.eval_every != 0)
    sum += bytes(*data.validation, evaluation_loader(options, batch));
  return sum;
}

}  // namespace lockstep
