// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "parallel/comm/self_communicator.h"
#include "tests/support/device_context.h"

namespace lockstep::testing {

/// Three steps of two micro-batches with an evaluation after the last, on this program's device;
/// as one rank of those in `communicator`.
inline TrainSummary train_small(TrainOptions options,
                                TrainObserver* observer,
                                Communicator& communicator) {
  const auto model = [](Builder& nn, Value x) {
    x = nn.relu(nn.conv2d(x, {.out_channels = 2, .kernel = 3, .stride = 4, .padding = 1}));
    return nn.linear(nn.flatten(x), {.out_features = 10});
  };
  const auto loss = [](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels);
  };
  options.global_batch = 8;
  options.micro_batch = 4;
  options.steps = 3;
  options.workers = 1;
  DeviceContext context(communicator);
  Trainer trainer(context, model, loss, options);
  if (observer != nullptr) trainer.add_observer(*observer);
  return trainer.fit(data::glyphs(24, 8));
}

inline TrainSummary train_small(TrainOptions options, TrainObserver* observer = nullptr) {
  SelfCommunicator alone;
  return train_small(std::move(options), observer, alone);
}

}  // namespace lockstep::testing
