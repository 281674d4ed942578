// SPDX-License-Identifier: Apache-2.0
#include "parallel/batch/batch_plan.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "core/base/check.h"
#include "lockstep/schedule.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

/// Why there is no plan; nothing: there is one.
using Problem = std::optional<ConfigError>;

Problem at_least(std::int64_t least, const char* name, std::int64_t value) {
  if (value >= least) return std::nullopt;
  return ConfigError(fmt::format("`{}` must be at least 1, got {}", name, value));
}

Problem check_signs(const TrainOptions& o) {
  if (auto problem = at_least(1, "global_batch", o.global_batch)) return problem;
  if (auto problem = at_least(0, "micro_batch", o.micro_batch)) return problem;
  if (auto problem = at_least(0, "accumulation", o.accumulation)) return problem;
  return o.shards == kAutoShards ? std::nullopt : at_least(0, "shards", o.shards);
}

Problem derive_micro_batch(const TrainOptions& o, BatchPlan& plan) {
  const int ranks = plan.ranks;
  if (o.micro_batch > o.global_batch)
    return ConfigError(fmt::format(
        "`micro_batch` {} is larger than `global_batch` {}", o.micro_batch, o.global_batch));
  if (o.accumulation > o.global_batch / ranks)
    return ConfigError(
        fmt::format("`accumulation` {} on {} ranks is more than `global_batch` {} holds",
                    o.accumulation,
                    ranks,
                    o.global_batch));
  plan.micro_batch = o.micro_batch > 0 ? o.micro_batch : default_micro_batch(o.global_batch);
  if (o.accumulation == 0) return std::nullopt;
  const std::int64_t parts = o.accumulation * ranks;
  if (o.micro_batch > 0) {
    if (o.micro_batch * parts != o.global_batch)
      return ConfigError(
          fmt::format(
              "`micro_batch` {} x `accumulation` {} x {} ranks = {}, but `global_batch` is {}",
              o.micro_batch,
              o.accumulation,
              ranks,
              o.micro_batch * parts,
              o.global_batch),
          "give two of the three and the third follows");
    return std::nullopt;
  }
  if (o.global_batch % parts != 0)
    return ConfigError(fmt::format("`global_batch` {} does not divide into `accumulation` {} x {} "
                                   "ranks",
                                   o.global_batch,
                                   o.accumulation,
                                   ranks),
                       fmt::format("`global_batch` {} would",
                                   std::max<std::int64_t>(1, o.global_batch / parts) * parts));
  plan.micro_batch = o.global_batch / parts;
  return std::nullopt;
}

Problem form_groups(const TrainOptions& o, BatchPlan& plan) {
  if (o.batch_norm.kind == BatchNormPolicy::Kind::local) return std::nullopt;
  if (o.batch_norm.kind == BatchNormPolicy::Kind::sync) {
    plan.cluster = plan.ranks;
    return std::nullopt;
  }
  const std::int64_t group = o.batch_norm.group, micro = plan.micro_batch;
  if (group <= micro) {
    if (micro % group != 0)
      return ConfigError(
          fmt::format(
              "`batch_norm`: groups of {} samples do not divide a micro-batch of {}", group, micro),
          fmt::format("`micro_batch` {} would hold whole groups",
                      (micro + group - 1) / group * group));
    plan.group_size = group == micro ? 0 : group;
    return std::nullopt;
  }
  const std::int64_t cluster = group / micro;
  if (group % micro != 0 || plan.ranks % cluster != 0)
    return ConfigError(
        fmt::format(
            "`batch_norm`: a group of {} samples needs {} ranks with micro-batches of {} each, "
            "and the number of ranks, {}, to be a multiple of that",
            group,
            group % micro == 0 ? fmt::format("{}", cluster)
                               : fmt::format("{:.2f}", double(group) / double(micro)),
            micro,
            plan.ranks),
        group <= plan.global_batch
            ? fmt::format("`micro_batch` {} forms the group on every number of ranks", group)
            : fmt::format("`batch_norm` group:{}, or a larger `global_batch`", micro));
  plan.cluster = int(cluster);
  return std::nullopt;
}

Problem check_ranks(const BatchPlan& plan, bool default_shards) {
  if (plan.global_batch < plan.ranks)
    return ConfigError(fmt::format("`global_batch` {} is smaller than the number of ranks, {}",
                                   plan.global_batch,
                                   plan.ranks),
                       fmt::format("`global_batch` {} or fewer ranks", plan.ranks));
  if (plan.micro_batches < plan.ranks)
    return ConfigError(
        fmt::format("`global_batch` {} makes {} micro-batches of {}, too few for {} ranks",
                    plan.global_batch,
                    plan.micro_batches,
                    plan.micro_batch,
                    plan.ranks),
        fmt::format("`micro_batch` {}", plan.global_batch / plan.ranks));
  if (plan.shards < plan.ranks || plan.shards > plan.micro_batches)
    return ConfigError(
        fmt::format("`shards` must be between the ranks, {}, and the micro-batches, {}; "
                    "got {}",
                    plan.ranks,
                    plan.micro_batches,
                    plan.shards),
        default_shards || plan.ranks > kDefaultShards
            ? fmt::format("`shards` {}, or auto: by default there are at most {}",
                          plan.ranks,
                          kDefaultShards)
            : fmt::format("`shards` auto, or none given for the default, at most {}",
                          kDefaultShards));
  return std::nullopt;
}

