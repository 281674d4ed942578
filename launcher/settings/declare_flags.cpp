// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/data/loader.h"
#include "core/data/sources.h"
#include "core/nn/zoo.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/declare_training_flags.h"
#include "launcher/settings/flag_group.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxWorkers = data::Loader::kMaxWorkers;

void declare_model(FlagGroup group, CommandLineArguments& raw) {
  group.text("--model", raw.model, fmt::format("one of {}", fmt::join(nn::model_names(), ", ")))
      ->type_name("NAME");
  group.list("--hidden", raw.hidden, "N,N,...", "mlp: sizes of the hidden layers, or none")
      ->delimiter(',');
  group.words("--stem",
              raw.stem,
              {"imagenet", "cifar"},
              "cifar is for small images: ResNets have a 3x3 stride-1 stem without max-pool, VGG a "
              "single linear layer on averaged features");
  group.real("--dropout",
             raw.dropout,
             0,
             0.999999,
             "dropout probability before the last layer; mlp, vgg: after every hidden one");
  group
      .text("--batch-norm",
            raw.batch_norm,
            "samples normalized together: a micro-batch, all ranks' concurrent micro-batches "
            "(SyncBatchNorm), or exactly G samples")
      ->type_name("local|sync|group:G");
  group
      .text("--init",
            raw.init,
            "pretrained weights with PyTorch's parameter names: safetensors, .pth, an index of "
            "shards, or a folder; Hugging Face's sets the model too")
      ->type_name("FILE|DIR")
      ->default_str("");
  group.list("--init-skip",
             raw.init_skip,
             "REGEX",
             "parameters that are initialized randomly in spite of --init, as a new head; may be "
             "repeated");
  group.list(
      "--freeze",
      raw.freeze,
      "REGEX",
      "parameters that are not trained; may be repeated. Batch norm's running statistics are "
      "updated all the same");
}

void declare_gpt(FlagGroup group, CommandLineArguments& raw) {
  group.whole("--layers", raw.layers, 1, "gpt: transformer blocks");
  group.whole("--heads", raw.heads, 1, "gpt: attention heads");
  group.whole("--width", raw.width, 1, "gpt: embedding dimension, a multiple of --heads");
  group.words("--bias", raw.bias, {"on", "off"}, "gpt: biases in linear layers and layer norms");
  group.words("--tied-head",
              raw.tied_head,
              {"on", "off"},
              "gpt: weight tying of token embedding and output layer");
  group.words(
      "--gelu", raw.gelu, {"tanh", "erf"}, "gpt: tanh approximation of GELU, or the exact one");
}

void declare_table(FlagGroup group, CommandLineArguments& raw) {
  group.words(
      "--task",
      raw.task,
      {"auto", "classification", "regression", "multi-label"},
      "csv: what is predicted of the label columns; auto: chosen by their values, and said");
  group.list("--label-column",
             raw.label_columns,
             "NAME|N",
             "csv: what is predicted, the last column by default; several are several numbers, or "
             "labels of 0 and 1; may be repeated");
  group
      .text("--separator", raw.separator, "csv: between fields; auto: what the header has most of")
      ->type_name("auto|tab|C");
  group.words("--missing",
              raw.missing,
              {"error", "mean", "median", "drop", "category"},
              "csv: for an empty field, NA, NaN, null or ?: the column's mean or median in the "
              "training part (a missing text is a category of its own), or skip the row; category: "
              "of texts alone");
  group.list("--drop", raw.drop, "NAME|N", "csv: a column that is not looked at; may be repeated");
  group.list("--id-column",
             raw.id_columns,
             "NAME|N",
             "csv: a column that is no feature, and names rows in predictions; may be repeated");
  group.list("--categorical",
             raw.categorical,
             "NAME|N",
             "csv: a feature whose values are categories, numbers too; may be repeated");
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

void declare_data(FlagGroup group, CommandLineArguments& raw) {
  group.text("--data", raw.data, data_help())->type_name("SOURCE");
  group
      .real("--val-fraction",
            raw.val_fraction,
            0,
            1,
            "fraction of the samples for validation, where the source has no validation set; 1: "
            "all, for lockstep evaluate")
      ->default_str("csv: 0.2, images: 0, text, tokens: 0.1");
  group.whole(
      "--image-size", raw.image_size, 1, "images and packed: side of the input images, in pixels");
  group.whole("--max-pixels",
              raw.max_pixels,
              1,
              "images, and files to predict: one of more pixels is refused, before memory is taken "
              "for them",
              data::kMaxMaxPixels);
  group.whole("--context", raw.context, 1, "text, tokens: context length of gpt, in tokens")
      ->default_str("256, gpt2-*: 1024");
  group.whole("--vocabulary", raw.vocabulary, 1, "tokens: vocabulary size")->default_str("50257");
  group
      .text("--ignore-index", raw.ignore_index, "target value that is ignored in loss and accuracy")
      ->type_name("N")
      ->check(whole_number("--ignore-index", -1000000, 1000000));
  declare_table(group, raw);
  group
      .text("--augment",
            raw.augment,
            "none, or a list of resized-crop[:SMALLEST_SHARE], shift[:PIXELS], flip, "
            "crop[:PIXELS]")
      ->type_name("LIST");
  group.flag("--skip-bad-samples",
             raw.skip_bad_samples,
             "replace samples that cannot be read by their neighbours, and count them; in "
             "validations they are skipped. csv: rows that cannot be read are skipped, named and "
             "counted");
  group.whole_or_auto("--workers", raw.workers, 0, kMaxWorkers, "data loading threads per rank");
}

void declare_batch(FlagGroup group, CommandLineArguments& raw) {
  group.whole(
      "--global-batch", raw.global_batch, 1, "samples of an optimizer step, over all ranks");
  group
      .whole_or_auto(
          "--micro-batch",
          raw.micro_batch,
          1,
          kMaxCount,
          "samples that a rank computes at once; auto: the largest of the fastest, measured, that "
          "fits memory and --memory-limit")
      ->default_str("at most 32, and at least 2 in a global batch");
  group
      .whole("--accumulation",
             raw.accumulation,
             1,
             "gradient accumulation: micro-batches of each rank in a step")
      ->default_str("");
  group.whole_or_auto("--shards",
                      raw.shards,
                      1,
                      kMaxRanks,
                      "leaves of the gradients' summation tree, the maximum number of ranks; auto: "
                      "the number of micro-batches, at most 64");
  group.whole_or_auto("--ranks",
                      raw.ranks,
                      1,
                      kMaxRanks,
                      "processes to start where no launcher did; auto: one per core");
  group.real("--epochs", raw.epochs, 1e-9, 1e12, "epochs: passes over the training data");
  group.whole("--steps", raw.steps, 1, "optimizer steps, instead of --epochs")->default_str("");
  group.whole("--samples", raw.samples, 1, "training samples, instead of --epochs")
      ->default_str("");
}

}  // namespace

void declare_flags(CLI::App& app, CommandLineArguments& raw) {
  declare_model({app, "Model"}, raw);
  declare_gpt({app, "Model"}, raw);
  declare_data({app, "Data"}, raw);
  declare_batch({app, "Batch and length"}, raw);
  declare_training_flags(app, raw);
}

}  // namespace lockstep
