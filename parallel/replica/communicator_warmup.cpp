// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/communicator_warmup.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "core/base/parameter_names.h"
#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "core/plan/ownership.h"
#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/gradient_exchange.h"
#include "parallel/replica/device_sharing.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

constexpr std::size_t kMomentBytes = 16 * 1024;  // of a batch norm: 4,096 values or fewer
constexpr std::int64_t kSmallElems = 1024;       // a bucket that is gathered whole
/// The warm-up's bucket takes at most one part in this many of the device's free memory; the
/// exchange's buffers take about as much.
constexpr std::uint64_t kBucketShare = 16;
/// With less free memory, a collective that fails counts as out of memory: NCCL's buffers for one
/// communicator and algorithm are some 100 MB.
constexpr std::uint64_t kScarce = 256 << 20;

bool has_none(RankContext& context) {
  return context.size() == 1 || !context.communicator().in_stream_order();
}

std::uint64_t free_part(RankContext& context) {
  return free_part(context.host_communicator(), context.backend());
}

std::uint64_t less(std::uint64_t before, std::uint64_t after) {
  return before - std::min(before, after);
}

void warm_up_step(GradientExchange& exchange, const Schedule& schedule) {
  exchange.begin_step(schedule);
  const ShardPlace place = exchange.place();
  const SentBytes sent = exchange.sent();
  for (std::size_t i = 1; i < schedule.work.size(); ++i) exchange.finish_shard();
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  exchange.undo_capture(place, sent);
  exchange.buckets_were_replayed({});
}

/// A step of a whole batch, and one of a single micro-batch, in which most ranks have no samples
/// and the exchange uses other collectives.
void warm_up_exchange(GradientExchange& exchange, ScheduleSettings settings, int rank) {
  warm_up_step(exchange, make_schedule(settings, rank));
  settings.samples = settings.micro_batch;
  warm_up_step(exchange, make_schedule(settings, rank));
}

void warm_up_group(Backend& backend, Communicator& group) {
  const auto bytes = kMomentBytes * std::size_t(group.size() + 1);
  const auto memory = backend.allocate(bytes, "communicator warm-up");
  group.all_gather(memory->data(), memory->data() + kMomentBytes, kMomentBytes);
  backend.synchronize();
}

/// Runs `warm_up`, which enqueues collectives, and waits for them. A network that fails here,
/// before training, has never connected the ranks: an EnvironmentError, not a CommError.
template <typename WarmUp>
void require_connected(RankContext& context, WarmUp warm_up) {
  const CollectiveScope scope(context.position(), {.name = "communicator warm-up"});
  try {
    warm_up();
    context.backend().synchronize();
    context.communicator().require_healthy();
  } catch (const CommError& error) {
    const std::optional<std::uint64_t> free = context.backend().memory().free;
    if (free && *free < kScarce)
      throw OutOfMemory(
          fmt::format(
              "{}, with {} free on the GPU", as_written(error.what()), format_bytes(double(*free))),
          "collectives need memory of their own: end other processes on the GPU, or use a smaller "
          "`micro_batch`");
    throw EnvironmentError(as_written(error.what()), as_written(error.hint()));
  }
}

/// Elements of the warm-up's large bucket: as many as training's, where every rank has the memory.
/// 0: ranks have different options, which the comparison of fingerprints reports.
std::int64_t bucket_elems(RankContext& context,
                          const TrainOptions& options,
                          const BatchPlan& batch) {
  const double asked = options.bucket_mb * 1024 * 1024;
  const auto bytes =
      asked > 0 ? std::uint64_t(asked) : std::uint64_t(context.backend().traits().bucket_bytes);
  Communicator& ranks = context.host_communicator();
  const std::uint64_t free = smallest(ranks, free_part(context));
  if (!all_ranks_equal(ranks,
                       {bytes,
                        std::uint64_t(batch.cluster),
                        std::uint64_t(options.reduction),
                        std::uint64_t(options.sharding)}))
    return 0;
  return std::max<std::int64_t>(1,
                                std::int64_t(std::min(bytes, free / kBucketShare) / sizeof(float)));
}

/// One element from each rank to those that `is_peer(from, to)` names. `memory`: [2][ranks].
template <typename IsPeer>
void warm_up_pairs(Communicator& communicator, float* memory, IsPeer is_peer) {
  const int ranks = communicator.size(), own = communicator.rank();
  std::vector<CommBlock> one_each;
  for (int r = 0; r < ranks; ++r) one_each.push_back({r, is_peer(own, r) ? 1 : 0});
  communicator.start_all_to_all(memory, one_each, memory + ranks, one_each)->wait();
}

std::unique_ptr<DeviceBuffer> allocate_for_pairs(RankContext& context) {
  return context.backend().allocate(2 * std::size_t(context.size()) * sizeof(float),
                                    "communicator warm-up");
}

