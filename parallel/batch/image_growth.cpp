// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/image_growth.h"

namespace lockstep {

data::ImageGrowth image_growth(const data::Dataset& train,
                               const TrainOptions& options,
                               std::int64_t steps) {
  const std::int64_t per_epoch = (train.size() - 1) / options.global_batch + 1;
  const Shape& image = train.spec().input.shape;
  return {.first = options.first_image_size,
          .last = image.rank() == 3 ? int(image[1]) : 0,
          .epochs = (steps - 1) / per_epoch + 1};
}

}  // namespace lockstep
