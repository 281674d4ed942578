// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/bucket_pipeline.h"

#include <algorithm>
#include <optional>

#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxStages = 4;  // down and up two levels

}  // namespace

BucketPipeline::BucketPipeline(Backend& backend,
                               const Communicator& all,
                               const ExchangeCommunicators& communicators,
                               Reduction reduction,
                               PartialSums& sums,
                               const KeptSums& kept,
                               float* gradients,
                               int bucket_count)
    : backend_(backend),
      reduction_(reduction),
      sums_(sums),
      kept_(kept),
      gradients_(gradients),
      rank_(all.rank()),
      ranks_(all.size()),
      receives_apart_(all.receives_apart(gradients)),
      in_stream_order_(all.in_stream_order()),
      max_slots_(backend.traits().buckets_in_flight),
      entered_(kMaxStages + 1) {
  in_flight_.resize(std::size_t(bucket_count));
  for (const ExchangeCommunicators::Level& level : communicators.levels())
    levels_.emplace_back(backend, all, level, gradients, bucket_count);
  if (levels_.size() == 1 || !in_stream_order_) return;
  for (InFlight& entry : in_flight_)
    for (auto* event : {&entry.on_host, &entry.summed, &entry.gathered})
      *event = backend.make_event();
}

std::int64_t BucketPipeline::slot_elems(const ExchangeSize& size, std::int64_t bucket_elems) const {
  if (ranks_ == 1 || reduction_ == Reduction::fast) return 0;
  // The chunk of rank 0 is never the smaller one: every rank then reserves alike.
  return size.received_chunks * chunks_of(bucket_elems, 0, 1, ranks_).elems;
}

void BucketPipeline::allocate() {
  const std::size_t needed = std::size_t(reserved_) * sizeof(float);
  if (needed > bytes()) {
    pool_.reset();
    pool_ = backend_.allocate(needed, "gradient exchange buffers");
  }
}

void BucketPipeline::begin(const ExchangePlan& plan, std::int64_t largest) {
  LOCKSTEP_ASSERT(idle());
  plan_ = &plan;
  slot_size_ = slot_elems(plan.size, largest);
  slots_ = slot_size_ == 0
               ? max_slots_
               : int(std::clamp<std::int64_t>(
                     std::int64_t(bytes() / sizeof(float)) / slot_size_, 1, max_slots_));
  LOCKSTEP_ASSERT(std::size_t(slot_size_ * (slot_size_ == 0 ? 1 : slots_)) * sizeof(float) <=
                  bytes());
  own_nodes_.resize(std::size_t(plan.size.own_nodes));
  LOCKSTEP_ASSERT(levels_.size() == (plan.has_two_levels() ? 2u : 1u));
  int layers = plan.all().layers;
  if (plan.has_two_levels()) {
    levels_[0].begin(plan.on_host);
    levels_[1].begin(plan.across_hosts());
    layers = std::max(plan.on_host.layers, plan.across_hosts().layers);
  } else {
    levels_[0].begin(plan.all());
  }
  const bool fast = reduction_ == Reduction::fast;
  stages_ = fast ? 1 : 2 * int(levels_.size());
  sums_done_ = fast ? 0 : int(levels_.size());
  // On two levels the sums of a host are sent from where it has received.
  ahead_ = receives_apart_ && levels_.size() == 1 ? 1 : 0;
  two_streams_ = in_stream_order_ && levels_.size() == 2;
  flushes_ = false;
  started_ = 0;
  std::ranges::fill(entered_, 0);
  for (InFlight& entry : in_flight_) entry.requests.reserve(std::size_t(layers));
}

void BucketPipeline::start(Bucket bucket, const DeviceEvent* computed) {
  in_flight_[std::size_t(started_)].bucket = bucket;
  in_flight_[std::size_t(started_)].computed = computed;
  ++started_;
  progress();
}

bool BucketPipeline::slot_is_free() const {
  return entered_[0] - entered_[std::size_t(sums_done_)] < slots_ + ahead_;
}

bool BucketPipeline::try_stage(int stage) {
  int& entered = entered_[std::size_t(stage)];
  const int ready = stage == 0 ? started_ : entered_[std::size_t(stage) - 1];
  if (entered == ready || (stage == 0 && !slot_is_free())) return false;
  if (is_held_back(entered, stage)) return false;
  InFlight& entry = in_flight_[std::size_t(entered)];
  while (!entry.requests.empty()) {
    if (!entry.requests.back()->test()) return false;
    entry.requests.pop_back();
  }
  float* slot = pool_ ? pool_->as<float>() + entered % slots_ * slot_size_ : nullptr;
  if (stage == 0 && entry.computed != nullptr) backend_.wait_for(*entry.computed);
  if (stage < stages_) enter(stage, entered, slot);
  ++entered;
  return true;
}

