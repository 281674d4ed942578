// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/flag_synonyms.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/text/suggest.h"

namespace lockstep {
namespace {

/// A name that people bring from PyTorch's examples, timm, Hugging Face or nanoGPT.
struct Synonym {
  std::string_view name;
  std::string_view flag;       ///< of train
  std::string_view hint = {};  ///< empty: `name` is taken as `flag`
};

constexpr std::string_view kBatchHint =
    "--global-batch N counts the samples of a step over all ranks, --micro-batch N those that a "
    "rank computes at once";
constexpr std::string_view kBf16Hint = "--precision bf16 (weights and sums stay fp32)";
constexpr std::string_view kRanksHint = "--ranks N starts N ranks, a GPU each";
constexpr std::string_view kWeightsHint =
    "--resume DIR continues a run, --init FILE.safetensors starts from weights alone";
constexpr std::string_view kCpuHint = "--device cpu";
constexpr std::string_view kWarmupHint = "--warmup-steps N counts steps, not epochs";
constexpr std::string_view kRecomputeHint = "--recompute auto, or --recompute all";

constexpr Synonym kSynonyms[] = {
    {"learning-rate", "lr"},
    {"wd", "weight-decay"},
    {"opt", "optimizer"},
    {"scheduler", "lr-schedule"},
    {"sched", "lr-schedule"},
    {"lr-scheduler", "lr-schedule"},
    {"lr-scheduler-type", "lr-schedule"},
    {"clip-grad", "clip-norm"},
    {"grad-clip", "clip-norm"},
    {"max-grad-norm", "clip-norm"},
    {"clip-grad-value", "clip-value"},
    {"lr-base-size", "lr-reference-batch"},
    {"lr-base-scale", "lr-scaling"},
    {"smoothing", "label-smoothing"},
    {"mixup", "augment"},
    {"mixup-alpha", "augment"},
    {"cutmix", "augment"},
    {"cutmix-alpha", "augment"},
    {"aug-repeats", "repeated-augmentation"},
    {"teacher-path", "teacher"},
    {"distillation-type", "distillation"},
    {"distillation-tau", "distillation-temperature"},
    {"arch", "model"},
    {"dataset", "data"},
    {"data-path", "data"},
    {"data-dir", "data"},
    {"num-workers", "workers"},
    {"img-size", "image-size"},
    {"block-size", "context"},
    {"seq-len", "context"},
    {"vocab-size", "vocabulary"},
    {"n-layer", "layers"},
    {"n-head", "heads"},
    {"n-embd", "width"},
    {"n-kv-heads", "kv-heads"},
    {"num-key-value-heads", "kv-heads"},
    {"intermediate-size", "mlp-width"},
    {"rms-norm-eps", "norm-eps"},
    {"embed-dim", "width"},
    {"random-seed", "seed"},
    {"epoch", "epochs"},
    {"num-epochs", "epochs"},
    {"num-train-epochs", "epochs"},
    {"max-steps", "steps"},
    {"max-iters", "steps"},
    {"iterations", "steps"},
    {"gradient-accumulation-steps", "accumulation"},
    {"accumulation-steps", "accumulation"},
    {"log-interval", "log-every"},
    {"eval-interval", "eval-every"},
    {"output-dir", "out"},
    {"output", "out"},
    {"batch-size", "global-batch", kBatchHint},
    {"batch", "global-batch", kBatchHint},
    {"bs", "global-batch", kBatchHint},
    {"b", "global-batch", kBatchHint},
    {"per-device-train-batch-size", "micro-batch", kBatchHint},
    {"amp", "precision", kBf16Hint},
    {"bf16", "precision", kBf16Hint},
    {"mixed-precision", "precision", kBf16Hint},
    {"dtype", "precision", "--precision fp32, tf32 or bf16"},
    {"fp16", "precision", "--precision bf16, which needs no loss scale; there is no fp16"},
    {"half", "precision", "--precision bf16, which needs no loss scale; there is no fp16"},
    {"gpus", "ranks", kRanksHint},
    {"num-gpus", "ranks", kRanksHint},
    {"nproc", "ranks", kRanksHint},
    {"nproc-per-node", "ranks", kRanksHint},
    {"np", "ranks", kRanksHint},
    {"world-size", "ranks", kRanksHint},
    {"nnodes", "ranks", "lockstep run --hosts a:2,b:2, or srun, starts ranks on several hosts"},
    {"dry-run", "model", "lockstep plan says what the training would need, and runs nothing"},
    {"a", "model", "--model NAME"},
    {"j", "workers", "--workers N"},
    {"warmup", "warmup-steps", kWarmupHint},
    {"warmup-epochs", "warmup-steps", kWarmupHint},
    {"pretrained", "init", "--init FILE.safetensors starts from weights with PyTorch's names"},
    {"checkpoint", "resume", kWeightsHint},
    {"load", "resume", kWeightsHint},
    {"num-classes", "data", "the number of classes comes from --data"},
    {"betas", "beta1", "--beta1 X --beta2 X"},
    {"gpu", "device", "--device cuda"},
    {"cuda", "device", "--device cuda"},
    {"cpu", "device", kCpuHint},
    {"no-cuda", "device", kCpuHint},
    {"grad-checkpointing", "recompute", kRecomputeHint},
    {"gradient-checkpointing", "recompute", kRecomputeHint},
    {"deterministic", "reduction", "every run is, by --reduction reproducible"},
    {"verbose", "log-every", "--log-every 1"},
    {"v", "log-every", "--log-every 1"},
    {"print-freq", "log-every", "--log-every N"},
    {"save-every", "checkpoint-every", "--checkpoint-every N counts steps; 10m is minutes"},
    {"val-split", "val-fraction", "--val-fraction X"},
};

bool has_flag(const CLI::App& app, std::string_view name) {
  return app.get_option_no_throw("--" + std::string(name)) != nullptr;
}

const Synonym* find(std::string_view name) {
  const auto* const found = std::ranges::find(kSynonyms, name, &Synonym::name);
  return found == std::end(kSynonyms) ? nullptr : found;
}

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '_', '-');
  return result;
}

