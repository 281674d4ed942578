// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/run_samples.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/check.h"
#include "parallel/batch/image_growth.h"

namespace lockstep {

RunSamples samples_of(const data::DataSplit& data) {
  const auto training = data.train->specs();
  return {{training.begin(), training.end()},
          data.validation ? data.validation->spec() : data.train->spec()};
}

std::int64_t total_steps(const TrainOptions& o, std::int64_t training_samples) {
  const std::int64_t per_epoch = (training_samples - 1) / o.global_batch + 1;
  if (o.steps > 0) return o.steps;
  if (o.epochs > 0) return std::max<std::int64_t>(1, std::llround(o.epochs * double(per_epoch)));
  const std::int64_t epochs = o.samples / training_samples, rest = o.samples % training_samples;
  return epochs * per_epoch + (rest == 0 ? 0 : (rest - 1) / o.global_batch + 1);
}

data::DataSplit training_data(const data::DataSplit& data, const TrainOptions& options) {
  if (options.first_image_size == 0) return data;
  const data::ImageGrowth growth =
      image_growth(*data.train, options, total_steps(options, data.train->size()));
  LOCKSTEP_CHECK(growth.last == 0 || growth.first <= growth.last,
                 ConfigError,
                 "`image_size` {}:{}: images grow, so the first size must be at most the last",
                 growth.first,
                 growth.last);
  data::DataSplit growing = data;
  growing.train = std::make_shared<data::GrowingImages>(data.train, growth);
  return growing;
}

}  // namespace lockstep