/// What level `at` has of the bucket before it receives, and where it receives that.
BucketPipeline::LevelMemory BucketPipeline::memory_of(std::size_t at,
                                                      Bucket bucket,
                                                      float* receive) {
  for (int node = 0; node < plan_->size.own_nodes; ++node)
    own_nodes_[std::size_t(node)] = sums_.node(node) + bucket.offset;
  if (at == 0) return {own_nodes_, receive};
  // Where nothing is received there may be no memory after the first level's.
  float* const after =
      levels_[1].received(bucket) > 0 ? receive + levels_[0].received(bucket) : nullptr;
  return {levels_[0].sums(bucket, own_nodes_, receive), after};
}

bool BucketPipeline::is_held_back(int index, int stage) const {
  constexpr int kHostSummed = 1;  // the stage that a bucket enters with that sum
  return two_streams_ && !flushes_ && stage == stages_ - 1 && entered_[kHostSummed] <= index + 1;
}

void BucketPipeline::flush() {
  flushes_ = true;
  progress();
  flushes_ = false;
  LOCKSTEP_ASSERT(idle());
}

void BucketPipeline::enter(int stage, int index, float* receive) {
  InFlight& entry = in_flight_[std::size_t(index)];
  if (reduction_ == Reduction::fast) {
    entry.requests.push_back(start_all_reduce(entry.bucket));
    return;
  }
  if (!two_streams_) {
    sum_level(stage, entry.bucket, receive);
    start_level(stage, entry, receive);
    return;
  }
  std::optional<StreamScope> network;
  if (stage == 0 && index >= slots_)
    backend_.wait_for(*in_flight_[std::size_t(index - slots_)].summed);
  if (stage == 1) {
    sum_level(stage, entry.bucket, receive);
    backend_.record(*entry.on_host);
    network.emplace(backend_, DeviceStream::network);
    backend_.wait_for(*entry.on_host);
  } else if (stage == 2) {
    network.emplace(backend_, DeviceStream::network);
    sum_level(stage, entry.bucket, receive);
    backend_.record(*entry.summed);
  } else if (stage == 3) {
    backend_.wait_for(*entry.gathered);
  }
  start_level(stage, entry, receive);
  if (stage == 2) backend_.record(*entry.gathered);
}

/// What the all-to-all of the stage before has brought.
void BucketPipeline::sum_level(int stage, Bucket bucket, float* receive) {
  const auto at = std::size_t(stage);
  if (at == 0 || at > levels_.size()) return;
  const LevelMemory memory = memory_of(at - 1, bucket, receive);
  levels_[at - 1].sum(bucket, memory.own, memory.receive, kept_);
}

void BucketPipeline::start_level(int stage, InFlight& entry, float* receive) {
  const auto at = std::size_t(stage), levels = levels_.size();
  if (at < levels) {
    const LevelMemory memory = memory_of(at, entry.bucket, receive);
    levels_[at].start_all_to_all(entry.bucket, memory.own, memory.receive, entry.requests);
  } else if (!entry.bucket.sharded &&
             !plan_->common->keeps) {  // of which the owner updates its chunk
    entry.requests.push_back(levels_[2 * levels - 1 - at].start_all_gather(entry.bucket, kept_));
  }
}

CommRequestPtr BucketPipeline::start_all_reduce(Bucket bucket) {
  if (plan_->size.own_nodes == 0)
    backend_.set_zero(gradients_ + bucket.offset, std::size_t(bucket.elems) * sizeof(float));
  return levels_[0].start_all_reduce(bucket);
}

void BucketPipeline::drop_started() {
  for (InFlight& entry : in_flight_) entry.requests.clear();
  started_ = 0;
  flushes_ = false;  // where flush() threw
  std::ranges::fill(entered_, 0);
}

void BucketPipeline::progress() {
  if (idle()) return;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int stage = 0; stage <= stages_; ++stage) moved = try_stage(stage) || moved;
  }
}

HostCommunicators BucketPipeline::gather_communicators() {
  if (levels_.size() == 1) return {};
  return {.host = &levels_[0].gather_communicator(),
          .across_hosts = &levels_[1].gather_communicator()};
}

SentBytes BucketPipeline::sent() const {
  SentBytes sum;
  for (const ExchangeLevel& level : levels_) sum += level.sent();
  return sum;
}

}  // namespace lockstep
