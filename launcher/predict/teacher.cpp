// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/teacher.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/data/preprocessing.h"
#include "launcher/predict/saved_weights.h"
#include "launcher/settings/flags.h"
#include "lockstep/data/preprocessing_file.h"
#include "lockstep/error.h"
#include "lockstep/zoo.h"
#include "parallel/comm/error_serialization.h"

namespace lockstep {

namespace {

/// The teacher of a run must be the same at its resume, and on every rank; the newest checkpoint of
/// a run that continues is another one soon.
void expect_complete(const std::string& teacher) {
  const SavedWeights saved = find_weights(teacher, "--teacher");
  if (saved.folder == teacher) return;
  throw ConfigError(fmt::format("--teacher {}: the run has not ended", as_written(teacher)),
                    fmt::format("wait for its end, or name one of its checkpoints: --teacher {}",
                                as_written(saved.folder.string())));
}

/// Features of the same columns may be standardised by other means.
void expect_same_columns(const data::Preprocessing& taught, const data::Preprocessing& own) {
  const auto fail = [](const std::string& what) { throw ConfigError(what); };
  if (taught.table.has_value() != own.table.has_value())
    fail(fmt::format("its samples are rows of {}", taught.table ? "a table" : "no table"));
  if (!taught.table || *taught.table == *own.table) return;
  const std::vector<data::ColumnRecord>&a = taught.table->columns, &b = own.table->columns;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i])
      fail(a[i].name != b[i].name
               ? fmt::format("its column {} is '{}', here it is '{}'", i + 1, a[i].name, b[i].name)
               : fmt::format("column '{}' has mean {} and deviation {} or categories that differ "
                             "from {} and {} here",
                             a[i].name,
                             a[i].mean,
                             a[i].deviation,
                             b[i].mean,
                             b[i].deviation));
  fail("its columns or targets are others");
}

}  // namespace

void resolve_teacher(TrainFlags& flags, const data::Dataset& train, Communicator* ranks) {
  if (flags.teacher.empty()) return;
  const auto look = [&] {
    expect_complete(flags.teacher);
    return std::string();
  };
  ranks == nullptr ? look() : text_of_rank_0(*ranks, look);
  const SavedWeights saved{flags.teacher};
  nn::ModelSpec model = parse_saved_flags((saved.folder / "config.toml").string(), {}).model;
  const data::Preprocessing own = train.preprocessing();
  try {
    const data::Preprocessing record =
        io::read_preprocessing((saved.folder / io::kPreprocessingFile).string());
    data::check_agreement(record, own, flags.data);
    if (!flags.placeholder) expect_same_columns(record, own);
  } catch (const ConfigError& other) {
    throw ConfigError(fmt::format("--teacher {}: it was trained on other samples: {}",
                                  as_written(flags.teacher),
                                  as_written(other.what())),
                      own.table ? "train both on the same file with the same --seed and "
                                  "--val-fraction, whose rows give the means"
                                : "train both on data of the same classes, image size and "
                                  "normalisation");
  }
  model.outputs = own.samples.classes;
  flags.options.distillation.model = nn::make_model(model);
  flags.options.distillation.weights = saved.file().string();
}

}  // namespace lockstep
