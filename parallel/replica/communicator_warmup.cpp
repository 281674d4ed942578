// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/communicator_warmup.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "core/base/number_format.h"
#include "lockstep/error.h"
#include "parallel/batch/schedule.h"
#include "parallel/replica/device_sharing.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {
namespace {

constexpr std::size_t kMomentBytes = 16 * 1024;  // of batch norm: one for each channel, or few
constexpr std::int64_t kSmallElems = 1024;       // a bucket that is gathered whole
/// Of the device's free memory, what a trial's bucket may take. Its buffers take about as much.
constexpr std::uint64_t kBucketShare = 16;
/// With less free, a collective that fails is taken to have lacked memory: NCCL's buffers for one
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

void try_step(GradientExchange& exchange, const Schedule& schedule) {
  exchange.begin_step(schedule);
  const ShardPlace place = exchange.place();
  const SentBytes sent = exchange.sent();
  for (std::size_t i = 1; i < schedule.work.size(); ++i) exchange.finish_shard();
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  exchange.undo_capture(place, sent);
  exchange.buckets_were_replayed({});
}

/// A step of a whole batch, and one of a single micro-batch, which most ranks have no part in:
/// their sums are gathered in another way.
void try_exchange(GradientExchange& exchange, ScheduleSettings settings, int rank) {
  try_step(exchange, make_schedule(settings, rank));
  settings.samples = settings.micro_batch;
  try_step(exchange, make_schedule(settings, rank));
}

void try_group(Backend& backend, Communicator& group) {
  const auto bytes = kMomentBytes * std::size_t(group.size() + 1);
  const auto memory = backend.allocate(bytes, "trial of collectives");
  group.all_gather(memory->data(), memory->data() + kMomentBytes, kMomentBytes);
  backend.synchronize();
}

/// Has `trial` ask for collectives, and waits for them. A network that fails before a training
/// begins never reached.
template <typename Trial>
void require_reached(RankContext& context, Trial trial) {
  const CollectiveScope scope(context.position(), {.name = "trial of collectives"});
  try {
    trial();
    context.backend().synchronize();
    context.communicator().require_healthy();
  } catch (const CommError& error) {
    const std::optional<std::uint64_t> free = context.backend().memory().free;
    if (free && *free < kScarce)
      throw OutOfMemory(
          fmt::format("{}, with {} free on the GPU", error.what(), format_bytes(double(*free))),
          "collectives want memory of their own: end what else holds the GPU's memory, or use a "
          "smaller `micro_batch`");
    throw EnvironmentError(error.what(), error.hint());
  }
}

/// What ranks tell each other before a trial.
struct TrialCard {
  std::uint64_t free = 0, bucket_bytes = 0;
  std::int64_t cluster = 1, reduction = 0;
};

/// Elements of the trial's large bucket: as many as a training's, where every rank has room. 0:
/// ranks were told different things, which whoever compares all of them will say.
std::int64_t bucket_elems(RankContext& context,
                          const TrainOptions& options,
                          const BatchPlan& batch) {
  const double asked = options.bucket_mb * 1024 * 1024;
  const TrialCard own{
      free_part(context),
      asked > 0 ? std::uint64_t(asked) : std::uint64_t(context.backend().traits().bucket_bytes),
      batch.cluster,
      std::int64_t(options.reduction)};
  std::vector<TrialCard> all(std::size_t(context.size()));
  context.host_communicator().all_gather(&own, all.data(), sizeof own);
  std::uint64_t bytes = own.bucket_bytes;
  for (const TrialCard& card : all) {
    if (card.bucket_bytes != all[0].bucket_bytes || card.cluster != all[0].cluster ||
        card.reduction != all[0].reduction)
      return 0;
    bytes = std::min(bytes, card.free / kBucketShare);
  }
  return std::max<std::int64_t>(1, std::int64_t(bytes / sizeof(float)));
}

/// A training's exchange without the training.
class TrialExchange {
 public:
  TrialExchange(RankContext& context, const TrainOptions& options, std::int64_t elems)
      : elems_(elems + kSmallElems),
        gradients_(context.backend().allocate(std::size_t(elems_) * sizeof(float), "trial")),
        exchange_(context.backend(),
                  context.communicator(),
                  options.reduction,
                  {{0, elems}, {elems, kSmallElems}},
                  gradients_->as<float>(),
                  context.size()) {}

  void run(RankContext& context) {
    const int ranks = context.size();
    try_exchange(exchange_,
                 {.samples = ranks, .micro_batch = 1, .shards = ranks, .ranks = ranks},
                 context.rank());
  }
  std::uint64_t bytes() const {
    return gradients_->bytes() + exchange_.pending_sum_bytes() + exchange_.communication_bytes();
  }

 private:
  std::int64_t elems_;
  std::unique_ptr<DeviceBuffer> gradients_;
  GradientExchange exchange_;
};

}  // namespace

void warm_up_connections(RankContext& context) {
  Communicator& communicator = context.communicator();
  const int ranks = communicator.size();
  const auto memory =
      context.backend().allocate(2 * std::size_t(ranks) * sizeof(float), "trial of collectives");
  float *const send = memory->as<float>(), *const receive = send + ranks;
  std::vector<CommBlock> one_each;
  for (int r = 0; r < ranks; ++r) one_each.push_back({r, 1});
  require_reached(context, [&] {
    communicator.start_all_to_all(send, one_each, receive, one_each)->wait();
    communicator.start_all_gather(receive, one_each)->wait();
    communicator.start_all_reduce(send, ranks)->wait();
    communicator.all_gather(send, receive, sizeof(float));
    communicator.broadcast(send, sizeof(float), 0);
  });
}

void warm_up_collectives(RankContext& context,
                         ReplicaParts& parts,
                         const BatchPlan& batch,
                         Communicator* group) {
  if (has_none(context)) return;
  require_reached(context, [&] {
    ScheduleSettings whole{.samples = batch.global_batch,
                           .micro_batch = batch.micro_batch,
                           .shards = evaluation_shards(batch),
                           .ranks = batch.ranks};
    try_exchange(parts.evaluation_exchange, whole, context.rank());
    whole.shards = batch.shards;
    whole.cluster = batch.cluster;
    try_exchange(parts.exchange, whole, context.rank());
    if (group != nullptr) try_group(context.backend(), *group);
  });
}

std::uint64_t bytes_of_collectives(RankContext& context, const TrainOptions& options) {
  if (has_none(context)) return 0;
  const BatchPlan batch = plan_batch(options, context.size());
  const std::int64_t elems = bucket_elems(context, options, batch);
  if (elems == 0) return 0;
  std::uint64_t during = 0, own = 0;
  {
    TrialExchange exchange(context, options, elems);
    std::unique_ptr<Communicator> group;
    require_reached(context, [&] {
      exchange.run(context);
      if (batch.cluster == 1) return;
      group = context.communicator().split(context.rank() / batch.cluster,
                                           context.rank() % batch.cluster);
      try_group(context.backend(), *group);
    });
    during = free_part(context);
    own = exchange.bytes();
  }
  return less(less(free_part(context), during), own);
}

}  // namespace lockstep
