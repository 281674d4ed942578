// SPDX-License-Identifier: Apache-2.0
#include "launcher/open_data.h"

#include "core/base/error.h"
#include "core/data/sources.h"

namespace lockstep {

data::DataSplit open_data(const TrainFlags& flags) {
  return data::open(flags.data,
                    {.validation_fraction = flags.val_fraction,
                     .seed = flags.options.seed,
                     .image_size = flags.image_size,
                     .resized_crop = flags.options.augmentation.resized_crop,
                     .context = flags.context,
                     .vocabulary = flags.vocabulary,
                     .ignore_index = flags.ignore_index});
}

LossFunction make_loss(const TrainFlags& flags, const data::SampleSpec& samples) {
  if (samples.classes == 0) {
    LOCKSTEP_CHECK(flags.label_smoothing == 0,
                   ConfigError,
                   "--label-smoothing has no meaning without classes");
    return [](Builder& nn, Value prediction, Value target) {
      return nn.mean_squared_error(prediction, target);
    };
  }
  const float smoothing = flags.label_smoothing;
  const auto ignored = samples.ignore_index;
  return [smoothing, ignored](Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, smoothing, ignored);
  };
}

}  // namespace lockstep
