// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/settings_table.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;

void set_micro_batch(TrainFlags& flags, const std::string& text) {
  whole_number_or("--micro-batch", "auto", 1, kMaxCount)(text);
  flags.measures_micro_batch = text == "auto";
  flags.options.micro_batch = to_whole_number(text);
}

/// How settings that no run has resolved are written: in a file, auto is what versions before had
/// by default.
constexpr const char* kShardForEach = "micro-batches";

void set_shards(TrainFlags& flags, const std::string& text) {
  if (text != kShardForEach) whole_number_or("--shards", "auto", 1, kMaxRanks)(text);
  flags.options.shards =
      text == "auto" || text == kShardForEach ? kAutoShards : int(to_whole_number(text));
}

}  // namespace

void add_batch_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Batch and length");
  rows.whole("global-batch",
             LOCKSTEP_AT(options.global_batch),
             1,
             "samples of an optimizer step, over all ranks");
  rows.custom(
          "micro-batch",
          "auto|N",
          "samples that a rank computes at once; auto: the largest of the fastest, measured, that "
          "fits memory and --memory-limit",
          set_micro_batch,
          [](const TrainFlags& flags) {
            const std::int64_t value = flags.options.micro_batch;
            return value == 0 ? std::string("auto") : std::to_string(value);
          })
      .yields({"accumulation"})
      .shown_as("at most 32, and at least 2 in a global batch");
  rows.whole("accumulation",
             LOCKSTEP_AT(options.accumulation),
             1,
             "gradient accumulation: micro-batches of each rank in a step")
      .yields({"global-batch", "micro-batch", "ranks"});
  rows.custom(
          "shards",
          "auto|N",
          "leaves of the gradients' summation tree, the maximum number of ranks; auto: each "
          "micro-batch is one, which balances every number of ranks; without the flag the number "
          "of micro-batches, at most 64",
          set_shards,
          [](const TrainFlags& flags) -> std::optional<std::string> {
            const int shards = flags.options.shards;
            if (shards == 0) return std::nullopt;
            return shards == kAutoShards ? kShardForEach : std::to_string(shards);
          })
      .shown_as("at most 64");
  rows.whole_or_auto("ranks",
                     LOCKSTEP_AT(ranks),
                     0,
                     1,
                     kMaxRanks,
                     "processes to start where no launcher did; auto: one per core");
  const std::vector<std::string> lengths{"epochs", "steps", "samples"};
  rows.real("epochs",
            LOCKSTEP_AT(options.epochs),
            1e-9,
            1e12,
            "epochs: passes over the training data")
      .yields(lengths)
      .shown_as("1");
  rows.whole("steps", LOCKSTEP_AT(options.steps), 1, "optimizer steps, instead of --epochs")
      .yields(lengths);
  rows.whole("samples", LOCKSTEP_AT(options.samples), 1, "training samples, instead of --epochs")
      .yields(lengths);
}

}  // namespace lockstep