/// Owners send what they own to whichever rank writes it into a checkpoint.
void warm_up_all_pairs(Communicator& communicator, DeviceBuffer& memory) {
  warm_up_pairs(communicator, memory.as<float>(), [](int, int) { return true; });
}

/// The exchange of a training run, without the training.
class WarmupExchange {
 public:
  WarmupExchange(RankContext& context, const TrainOptions& options, std::int64_t elems)
      : elems_(elems + kSmallElems),
        gradients_(context.backend().allocate(std::size_t(elems_) * sizeof(float),
                                              "communicator warm-up")),
        exchange_(context.backend(),
                  context.communicator(),
                  options.reduction,
                  {{0, elems}, {elems, kSmallElems}},
                  gradients_->as<float>(),
                  context.size()) {}

  void run(RankContext& context) {
    const int ranks = context.size();
    warm_up_exchange(exchange_,
                     {.samples = ranks, .micro_batch = 1, .shards = ranks, .ranks = ranks},
                     context.rank());
  }
  std::uint64_t bytes() const {
    return gradients_->bytes() + exchange_.partial_sum_bytes() + exchange_.communication_bytes();
  }

 private:
  std::int64_t elems_;
  std::unique_ptr<DeviceBuffer> gradients_;
  GradientExchange exchange_;
};

}  // namespace

void warm_up_connections(RankContext& context) {
  Communicator& communicator = context.communicator();
  const int ranks = communicator.size(), per_host = communicator.ranks_per_node();
  const bool by_host = has_two_levels(ranks, per_host);
  const auto memory = allocate_for_pairs(context);
  float *const send = memory->as<float>(), *const receive = send + ranks;
  std::vector<CommBlock> one_each;
  for (int r = 0; r < ranks; ++r) one_each.push_back({r, 1});
  require_connected(context, [&] {
    warm_up_pairs(communicator, send, [&](int a, int b) {
      return !by_host || a / per_host == b / per_host || a % per_host == b % per_host;
    });
    communicator.start_all_gather(receive, one_each)->wait();
    communicator.start_all_reduce(send, ranks)->wait();
    communicator.all_gather(send, receive, sizeof(float));
    communicator.broadcast(send, sizeof(float), 0);
  });
}

void warm_up_collectives(RankContext& context,
                         ReplicaParts& parts,
                         float* weights,
                         const BatchPlan& batch,
                         Communicator* group) {
  if (has_none(context)) return;
  const auto memory = allocate_for_pairs(context);
  require_connected(context, [&] {
    if (parts.owners) warm_up_all_pairs(context.communicator(), *memory);
    ScheduleSettings whole{.samples = batch.global_batch,
                           .micro_batch = batch.micro_batch,
                           .shards = evaluation_shards(batch),
                           .ranks = batch.ranks};
    warm_up_exchange(parts.evaluation_exchange, whole, context.rank());
    whole.shards = batch.shards;
    whole.cluster = batch.cluster;
    whole.dealt = batch.dealt;
    // Every turn has the collectives of the last.
    if (batch.dealt)
      whole.samples = std::min(whole.samples, std::int64_t(batch.ranks) * batch.micro_batch);
    warm_up_exchange(parts.exchange, whole, context.rank());
    if (parts.owners) parts.owners->warm_up(weights);
    if (parts.matrices) parts.matrices->warm_up();
    if (group != nullptr) warm_up_group(context.backend(), *group);
  });
}

std::uint64_t bytes_of_collectives(RankContext& context,
                                   const TrainOptions& options,
                                   const BatchPlan& batch) {
  if (has_none(context)) return 0;
  const std::int64_t elems = bucket_elems(context, options, batch);
  if (elems == 0) return 0;
  if (options.sharding != Sharding::none) {
    const auto memory = allocate_for_pairs(context);
    require_connected(context, [&] { warm_up_all_pairs(context.communicator(), *memory); });
  }
  std::uint64_t during = 0, own = 0;
  {
    WarmupExchange exchange(context, options, elems);
    std::unique_ptr<Communicator> group, matrix_ranks;
    require_connected(context, [&] {
      exchange.run(context);
      const int members = options.sharding == Sharding::none
                              ? ranks_that_share_matrices(context.communicator(), options.optimizer)
                              : 1;
      if (members > 1 && members < context.size()) {
        matrix_ranks = context.communicator().split(context.rank() / members, context.rank());
        warm_up_group(context.backend(), *matrix_ranks);
      }
      if (batch.cluster == 1) return;
      group = context.communicator().split(context.rank() / batch.cluster,
                                           context.rank() % batch.cluster);
      warm_up_group(context.backend(), *group);
    });
    during = free_part(context);
    own = exchange.bytes();
  }
  return less(less(free_part(context), during), own);
}

}  // namespace lockstep