Problem check_clusters(const BatchPlan& plan) {
  if (plan.shards % plan.cluster == 0) return std::nullopt;
  return ConfigError(
      fmt::format("`shards` {} is not a multiple of the {} ranks that form a batch-norm group",
                  plan.shards,
                  plan.cluster),
      "omit `shards` for the default");
}

Problem fill(const TrainOptions& o, int ranks, BatchPlan& plan) {
  if (auto problem = check_signs(o)) return problem;
  plan.global_batch = o.global_batch;
  plan.ranks = ranks;
  plan.dealt = o.sharding == Sharding::gradients && ranks > 1;
  if (o.global_batch < ranks) return check_ranks(plan, o.shards == 0);
  if (auto problem = derive_micro_batch(o, plan)) return problem;
  plan.micro_batches = (o.global_batch - 1) / plan.micro_batch + 1;
  if (auto problem = form_groups(o, plan)) return problem;
  plan.shards = o.shards > 0              ? o.shards
                : o.shards == kAutoShards ? auto_shards(plan.micro_batches, plan.cluster)
                                          : default_shards(plan.micro_batches, plan.cluster);
  if (auto problem = check_ranks(plan, o.shards == 0)) return problem;
  return check_clusters(plan);
}

}  // namespace

std::string BatchPlan::to_string() const {
  return fmt::format("global batch {} = {} micro-batches of {} on {} rank{}, {} shards",
                     global_batch,
                     micro_batches,
                     micro_batch,
                     ranks,
                     ranks == 1 ? "" : "s",
                     shards);
}

std::int64_t default_micro_batch(std::int64_t global_batch) {
  constexpr std::int64_t kMax = 32, kMin = 16, kParts = 8;
  if (global_batch > kMax * (kParts - 1)) return kMax;
  const auto parts =
      std::bit_floor(std::uint64_t(std::clamp<std::int64_t>(global_batch / kMin, 2, kParts)));
  return (global_batch - 1) / std::int64_t(parts) + 1;
}

void expect_whole_batch(std::int64_t global_batch, std::int64_t training_samples) {
  if (global_batch > training_samples)
    throw ConfigError(fmt::format("`global_batch` {} is larger than the {} training samples",
                                  global_batch,
                                  training_samples),
                      fmt::format("use a `global_batch` of {} or less", training_samples));
}

std::vector<std::int64_t> tail_sizes(const BatchPlan& plan,
                                     std::int64_t training_samples,
                                     std::int64_t validation_samples) {
  const std::int64_t micro = plan.micro_batch;
  std::vector<std::int64_t> sizes{plan.global_batch % micro,
                                  training_samples % plan.global_batch % micro,
                                  validation_samples % micro};
  std::erase(sizes, 0);
  return sizes;
}

int most_derived_shards(const TrainOptions& options) {
  return options.shards == kAutoShards ? kMaxAutoShards : kDefaultShards;
}

std::int64_t least_of_single_shards(const TrainOptions& options) {
  const std::int64_t shards = options.shards > 0 ? options.shards : most_derived_shards(options);
  return (options.global_batch - 1) / shards + 1;
}

double rank_balance(const BatchPlan& plan) {
  const int most_rounds = make_schedule({.samples = plan.global_batch,
                                         .micro_batch = plan.micro_batch,
                                         .shards = plan.shards,
                                         .ranks = plan.ranks,
                                         .cluster = plan.cluster,
                                         .dealt = plan.dealt},
                                        0)
                              .most_rounds;
  return double(plan.micro_batches) / (double(plan.ranks) * most_rounds);
}

std::vector<int> balanced_rank_counts(const TrainOptions& options,
                                      const BatchPlan& plan,
                                      int most) {
  TrainOptions same = options;
  same.micro_batch = plan.micro_batch;
  same.accumulation = 0;
  same.shards = plan.shards;
  std::vector<int> counts;
  for (int ranks = 1; ranks <= std::min(most, plan.shards); ++ranks)
    if (const auto there = try_plan_batch(same, ranks);
        there && rank_balance(*there) >= kMinBalance)
      counts.push_back(ranks);
  return counts;
}

std::optional<int> better_shards(const BatchPlan& plan) {
  const double balance = rank_balance(plan);
  BatchPlan one_each = plan;
  one_each.shards = plan.ranks;
  if (balance >= kMinBalance || rank_balance(one_each) < (2 - kMinBalance) * balance)
    return std::nullopt;
  return one_each.shards;
}

int evaluation_shards(const BatchPlan& plan) { return std::max(kDefaultShards, plan.shards); }

std::optional<BatchPlan> try_plan_batch(const TrainOptions& options, int ranks) {
  BatchPlan plan;
  if (fill(options, ranks, plan)) return std::nullopt;
  return plan;
}

BatchPlan plan_batch(const TrainOptions& options, int ranks) {
  BatchPlan plan;
  if (const Problem problem = fill(options, ranks, plan)) throw *problem;
  return plan;
}

}  // namespace lockstep
