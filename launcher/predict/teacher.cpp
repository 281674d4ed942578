// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/teacher.h"

#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "core/data/preprocessing.h"
#include "launcher/predict/saved_weights.h"
#include "launcher/settings/flags.h"
#include "lockstep/error.h"
#include "lockstep/preprocessing_file.h"
#include "lockstep/zoo.h"

namespace lockstep {

void resolve_teacher(TrainFlags& flags, const data::Dataset& train) {
  if (flags.teacher.empty()) return;
  const SavedWeights saved = find_weights(flags.teacher, "--teacher");
  nn::ModelSpec model = parse_saved_flags((saved.folder / "config.toml").string(), {}).model;
  const data::Preprocessing own = train.preprocessing();
  try {
    data::check_agreement(
        io::read_preprocessing((saved.folder / io::kPreprocessingFile).string()), own, flags.data);
  } catch (const ConfigError& other) {
    throw ConfigError(fmt::format("--teacher {}: it was trained on other samples: {}",
                                  as_written(flags.teacher),
                                  as_written(other.what())),
                      "train both on data of the same classes, image size and normalisation");
  }
  model.outputs = own.samples.classes;
  flags.options.distillation.model = nn::make_model(model);
  flags.options.distillation.weights = saved.file().string();
}

}  // namespace lockstep
