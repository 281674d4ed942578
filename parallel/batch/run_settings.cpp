// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/run_settings.h"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

#include "core/nn/trace.h"
#include "core/step/parameter_rates.h"

namespace lockstep {

Fingerprint run_settings(const TrainOptions& options,
                         const BatchPlan& batch,
                         std::int64_t steps,
                         const LrSchedule& schedule,
                         const data::DataSplit& data,
                         const std::string& device_class) {
  Fingerprint settings{
      {"global-batch", std::to_string(batch.global_batch)},
      {"micro-batch", std::to_string(batch.micro_batch)},
      {"shards", std::to_string(batch.shards)},
      {"batch-norm", options.batch_norm.to_string()},
      {"steps", std::to_string(steps)},
      {"optimizer", to_string(options.optimizer)},
      {"lr-schedule", to_string(schedule)},
      {"clip-norm", fmt::format("{}", options.clip_norm)},
      {"no-decay",
       fmt::format("{}{}", fmt::join(options.no_decay, ","), options.decay_all ? " all" : "")},
      {"precision", std::string(name_of(options.precision))},
      // Only in fp32 are the bits the same: a fused sum is rounded once.
      {options.precision != Precision::bf16 ? "fusion" : "fusion in bf16",
       options.fuse ? "on" : "off"},
      {"recompute", std::string(name_of(options.recompute))},
      {"memory-limit", std::to_string(options.memory_limit)},
      {"freeze", fmt::format("{}", fmt::join(options.freeze, ","))},
      {"init", options.init.empty() ? "no" : "yes"},
      {"init-skip", fmt::format("{}", fmt::join(options.init_skip, ","))},
      {"seed", std::to_string(options.seed)},
      {"reduction", options.reduction == Reduction::fast ? "fast" : "reproducible"},
      {"bucket-mb", options.bucket_mb == 0 ? "auto" : fmt::format("{}", options.bucket_mb)},
      {"augment", options.augmentation.to_string()},
      {"skip-bad-samples", options.skip_bad_samples ? "yes" : "no"},
      {"profile", options.profile ? "on" : "off"},
      {"log-every", std::to_string(options.log_every)},
      {"noise-scale-every", std::to_string(options.noise_scale_every)},
      {"eval-every", std::to_string(options.eval_every)},
      {"check-replicas-every", std::to_string(options.check_replicas_every)},
      {"data content", fmt::format("{:016x}", data.train->fingerprint())},
      {"validation data content",
       data.validation ? fmt::format("{:016x}", data.validation->fingerprint()) : "none"},
      {"device class", device_class}};
  settings.emplace_back("on-nonfinite",
                        options.on_nonfinite == OnNonfinite::skip ? "skip" : "stop");
  // Only where it is on: checkpoints from before do not have it. Which checkpoint a run goes back
  // to decides its bits.
  if (options.on_spike == OnSpike::rollback)
    settings.emplace_back(
        "on-spike",
        fmt::format("rollback, checkpoints every {} steps", options.checkpoint.every_steps));
  if (!options.groups.empty()) {
    std::vector<std::string> texts;
    for (const ParameterGroup& group : options.groups) texts.push_back(to_string(group));
    settings.emplace_back("group", fmt::format("{}", fmt::join(texts, "; ")));
  }
  if (options.sharding != Sharding::none)
    settings.emplace_back("shard", std::string(name_of(options.sharding)));
  if (options.early_stop > 0)
    settings.emplace_back("early-stop", std::to_string(options.early_stop));
  if (options.best_by == BestBy::accuracy) settings.emplace_back("best-by", "accuracy");
  if (const Distillation& d = options.distillation; d.on())
    settings.emplace_back("distillation",
                          d.hard ? fmt::format("hard, alpha {}", d.alpha)
                                 : fmt::format("alpha {}, temperature {}", d.alpha, d.temperature));
  if (options.repeated_augmentation > 1)
    settings.emplace_back("repeated-augmentation", std::to_string(options.repeated_augmentation));
  if (options.first_image_size > 0)
    settings.emplace_back("image-size", fmt::format("from {}", options.first_image_size));
  if (options.tta == TestTimeAugmentation::flip) settings.emplace_back("tta", "flip");
  if (options.ema.on()) settings.emplace_back("ema", to_string(options.ema));
  if (options.clip_value > 0)
    settings.emplace_back("clip-value", fmt::format("{}", options.clip_value));
  if (options.clip_agc > 0) settings.emplace_back("clip-agc", fmt::format("{}", options.clip_agc));
  if (options.lr_scaling.on()) settings.emplace_back("lr-scaling", to_string(options.lr_scaling));
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  return settings;
}

Fingerprint content_settings(const data::DataSplit& data, const TrainOptions& options) {
  data::ContentSample all;
  for (const auto& part : {data.train, data.validation}) {
    if (part == nullptr) continue;
    data::ContentSample sample;
    try {
      sample = part->content_sample(options.seed);
    } catch (const DataError&) {
      if (!options.skip_bad_samples) throw;
      return {};
    }
    all.hash = all.hash * 31 + sample.hash;
    all.written = std::max(all.written, sample.written);
  }
  Fingerprint settings;
  if (all.hash != 0) settings.emplace_back(kDataSample, fmt::format("{:016x}", all.hash));
  if (all.written != 0)
    settings.emplace_back(kDataWritten,
                          fmt::format("{:%F %T} UTC", fmt::gmtime(std::time_t(all.written))));
  return settings;
}

Fingerprint model_settings(const ModelFunction& model,
                           const LossFunction& loss,
                           const data::SampleSpec& samples,
                           const TrainOptions& options,
                           const BatchPlan& batch) {
  const Graph graph = trace(model,
                            loss,
                            samples,
                            {.mode = Mode::training,
                             .batch_norm = {},
                             .micro_batch = batch.micro_batch,
                             .precision = options.precision,
                             .fuse = false,
                             .freeze = options.freeze});
  std::istringstream lines(to_text(graph));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += line.substr(0, line.rfind("  # ")) + "\n";
  Fingerprint settings{{"model", short_hash(text)}};
  if (options.layer_decay != 1) {
    const std::vector<int> layers = layers_of(graph.parameters());
    const std::string hash = short_hash(fmt::format("{}", fmt::join(layers, ",")));
    settings.emplace_back("layer-decay", fmt::format("{}, layers {}", options.layer_decay, hash));
  }
  return settings;
}

}  // namespace lockstep
