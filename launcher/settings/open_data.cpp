// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/open_data.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "launcher/settings/class_weights.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/tokens/tokenizer_file.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Of tokens: the one that is named; else one that lies next to them; else of the model that a
/// training starts from. Null: there is none, or it is not named and not one that can be read.
std::shared_ptr<const data::Tokenizer> find_tokenizer(const TrainFlags& flags,
                                                      const std::string& source) {
  constexpr std::string_view kTokens = "tokens:";
  if (!source.starts_with(kTokens)) return nullptr;
  if (!flags.tokenizer.empty())
    return std::make_shared<const data::Tokenizer>(io::read_tokenizer(flags.tokenizer));
  const fs::path tokens = source.substr(kTokens.size());
  const fs::path folder = is_folder(tokens) ? tokens : tokens.parent_path();
  std::vector<fs::path> places{folder / io::kTokenizerFile};
  if (const fs::path init = flags.options.init; !init.empty() && is_folder(init))
    for (const char* name : {io::kTokenizerFile, "vocab.json"}) places.push_back(init / name);
  for (const fs::path& place : places) {
    if (!is_there(place)) continue;
    try {
      return std::make_shared<const data::Tokenizer>(
          io::read_tokenizer(place.filename() == "vocab.json" ? place.parent_path() : place));
    } catch (const DataError&) {
      // Trainings need none, and it may be of a kind that Lockstep does not read.
    }
  }
  return nullptr;
}

data::DataSplit open_one(const TrainFlags& flags,
                         const std::string& source,
                         const data::Preprocessing* trained) {
  return data::open(source,
                    {.validation_fraction = flags.val_fraction,
                     .seed = flags.options.seed,
                     .image_size = flags.image_size,
                     .max_pixels = flags.max_pixels,
                     .resized_crop = flags.options.augmentation.resized_crop,
                     .context = flags.context,
                     .vocabulary = flags.vocabulary,
                     .documents = flags.documents,
                     .tokenizer = trained == nullptr ? find_tokenizer(flags, source) : nullptr,
                     .ignore_index = flags.ignore_index,
                     .table = flags.table,
                     .trained = trained});
}

data::DataSplit open_mixed(const TrainFlags& flags, const data::Preprocessing* trained) {
  std::vector<data::DataSplit> sources{open_one(flags, flags.data, trained)};
  for (const std::string& source : flags.more_data)
    sources.push_back(open_one(flags, source, trained));
  const std::vector<double> alike(sources.size(), 1.0);
  return data::mixed_sources(
      sources, flags.data_weights.empty() ? alike : flags.data_weights, flags.options.seed);
}

data::DataSplit open_source(const TrainFlags& flags, const data::Preprocessing* trained) {
  data::DataSplit split =
      flags.more_data.empty() ? open_one(flags, flags.data, trained) : open_mixed(flags, trained);
  if (flags.balance_classes && split.train && trained == nullptr)
    split.train = data::balanced_classes(split.train, flags.options.seed);
  if (flags.eval_image_size > 0 && split.validation && trained == nullptr) {
    const std::shared_ptr<const data::Dataset> resized =
        split.validation->resized(flags.eval_image_size);
    if (resized == nullptr)
      throw ConfigError(fmt::format("--eval-image-size {}: {} makes no images of other sizes",
                                    flags.eval_image_size,
                                    as_written(split.validation->describe())),
                        "leave --eval-image-size out; images:, packed: and webdataset: make them");
    split.validation = resized;
  }
  return split;
}

/// What --loss auto is.
std::string loss_of(const data::SampleSpec& samples) {
  if (samples.classes > 0) return "cross-entropy";
  return samples.multi_label ? "bce" : "mse";
}

std::string targets_of(const data::SampleSpec& samples) {
  if (samples.input.dtype == DType::i32) return "tokens";
  if (samples.classes > 0) return fmt::format("{} classes", samples.classes);
  return fmt::format(
      "{} {} a sample", samples.target.elems(), samples.multi_label ? "labels" : "numbers");
}

/// Throws where its targets are not what the loss compares with.
void check_targets(const TrainFlags& flags, const data::SampleSpec& samples) {
  const std::string& loss = flags.loss;
  if (loss == "auto") return;
  const bool fits = loss == "cross-entropy" ? samples.classes > 0
                    : loss == "bce"         ? samples.multi_label
                                            : samples.classes == 0;
  if (fits) return;
  const char* const expected = loss == "cross-entropy" ? "classes or tokens"
                               : loss == "bce"         ? "several labels a sample"
                                                       : "numbers";
  throw ConfigError(fmt::format("--loss {} cannot be combined with --data {}: it expects {} as "
                                "targets, got {}",
                                loss,
                                flags.data,
                                expected,
                                targets_of(samples)),
                    fmt::format("use --loss {}, or leave --loss out", loss_of(samples)));
}

}  // namespace