std::string canonical_name(const CLI::App& app, const std::string& name) {
  if (has_flag(app, name)) return name;
  const std::string dashed = with_dashes(name);
  if (has_flag(app, dashed)) return dashed;
  const Synonym* const synonym = find(dashed);
  const bool reaches = synonym != nullptr && synonym->hint.empty() &&
                       (app.get_allow_extras() || has_flag(app, synonym->flag));
  if (reaches) return std::string(synonym->flag);
  return app.get_allow_extras() ? dashed : name;
}

/// Whether `argument` is a flag of `app` whose value is the next argument.
bool wants_value(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("--") || argument.find('=') != argument.npos) return false;
  const CLI::Option* const option = app.get_option_no_throw(argument);
  return option != nullptr && option->get_items_expected_min() > 0;
}

}  // namespace

std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (const std::string& argument : arguments) {
    const bool is_value = !result.empty() && wants_value(app, result.back());
    const bool is_flag = !is_value && argument.starts_with("--") && argument.size() > 2;
    if (!is_flag) {
      result.push_back(argument);
      continue;
    }
    std::string flag = canonical_flag(app, argument);
    // CLI11 takes --out= for --out with the next argument as its value.
    const bool is_empty = flag.find('=') == flag.size() - 1;
    if (is_empty && wants_value(app, flag.substr(0, flag.size() - 1))) {
      flag.pop_back();
      result.push_back(std::move(flag));
      flag.clear();
    }
    result.push_back(std::move(flag));
  }
  return result;
}

std::string canonical_flag(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  return "--" + canonical_name(app, argument.substr(2, end - 2)) + argument.substr(end);
}

std::string flag_hint(const CLI::App& app, std::string_view name, std::string_view dashes) {
  const std::string dashed = with_dashes(name);
  const auto meant = [&](std::string_view flag) {
    return fmt::format("did you mean {}{}?", dashes, flag);
  };
  if (const Synonym* const synonym = find(dashed); synonym && has_flag(app, synonym->flag))
    return synonym->hint.empty() ? meant(synonym->flag) : std::string(synonym->hint);
  if (has_flag(app, dashed + "s")) return meant(dashed + "s");
  if (dashed.ends_with('s') && has_flag(app, dashed.substr(0, dashed.size() - 1)))
    return meant(dashed.substr(0, dashed.size() - 1));
  std::vector<std::string> owned;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& long_name : option->get_lnames()) owned.push_back(long_name);
  const std::vector<std::string_view> names(owned.begin(), owned.end());
  const std::string best = nearest(dashed, names);
  return best.empty() ? std::string() : meant(best);
}

}  // namespace lockstep
