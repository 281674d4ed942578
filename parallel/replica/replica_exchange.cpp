// SPDX-License-Identifier: Apache-2.0
// What the parts of a step ask of the gradient exchange, and what is measured of it.
#include <chrono>

#include "core/host/monotonic_clock.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

double seconds_from(MonotonicClock::time_point begin) {
  return std::chrono::duration<double>(MonotonicClock::now() - begin).count();
}

}  // namespace

void ReplicaState::end_shard(const ShardWork& shard, const Schedule& schedule) {
  std::int64_t samples = 0;
  for (const MicroBatch& micro_batch : shard.micro_batches) samples += micro_batch.samples;
  parts.shard_norms.end_shard(shard.shard, samples, schedule.samples);
}

void ReplicaState::start_bucket(const Segment& segment, int bucket) {
  const auto b = std::size_t(bucket);
  if (segment.adds_norms) parts.shard_norms.add_bucket(bucket);
  if (probes_.ranges) probes_.open_ranges[b] = probes_.ranges->start(probes_.bucket_names[b]);
  const auto begin = MonotonicClock::now();
  if (profiler) probes_.started[b] = begin;
  const DeviceScope scope(profiler.get(), profiler ? probes_.bucket_work[b] : -1);
  parts.exchange.start_bucket(bucket);
  times_.moving_exchanges += seconds_from(begin);
}

void ReplicaState::move_exchange() {
  if (!parts.exchange.in_flight()) return;
  const auto begin = MonotonicClock::now();
  const DeviceScope scope(profiler.get(), probes_.moving);
  parts.exchange.progress();
  times_.moving_exchanges += seconds_from(begin);
}

void ReplicaState::sum_shard(const Segment& segment) {
  if (segment.adds_norms) {
    for (int b = 0; b < parts.exchange.bucket_count(); ++b) parts.shard_norms.add_bucket(b);
    end_shard(*segment.shard, *segment.schedule);
  }
  parts.exchange.finish_shard();
}

/// Before kernels write where other buckets lie.
void ReplicaState::reuse_gradients(int index) {
  const GradientReuse& reuse = programs.compiled().gradients().reuses()[std::size_t(index)];
  for (const int bucket : reuse.after) finish_bucket(bucket);
  for (const GradientStretch& padding : reuse.padding)
    context.backend().set_zero(programs.gradients() + padding.offset,
                               std::size_t(padding.elems) * sizeof(float));
}

void ReplicaState::finish_buckets() {
  const std::vector<Bucket>& buckets = programs.space().buckets;
  // Where a rank in backward waits for sharded ones, none may block in a small one before.
  for (std::size_t b = 0; b < buckets.size(); ++b)
    if (programs.compiled().gradients().divided() && buckets[b].sharded) finish_bucket(int(b));
  for (std::size_t b = 0; b < buckets.size(); ++b) finish_bucket(int(b));
}

void ReplicaState::finish_bucket(int bucket) {
  if (parts.exchange.is_finished(bucket)) return;
  const auto b = std::size_t(bucket);
  const auto begin = profiler ? Profiler::Clock::now() : Profiler::Clock::time_point();
  {
    const DeviceScope scope(profiler.get(), profiler ? probes_.bucket_work[b] : -1);
    parts.exchange.finish_bucket(bucket);
  }
  if (probes_.ranges) probes_.ranges->end(probes_.open_ranges[b]);
  if (!profiler) return;
  const auto end = Profiler::Clock::now();
  profiler->record(probes_.wait, begin, end);
  profiler->record(probes_.bucket_work[b], probes_.started[b], end);
}

}  // namespace lockstep
