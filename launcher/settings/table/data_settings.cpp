// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <limits>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/image.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"

namespace lockstep {
namespace {

using data::Missing;
using data::Task;

constexpr const char* kOfData = "data content";
/// The flip follows a sample's place in the epoch.
constexpr const char* kAlternates =
    "alternating-flip wants each image once an epoch, and here an epoch draws other ones; use flip";

char to_separator(const std::string& text) {
  if (text == "auto") return '\0';
  if (text == "tab" || text == "\\t") return '\t';
  const char c = text.empty() ? '\0' : text[0];
  // Numbers and quotes need these themselves.
  const bool taken = std::string_view("\"+-.").find(c) != std::string_view::npos;
  LOCKSTEP_CHECK(
      text.size() == 1 && (c == '\t' || (std::ispunct(static_cast<unsigned char>(c)) && !taken)),
      ConfigError,
      "--separator '{}': expected auto, tab or one character as , ; or |",
      as_written(text));
  return c;
}

std::string separator_text(char separator) {
  if (separator == '\0') return "auto";
  return separator == '\t' ? "tab" : std::string(1, separator);
}

/// "glyphs (drawn digits), csv:FILE (a table), ..."
std::string data_help() {
  std::string text;
  for (const data::SourceKind& kind : data::source_kinds()) {
    text += (text.empty() ? "" : ", ") + data::form_of(kind);
    if (!kind.note.empty()) text += fmt::format(" ({})", kind.note);
  }
  return text;
}

Applies with_data(bool (*holds)(std::string_view), std::string hint) {
  return {"data",
          [holds](const TrainFlags& flags, std::string_view) { return holds(flags.data); },
          std::move(hint)};
}

void set_data_weights(TrainFlags& flags, const Texts& texts) {
  flags.data_weights.clear();
  for (const std::string& text : texts) {
    LOCKSTEP_CHECK(is_number(text) && to_real_number(text) > 0,
                   ConfigError,
                   "--data-weights '{}': expected a number above 0 for each source, as in 0.7,0.3",
                   as_written(text));
    flags.data_weights.push_back(to_real_number(text));
  }
}

std::optional<Texts> data_weight_texts(const TrainFlags& flags) {
  if (flags.data_weights.empty()) return std::nullopt;
  Texts texts;
  for (const double weight : flags.data_weights) texts.push_back(fmt::format("{}", weight));
  return texts;
}

void add_mix_settings(SettingRows rows) {
  rows.list("more-data",
            "SOURCE",
            LOCKSTEP_AT(more_data),
            "a further source, of samples like those of --data, which training mixes with it; may "
            "be repeated")
      .when({"data",
             [](const TrainFlags& flags, std::string_view) {
               return !flags.placeholder && !is_table(flags.data);
             },
             "tables are standardised each by its own means"})
      .yields({"data"});
  Setting& weights = rows.add(
      "data-weights", "X,X,...", "shares of --data and of each --more-data in every epoch");
  weights.arity = Setting::Arity::list;
  weights.commas = true;
  weights.set = set_data_weights;
  weights.get = data_weight_texts;
  weights
      .when({"more-data",
             [](const TrainFlags& flags, std::string_view) { return !flags.more_data.empty(); },
             "give the further sources with --more-data SOURCE"})
      .yields({"data", "more-data"})
      .shown_as("all alike");
}

void add_table_settings(SettingRows rows, std::vector<Setting>& table) {
  rows.choice(
          "task",
          LOCKSTEP_AT(table.task),
          Words<std::optional<Task>>{{"auto", std::nullopt},
                                     {"classification", Task::classification},
                                     {"regression", Task::regression},
                                     {"multi-label", Task::multi_label}},
          "csv, numpy: what is predicted of the label columns or targets; auto: chosen by their "
          "values, and said")
      .when(with_data([](std::string_view data) { return is_table(data) || has_arrays(data); },
                      "it belongs to csv:FILE and numpy:PATH"))
      .shown_as("auto");
  const std::size_t first = table.size();
  rows.list(
      "label-column",
      "NAME|N",
      LOCKSTEP_AT(table.label_columns),
      "csv: what is predicted, the last column by default; several are several numbers, or labels "
      "of 0 and 1; may be repeated");
  rows.custom(
          "separator",
          "auto|tab|C",
          "csv: between fields; auto: what the header has most of",
          [](TrainFlags& flags, const std::string& text) {
            flags.table.separator = to_separator(text);
          },
          [](const TrainFlags& flags) { return separator_text(flags.table.separator); })
      .shown_as("auto");
  rows.choice(
          "missing",
          LOCKSTEP_AT(table.missing),
          Words<Missing>{{"error", Missing::error},
                         {"mean", Missing::mean},
                         {"median", Missing::median},
                         {"drop", Missing::drop},
                         {"category", Missing::category}},
          "csv: for an empty field, NA, NaN, null or ?: the column's mean or median in the "
          "training part (a missing text is a category of its own), or skip the row; category: of "
          "texts alone")
      .shown_as("error");
  rows.list("drop",
            "NAME|N",
            LOCKSTEP_AT(table.dropped),
            "csv: a column that is ignored; may be repeated");
  rows.list("id-column",
            "NAME|N",
            LOCKSTEP_AT(table.id_columns),
            "csv: a column that is not a feature, and names rows in predictions; may be repeated");
  rows.list("categorical",
            "NAME|N",
            LOCKSTEP_AT(table.categorical),
            "csv: a feature whose values are categories, numbers too; may be repeated");
  for (std::size_t i = first; i < table.size(); ++i)
    table[i].when(with_data(is_table, "it belongs to csv:FILE"));
}

}  // namespace

bool has_tokens(std::string_view data) {
  return data.starts_with("text:") || data.starts_with("tokens:");
}
bool is_table(std::string_view data) { return data.starts_with("csv:"); }
bool has_arrays(std::string_view data) { return data.starts_with("numpy:"); }
bool has_image_files(std::string_view data) {
  return data.starts_with("images:") || data.starts_with("packed:") ||
         data.starts_with("webdataset:");
}

void add_data_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Data");
  const std::size_t first = table.size();
  rows.text("data", "SOURCE", LOCKSTEP_AT(data), data_help());
  add_mix_settings(rows);
  rows.real(
          "val-fraction",
          LOCKSTEP_AT(val_fraction),
          0,
          1,
          "fraction of the samples for validation, where the source has no validation set; 1: all, "
          "for lockstep evaluate")
      .when(with_data(
          [](std::string_view data) {
            return is_table(data) || has_image_files(data) || has_tokens(data) || has_arrays(data);
          },
          "the source has a validation part, or needs none"))
      .when({"data",
             [](const TrainFlags& flags, std::string_view text) {
               return !has_tokens(flags.data) || !is_number(std::string(text)) ||
                      to_real_number(std::string(text)) != 0;
             },
             "0 leaves nothing to validate on; --eval-every 0 skips the validation"})
      .shown_as("csv: 0.2, images, numpy: 0, text, tokens: 0.1");
  rows.custom(
          "image-size",
          "N|FIRST:LAST",
          "images, packed, webdataset: side of the input images, in pixels; FIRST:LAST: growing "
          "linearly "
          "from the first epoch to the last, in multiples of 32",
          [](TrainFlags& flags, const std::string& text) {
            const ImageSizes sizes = to_image_sizes("--image-size", text, data::kMaxImageSize);
            flags.image_size = sizes.last;
            flags.options.first_image_size = sizes.first < sizes.last ? sizes.first : 0;
          },
          [](const TrainFlags& flags) -> std::optional<std::string> {
            if (flags.options.first_image_size == 0) return std::to_string(flags.image_size);
            return fmt::format("{}:{}", flags.options.first_image_size, flags.image_size);
          })
      .when({"data",
             [](const TrainFlags& flags, std::string_view) {
               return has_image_files(flags.data) || flags.placeholder;
             },
             "it belongs to images:DIR, packed:FILE and webdataset:PATH"})
      .shown_as("224");
  rows.whole("eval-image-size",
             LOCKSTEP_AT(eval_image_size),
             1,
             "images, packed, webdataset: side of the images of validations, evaluate and predict",
             data::kMaxImageSize)
      .when(with_data(has_image_files, "it belongs to images:DIR, packed:FILE and webdataset:PATH"))
      .shown_as("--image-size");
  rows.whole("max-pixels",
             LOCKSTEP_AT(max_pixels),
             1,
             "images, webdataset, and files to predict: one of more pixels is refused, before "
             "memory is taken for "
             "them",
             data::kMaxMaxPixels)
      .when(with_data(has_image_files, "it belongs to images:DIR, packed:FILE and webdataset:PATH"))
      .shown_as(std::to_string(data::kDefaultMaxPixels));
  rows.whole("context", LOCKSTEP_AT(context), 1, "text, tokens: context length of gpt, in tokens")
      .when(with_data(has_tokens, "it belongs to text:FILE and tokens:PATH"))
      .shown_as("256, gpt2-*: 1024");
  const auto is_tokens = [](std::string_view data) { return data.starts_with("tokens:"); };
  rows.whole("vocabulary", LOCKSTEP_AT(vocabulary), 1, "tokens: vocabulary size")
      .when(
          with_data(is_tokens, "it belongs to tokens:PATH; a text's vocabulary is its characters"))
      .shown_as("the tokens' own, or 50257");
  rows.text("tokenizer",
            "PATH",
            LOCKSTEP_AT(tokenizer),
            "tokens: what made them, tokenizer.json or a folder with it, or with vocab.json and "
            "merges.txt; the run keeps it for prompts and texts")
      .when(with_data(is_tokens, "it belongs to tokens:PATH"))
      .shown_as("tokenizer.json next to the tokens");
  rows.choice("documents",
              LOCKSTEP_AT(documents),
              Words<data::Documents>{{"crossing", data::Documents::crossing},
                                     {"separate", data::Documents::separate}},
              "tokens: whether windows span several documents, or each lies in one, filled up with "
              "tokens that do not count")
      .when(with_data(is_tokens, "it belongs to tokens:PATH"));
  rows.custom(
      "ignore-index",
      "N",
      "target value that is ignored in loss and accuracy",
      [check = whole_number("--ignore-index", -1000000, 1000000)](TrainFlags& flags,
                                                                  const std::string& text) {
        check(text);
        flags.ignore_index = std::int32_t(to_whole_number(text));
      },
      [](const TrainFlags& flags) -> std::optional<std::string> {
        if (!flags.ignore_index) return std::nullopt;
        return std::to_string(*flags.ignore_index);
      });
  add_table_settings(rows, table);
  rows.choice("balance",
              LOCKSTEP_AT(balance_classes),
              Words<bool>{{"none", false}, {"classes", true}},
              "classes: each epoch draws as many training samples with replacement, from all "
              "classes alike")
      .when({"data",
             [](const TrainFlags& flags, std::string_view text) {
               return text == "none" || !has_tokens(flags.data);
             },
             "tokens have no classes"})
      .when({"more-data",
             [](const TrainFlags& flags, std::string_view text) {
               return text == "none" || flags.more_data.empty();
             },
             "--data-weights says how often each source comes"});
  for (std::size_t i = first; i < table.size(); ++i)
    if (table[i].name != "max-pixels") table[i].belongs_to(kOfData);
  rows.choice(
          "tta",
          LOCKSTEP_AT(options.tta),
          Words<TestTimeAugmentation>{{"none", TestTimeAugmentation::none},
                                      {"flip", TestTimeAugmentation::flip}},
          "of images in validations, evaluate and predict: flip: the mean of the model's outputs "
          "for the image and its mirror image")
      .when({"data",
             [](const TrainFlags& flags, std::string_view text) {
               return text == "none" || (!is_table(flags.data) && !has_tokens(flags.data));
             },
             "flip mirrors images"});
  const auto augments = [](std::string_view text) { return !text.empty() && text != "none"; };
  rows.custom(
          "augment",
          "LIST",
          "none, or a list of resized-crop[:SMALLEST_SHARE], shift[:PIXELS], flip or "
          "alternating-flip, crop[:PIXELS], reflect, jitter:B[,C,S[,H]], randaugment[:N[,M]], "
          "trivialaugment, erasing[:P], mixup[:ALPHA], "
          "cutmix[:ALPHA]",
          [](TrainFlags& flags, const std::string& text) {
            flags.options.augmentation = data::parse_augmentation(text);
          },
          [](const TrainFlags& flags) { return flags.options.augmentation.to_string(); })
      .when({"data",
             [augments](const TrainFlags& flags, std::string_view text) {
               return !augments(text) || (!is_table(flags.data) && !has_tokens(flags.data));
             },
             "augmentation changes images"})
      .when({"data",
             [](const TrainFlags& flags, std::string_view text) {
               return has_image_files(flags.data) || text.find("resized-crop") == text.npos;
             },
             "resized-crop needs images:DIR, packed:FILE or webdataset:PATH"})
      .when({"more-data",
             [](const TrainFlags& flags, std::string_view text) {
               return flags.more_data.empty() || text.find("alternating-flip") == text.npos;
             },
             kAlternates})
      .when({"balance",
             [](const TrainFlags& flags, std::string_view text) {
               return !flags.balance_classes || text.find("alternating-flip") == text.npos;
             },
             kAlternates});
  rows.whole(
          "repeated-augmentation",
          LOCKSTEP_AT(options.repeated_augmentation),
          1,
          "copies of each sample in a global batch, each augmented by draws of its own; an epoch "
          "then sees one sample in so many",
          std::numeric_limits<int>::max())
      .when({"augment",
             [](const TrainFlags& flags, std::string_view text) {
               return text.empty() || text == "1" || !flags.options.augmentation.none();
             },
             "copies that are not augmented are all alike"});
  rows.flag(
      "skip-bad-samples",
      LOCKSTEP_AT(options.skip_bad_samples),
      "replace samples that cannot be read by their neighbours, and count them; in validations "
      "they are skipped. csv: rows that cannot be read are skipped, named and counted");
  rows.whole_or_auto("workers",
                     LOCKSTEP_AT(options.workers),
                     -1,
                     0,
                     data::Loader::kMaxWorkers,
                     "data loading threads per rank");
}

}  // namespace lockstep
