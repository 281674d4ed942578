// SPDX-License-Identifier: Apache-2.0
#include "core/data/preprocessing.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/embedded_column.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep::data {
namespace {

/// The task that a sample's types tell, where the source says nothing more.
Task task_of(const SampleSpec& spec) {
  if (spec.classes == 0) return spec.multi_label ? Task::multi_label : Task::regression;
  return spec.target.shape.rank() > 0 ? Task::next_token : Task::classification;
}

void check_names(const std::vector<std::string>& trained,
                 const std::vector<std::string>& names,
                 const std::string& source) {
  for (std::size_t i = 0; i < std::min(names.size(), trained.size()); ++i)
    LOCKSTEP_CHECK(names[i] == trained[i],
                   ConfigError,
                   "{}: class {} is '{}', in training it was '{}'",
                   as_written(source),
                   i,
                   as_written(names[i]),
                   as_written(trained[i]));
}

/// The shapes are known to be equal. A rule that has the shorter side of the sample as short side
/// is that of sources whose images are samples already (mnist, cifar10), and need no rule.
void check_resizing(const Preprocessing& trained,
                    const Preprocessing& data,
                    const std::string& source) {
  if (!trained.image || !data.image) return;
  const ImageRecord& image = *data.image;
  const bool resizes = image.short_side != std::min(image.width, image.height);
  LOCKSTEP_CHECK(!resizes || image.short_side == trained.image->short_side,
                 ConfigError,
                 "{}: images are resized to a short side of {} pixels before the crop, in training "
                 "it was {}",
                 as_written(source),
                 image.short_side,
                 trained.image->short_side);
}

}  // namespace

std::string_view name_of(Task task) {
  constexpr std::string_view kNames[] = {
      "classification", "regression", "multi-label", "next-token"};
  return kNames[std::size_t(task)];
}

std::int64_t TableRecord::features() const {
  std::int64_t count = 0;
  for (const ColumnRecord& column : columns) count += column.features();
  return count;
}

std::vector<EmbeddedColumn> TableRecord::embedded() const {
  std::vector<EmbeddedColumn> result;
  std::int64_t feature = 0;
  for (const ColumnRecord& column : columns) {
    if (column.embedded) result.push_back({feature, column.category_count()});
    feature += column.features();
  }
  return result;
}

Preprocessing Dataset::preprocessing() const {
  Preprocessing record;
  record.samples = spec();
  record.task = task_of(record.samples);
  record.class_names = class_names();
  return record;
}

Preprocessing image_preprocessing(const Dataset& images, std::string source, int short_side) {
  Preprocessing record = images.Dataset::preprocessing();
  const Shape& shape = record.samples.input.shape;
  record.source = std::move(source);
  record.image = ImageRecord{.width = int(shape[1]),
                             .height = int(shape[0]),
                             .channels = int(shape[2]),
                             .short_side = short_side};
  return record;
}

void check_agreement(const Preprocessing& trained,
                     const Preprocessing& data,
                     const std::string& source) {
  LOCKSTEP_CHECK(trained.task == data.task,
                 ConfigError,
                 "{}: the data are for {}, the run was trained for {}",
                 as_written(source),
                 name_of(data.task),
                 name_of(trained.task));
  LOCKSTEP_CHECK(trained.samples.classes == data.samples.classes,
                 ConfigError,
                 "{}: the data have {} classes, the run was trained on {}",
                 as_written(source),
                 data.samples.classes,
                 trained.samples.classes);
  check_names(trained.class_names, data.class_names, source);
  // Of tokens, the context may be another one.
  const bool tokens = trained.task == Task::next_token;
  LOCKSTEP_CHECK(tokens || trained.samples.input == data.samples.input,
                 ConfigError,
                 "{}: samples are {}, the run was trained on {}",
                 as_written(source),
                 data.samples.input.to_string(),
                 trained.samples.input.to_string());
  LOCKSTEP_CHECK(trained.samples.embedded == data.samples.embedded,
                 ConfigError,
                 "{}: its embedded columns are not those that the run was trained on",
                 as_written(source));
  LOCKSTEP_CHECK(
      trained.samples.scale == data.samples.scale && trained.samples.shift == data.samples.shift,
      ConfigError,
      "{}: its kind of source normalises images otherwise than the one that the run was trained on",
      as_written(source));
  check_resizing(trained, data, source);
}

void check_same_encoding(const Preprocessing& trained,
                         const Preprocessing& data,
                         const std::string& source) {
  if (!trained.table || !data.table) return;
  for (const ColumnRecord& column : data.table->columns) {
    const auto then = std::ranges::find(trained.table->columns, column.name, &ColumnRecord::name);
    if (then == trained.table->columns.end() || then->kind != column.kind ||
        then->embedded == column.embedded)
      continue;
    throw ConfigError(
        fmt::format("{}: column '{}' was {} in the run and is {} now; columns of {} categories or "
                    "more are embedded, it has {}",
                    as_written(source),
                    as_written(column.name),
                    then->embedded ? "embedded" : "one-hot",
                    column.embedded ? "embedded" : "one-hot",
                    kMinEmbeddedCategories,
                    column.category_count()),
        "TableOptions::one_hot_columns names the columns that stay one-hot");
  }
}

void check_same_tokenizer(const Preprocessing& trained,
                          const Preprocessing& data,
                          const std::string& source) {
  if (!trained.tokenizer) return;
  const bool same =
      data.tokenizer && data.tokenizer->fingerprint() == trained.tokenizer->fingerprint();
  if (same) return;
  throw ConfigError(
      data.tokenizer
          ? fmt::format("{}: its tokens were made by another tokenizer ({:.12}, of {} tokens) than "
                        "those that the run was trained on ({:.12}, of {})",
                        as_written(source),
                        data.tokenizer->fingerprint(),
                        data.tokenizer->vocabulary(),
                        trained.tokenizer->fingerprint(),
                        trained.tokenizer->vocabulary())
          : fmt::format("{}: the tokenizer of its tokens is not known, the run's ({:.12}) is",
                        as_written(source),
                        trained.tokenizer->fingerprint()),
      "name the run's own tokenizer.json with `tokenizer`");
}

}  // namespace lockstep::data
