// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table/settings_table.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

void set_sharding(TrainFlags& flags, const std::string& text) {
  one_of("--shard", {"none", "optimizer", "gradients", "auto"})(text);
  flags.chooses_sharding = text == "auto";
  flags.options.sharding = text == "gradients"   ? Sharding::gradients
                           : text == "optimizer" ? Sharding::optimizer
                                                 : Sharding::none;
}

}  // namespace

void add_engine_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Engine");
  rows.word("device", LOCKSTEP_AT(device), {"auto", "cpu", "cuda"}, "device that computes");
  rows.choice(
      "precision",
      LOCKSTEP_AT(options.precision),
      Words<Precision>{
          {"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}},
      "precision of activations and matmuls (tf32: of matmul inputs, GPUs only); parameters, "
      "accumulation and losses are always fp32");
  rows.on_off(
      "fusion",
      LOCKSTEP_AT(options.fuse),
      "operator fusion: bias and activation into matmuls, ReLU and residual into batch norm, "
      "residual into layer norm");
  rows.choice(
      "recompute",
      LOCKSTEP_AT(options.recompute),
      Words<Recompute>{
          {"none", Recompute::none}, {"all", Recompute::all}, {"auto", Recompute::automatic}},
      "activation checkpointing: recompute activations in backward instead of keeping them; auto: "
      "the cheapest that fits --memory-limit");
  rows.custom(
          "memory-limit",
          "BYTES|16GiB",
          "maximum memory that a rank reserves on its device: lockstep plan's table without "
          "snapshot, loader, image decoding and the program itself",
          [check = byte_size("--memory-limit")](TrainFlags& flags, const std::string& text) {
            check(text);
            flags.options.memory_limit = to_bytes(text);
          },
          [](const TrainFlags& flags) -> std::optional<std::string> {
            if (flags.options.memory_limit == 0) return std::nullopt;
            return std::to_string(flags.options.memory_limit);
          })
      .shown_as("none");
  rows.custom(
      "algorithms",
      "heuristic|timed|FILE",
      "GPUs: how cuBLASLt's and cuDNN's algorithms are chosen: the library's favourites, the "
      "fastest deterministic ones by timing on rank 0, or an earlier run's algorithms.txt",
      [](TrainFlags& flags, const std::string& text) {
        const bool timed = text == "timed", file = !timed && text != "heuristic";
        if (text.empty())
          throw ConfigError("--algorithms is empty, expected heuristic, timed or a file");
        flags.options.algorithms = timed ? Algorithms::timed : Algorithms::heuristic;
        flags.options.algorithms_file = file ? text : "";
      },
      [](const TrainFlags& flags) {
        if (!flags.options.algorithms_file.empty()) return flags.options.algorithms_file;
        return std::string(flags.options.algorithms == Algorithms::timed ? "timed" : "heuristic");
      });
  rows.choice(
      "reduction",
      LOCKSTEP_AT(options.reduction),
      Words<Reduction>{{"reproducible", Reduction::reproducible}, {"fast", Reduction::fast}},
      "gradient all-reduce: the same bits on any number of ranks, or the library's order");
  rows.custom("shard",
              "none|optimizer|gradients|auto",
              "what ranks divide among themselves: nothing; the optimizer's state and the "
              "average of the weights (ZeRO-1); or also the gradients (ZeRO-2), which "
              "are then exchanged after each shard; auto: the least that fits memory and "
              "--memory-limit; the same bits",
              set_sharding,
              [](const TrainFlags& flags) -> std::optional<std::string> {
                if (flags.chooses_sharding) return "auto";
                return std::string(name_of(flags.options.sharding));
              })
      .when({"reduction",
             [](const TrainFlags& flags, std::string_view text) {
               return text == "none" || text == "auto" ||
                      flags.options.reduction == Reduction::reproducible;
             },
             "it needs --reduction reproducible"});
  rows.choice("overlap",
              LOCKSTEP_AT(options.overlap),
              Words<Overlap>{{"on", Overlap::on}, {"off", Overlap::off}},
              "all-reduce gradients during backward, or after it");
  rows.custom(
          "bucket-mb",
          "auto|MIB",
          "bucket size of the gradient all-reduce, in MiB; auto: 4 on CPUs, 4 to 64 on GPUs",
          [check = real_number_or("--bucket-mb", "auto", 1e-6, 4096)](TrainFlags& flags,
                                                                      const std::string& text) {
            check(text);
            flags.options.bucket_mb = to_real_number(text);
          },
          [](const TrainFlags& flags) -> std::optional<std::string> {
            if (flags.options.bucket_mb == 0) return std::nullopt;
            return fmt::format("{}", flags.options.bucket_mb);
          })
      .shown_as("auto");
  rows.whole("seed",
             LOCKSTEP_AT(options.seed),
             0,
             "random seed",
             std::numeric_limits<std::int64_t>::max());
}

}  // namespace lockstep