std::string_view source_kind(std::string_view data) { return data.substr(0, data.find(':')); }

namespace {

/// Whether arrays are images is known once they are opened, after the model was chosen.
data::DataSplit open_for_model(const TrainFlags& flags, const data::Preprocessing* trained) {
  data::DataSplit split = open_source(flags, trained);
  if (trained != nullptr || !split.train || source_kind(flags.data) != "numpy") return split;
  const TensorType& input = split.train->spec().input;
  if (input.shape.rank() == 1 && flags.model.name != "mlp")
    throw ConfigError(fmt::format("--model {} cannot be combined with --data {}: it reads images, "
                                  "and the samples are {} features",
                                  flags.model.name,
                                  as_written(flags.data),
                                  input.shape[0]),
                      "use --model mlp");
  return split;
}

}  // namespace

data::DataSplit open_data(const TrainFlags& flags, const data::Preprocessing* trained) {
  if (!flags.data_from_file) return open_for_model(flags, trained);
  try {
    return open_for_model(flags, trained);
  } catch (const DataError& error) {
    std::error_code ignored;
    const std::string path = flags.data.substr(flags.data.find(':') + 1);
    if (std::filesystem::exists(path, ignored)) throw;
    throw DataError(as_written(error.what()),
                    fmt::format("the run's config.toml names it: --data {}:PATH says where it "
                                "lies now",
                                source_kind(flags.data)));
  }
}

std::string format_data(const data::Dataset& data) {
  constexpr std::size_t kMaxListed = 8;
  std::vector<std::string> columns;
  const data::Preprocessing record = data.preprocessing();
  if (record.table)
    for (const data::ColumnRecord& column : record.table->columns)
      if (column.embedded)
        columns.push_back(fmt::format("{} ({} categories in {} values)",
                                      column.name,
                                      column.category_count(),
                                      embedding_width(column.category_count())));
  if (columns.empty()) return data.describe();
  const std::size_t listed = std::min(columns.size(), kMaxListed);
  return fmt::format(
      "{}; embedded: {}{}",
      data.describe(),
      fmt::join(columns.begin(), columns.begin() + std::ptrdiff_t(listed), ", "),
      listed == columns.size() ? "" : fmt::format(" and {} more columns", columns.size() - listed));
}

LossFunction make_loss(const TrainFlags& flags, const data::SampleSpec& samples) {
  check_targets(flags, samples);
  const std::string loss = flags.loss == "auto" ? loss_of(samples) : flags.loss;
  LOCKSTEP_CHECK(loss == "cross-entropy" || flags.label_smoothing == 0,
                 ConfigError,
                 "--label-smoothing cannot be combined with --loss {}: it belongs to cross-entropy",
                 loss);
  LOCKSTEP_CHECK(loss == "cross-entropy" || flags.class_weights.empty(),
                 ConfigError,
                 "--class-weights cannot be combined with --loss {}: it belongs to cross-entropy",
                 loss);
  if (loss == "mse") return mean_squared_error;
  if (loss == "mae") return l1_loss;
  if (loss == "bce") return binary_cross_entropy_with_logits;
  if (loss == "huber")
    return [delta = flags.huber_delta](Builder& nn, Value prediction, Value target) {
      return nn.huber_loss(prediction, target, delta);
    };
  const float smoothing = flags.label_smoothing;
  const auto ignored = samples.ignore_index;
  return [smoothing, ignored, weights = class_weights(flags, samples.classes)](
             Builder& nn, Value logits, Value labels) {
    return nn.softmax_cross_entropy(logits, labels, smoothing, ignored, weights);
  };
}

Fingerprint loss_settings(const TrainFlags& flags, const data::SampleSpec& samples) {
  Fingerprint settings{{"label-smoothing", fmt::format("{}", flags.label_smoothing)}};
  // Only where they are not the default: checkpoints from before do not have them.
  if (flags.loss != "auto" && flags.loss != loss_of(samples))
    settings.emplace_back("loss", flags.loss);
  if (flags.loss == "huber")
    settings.emplace_back("huber-delta", fmt::format("{}", flags.huber_delta));
  if (!flags.class_weights.empty()) settings.emplace_back("class-weights", flags.class_weights);
  return settings;
}

}  // namespace lockstep
