// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/lr_scaling_format.h"

#include <fmt/format.h>

namespace lockstep {

std::string format_lr_scaling(const TrainOptions& options) {
  const LrScaling& scaling = options.lr_scaling;
  if (!scaling.on()) return {};
  const float lr = learning_rate(options.optimizer);
  return fmt::format("lr {:.6g} = {:.6g} x {:.6g}, {}: global batch {} / reference batch {}",
                     scaled_lr(scaling, options.global_batch, lr),
                     lr,
                     lr_factor(scaling, options.global_batch),
                     name_of(scaling.rule),
                     options.global_batch,
                     scaling.reference_batch);
}

}  // namespace lockstep
