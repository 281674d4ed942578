// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/forecast_changes.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <utility>

#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

/// An efficiency from which on a larger batch is not worth its price.
constexpr double kGoodEfficiency = 0.9;

class ChangeSearch {
 public:
  ChangeSearch(Backend& device, const PlanRequest& request, const ForecastModel& model)
      : device_(device), request_(request), model_(model), options_(request.options) {
    const BatchPlan batch = plan_batch(options_, request.ranks);
    options_.micro_batch = batch.micro_batch;  // which a larger batch keeps
    options_.accumulation = 0;
    micro_batches_ = batch.micro_batches;
    const RankShare share = share_of(options_, request.ranks, model.machine.network.ranks_per_host);
    rate_ = samples_per_s(options_, predict(model.work, model.machine, model.parameters, share));
  }

  std::vector<ForecastChange> all() const {
    std::vector<ForecastChange> found;
    for (const auto setting : {&ChangeSearch::reduction,
                               &ChangeSearch::shards,
                               &ChangeSearch::global_batch,
                               &ChangeSearch::bucket,
                               &ChangeSearch::overlap,
                               &ChangeSearch::network})
      if (auto change = (this->*setting)(); change && change->speedup >= kWorthwhileSpeedup)
        found.push_back(*std::move(change));
    std::ranges::stable_sort(found, std::greater{}, &ForecastChange::speedup);
    return found;
  }

 private:
  using Found = std::optional<ForecastChange>;

  static double samples_per_s(const TrainOptions& options, const StepCost& cost) {
    return double(options.global_batch) / cost.step_s();
  }

  /// Nothing where the batch cannot be planned so.
  Found change(const ForecastModel& model,
               const TrainOptions& options,
               std::string flags,
               std::string price = {}) const {
    const int per_host = model.machine.network.ranks_per_host;
    const auto share = try_share_of(options, request_.ranks, per_host);
    if (!share) return std::nullopt;
    ForecastChange result{.flags = std::move(flags), .price = std::move(price)};
    result.cost = predict(model.work, model.machine, model.parameters, *share);
    result.efficiency = strong_efficiency(model, *share, double(options.global_batch));
    result.speedup = samples_per_s(options, result.cost) / rate_;
    return result;
  }

  static void keep_faster(Found& best, Found other) {
    if (other && (!best || other->speedup > best->speedup)) best = std::move(other);
  }

  Found reduction() const {
    if (options_.reduction == Reduction::fast) return std::nullopt;
    ForecastModel model = model_;
    model.work.reduction = Reduction::fast;
    TrainOptions options = options_;
    options.reduction = Reduction::fast;
    return change(model, options, "--reduction fast", "bits then depend on the ranks");
  }

  /// As many for each rank: powers of two of them are aligned subtrees.
  Found shards() const {
    if (options_.reduction == Reduction::fast) return std::nullopt;
    Found best;
    TrainOptions options = options_;
    for (std::int64_t shards = request_.ranks; shards <= micro_batches_; shards *= 2) {
      options.shards = int(shards);
      keep_faster(best, change(model_, options, fmt::format("--shards {}", shards), "other bits"));
    }
    return best;
  }

  Found global_batch() const {
    Found largest;
    for (const int factor : {2, 4, 8}) {
      TrainOptions options = options_;
      options.global_batch *= factor;
      largest = change(model_,
                       options,
                       fmt::format("--global-batch {}", options.global_batch),
                       "another training: its learning rate has to follow");
      if (largest && largest->efficiency >= kGoodEfficiency) break;
    }
    return largest;
  }

  Found bucket() const {
    Found best;
    for (const double mb : {4.0, 16.0, 64.0, 256.0}) {
      PlanRequest request = request_;
      request.options.bucket_mb = mb;
      ForecastModel model = model_;
      model.work = plan_work(device_, request, model.peaks).work;
      keep_faster(best, change(model, options_, fmt::format("--bucket-mb {:g}", mb)));
    }
    return best;
  }

  Found overlap() const {
    ForecastModel model = model_;
    model.work.overlap = Overlap::on;
    return change(model, options_, "--overlap on");
  }

  Found network() const {
    Found best;
    for (const char* name : {"ethernet", "ib", "nvlink"}) {
      if (!model_.machine.on_gpus && std::string_view(name) == "nvlink") continue;
      ForecastModel model = model_;
      model.machine.network = with_links_of(model.sheet, *named_network(name));
      keep_faster(best, change(model, options_, fmt::format("--network {}", name), "other hosts"));
    }
    return best;
  }

  Backend& device_;
  const PlanRequest& request_;
  const ForecastModel& model_;
  TrainOptions options_;
  std::int64_t micro_batches_ = 1;
  double rate_ = 0;
};

}  // namespace

Network with_links_of(const std::optional<DeviceSheet>& sheet, Network network) {
  if (!sheet || network.name != "nvlink") return network;
  network.inside.bytes_per_s = sheet->nvlink_bytes_per_s;
  network.words = fmt::format(
      "8 ranks a host on NVLink of {}, 8 adapters of 400 Gb/s between hosts", sheet->name);
  return network;
}

double strong_efficiency(const ForecastModel& model, const RankShare& share, double global_batch) {
  const auto step_s = [&](const RankShare& of) {
    return predict(model.work, model.machine, model.parameters, of).step_s();
  };
  return step_s({1, global_batch, 1}) / (share.ranks * step_s(share));
}

std::vector<ForecastChange> find_changes(Backend& device,
                                         const PlanRequest& request,
                                         const ForecastModel& model) {
  if (request.ranks == 1) return {};
  return ChangeSearch(device, request, model).all();
}

}  // namespace lockstep
