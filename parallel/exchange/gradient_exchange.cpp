// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/gradient_exchange.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

#include "core/base/check.h"
#include "core/host/monotonic_clock.h"
#include "core/step/fault_injector.h"
#include "parallel/exchange/bucket_pipeline.h"
#include "parallel/exchange/exchange_memory.h"
#include "parallel/exchange/exchange_plan.h"
#include "parallel/exchange/kept_sums.h"
#include "parallel/exchange/partial_sums.h"
#include "parallel/exchange/plan_cache.h"
#include "parallel/exchange/small_bucket_all_gather.h"

namespace lockstep {
namespace {

std::vector<Bucket> numbered(std::vector<Bucket> buckets) {
  for (std::size_t b = 0; b < buckets.size(); ++b) buckets[b].number = int(b);
  return buckets;
}

}  // namespace

class GradientExchange::State {
 public:
  State(Backend& backend,
        Communicator& communicator,
        Reduction reduction,
        std::vector<Bucket> buckets,
        float* gradients,
        int max_shards,
        int dealt_cluster,
        std::vector<float*> summed,
        std::shared_ptr<const ExchangeCommunicators> communicators)
      : backend_(backend),
        communicators_(communicators != nullptr
                           ? std::move(communicators)
                           : std::make_shared<ExchangeCommunicators>(communicator, reduction)),
        rank_(communicator.rank()),
        ranks_(communicator.size()),
        ranks_per_host_(communicator.ranks_per_node()),
        dealt_cluster_(dealt_cluster),
        buckets_(numbered(std::move(buckets))),
        chunk_index_(buckets_.size()),
        bucket_of_chunk_(buckets_.size()),
        stage_(buckets_.size(), Stage::finished),
        plans_(rank_, ranks_per_host_, reduction, dealt_cluster > 0),
        sums_(backend, gradients, summed.empty() ? extent_of(buckets_) : Bucket()),
        kept_(backend, buckets_, kept_elems(buckets_, ranks_), std::move(summed)),
        gather_(backend, communicators_->small_buckets(), sums_, kept_, gradients),
        chunks_(backend,
                communicator,
                *communicators_,
                reduction,
                sums_,
                kept_,
                gradients,
                int(buckets_.size())),
        memory_({.rank = rank_,
                 .ranks = ranks_,
                 .reduction = reduction,
                 .buckets_in_flight = std::min(backend.traits().buckets_in_flight, bucket_count())},
                buckets_,
                sums_,
                kept_,
                gather_,
                chunks_) {
    LOCKSTEP_ASSERT(dealt_cluster_ == 0 || (ranks_ > 1 && reduction == Reduction::reproducible));
    LOCKSTEP_ASSERT(max_shards >= 1);
    if (dealt_cluster_ > 0)
      memory_.reserve_for_turns(max_shards, dealt_cluster_);
    else
      memory_.reserve_for_schedules(max_shards);
    if (ranks_ == 1) return;
    in_stream_order_ = communicator.in_stream_order();
    if (!in_stream_order_ && backend.is_host_memory(gradients)) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      on_device_.push_back({backend.make_event(), backend.make_event()});
  }

  void set_position(Position* position) { position_ = position; }

  void begin_step(const Schedule& schedule) {
    expect_finished();
    LOCKSTEP_ASSERT(int(schedule.shards_of_rank.size()) == schedule.turns * ranks_);
    plans_of_step_ = plans_.of(schedule);
    // Does nothing for schedules that the constructor looked at.
    if (dealt_cluster_ == 0) memory_.reserve_for_plan(plans_of_step_.front().size);
    next_turn();
  }

  void next_turn() {
    expect_finished();
    LOCKSTEP_ASSERT(!plans_of_step_.empty());
    plan_ = &plans_of_step_.front();
    plans_of_step_ = plans_of_step_.subspan(1);
    sums_.begin(plan_->local);
    std::ranges::fill(stage_, Stage::open);
    last_computed_ = nullptr;
    halved_ = -1;
    if (ranks_ == 1) return;
    gather_.begin(*plan_);
    begin_chunks();
  }

  void finish_shard() { sums_.push(); }

  bool in_stream_order() const { return ranks_ == 1 || in_stream_order_; }
  ShardPlace place() const { return sums_.place(); }
  void shard_was_replayed() { sums_.was_replayed(); }
  void buckets_were_replayed(const SentBytes& bytes) {
    std::ranges::fill(stage_, Stage::finished);
    bytes_replayed_ += bytes;
  }
  void undo_capture(const ShardPlace& place, const SentBytes& sent_before) {
    sums_.undo_capture(place);
    std::ranges::fill(stage_, Stage::open);
    bytes_replayed_ += sent_before - sent();
    if (ranks_ == 1) return;
    chunks_.drop_started();
    begin_chunks();
  }

  void start_bucket(int index) {
    LOCKSTEP_ASSERT(stage_.at(std::size_t(index)) == Stage::open);
    const Bucket bucket = buckets_[std::size_t(index)];
    if (!in_stream_order_ && !plan_->local.merges.empty()) sums_.push_last(bucket);
    stage_[std::size_t(index)] = Stage::started;
    if (ranks_ == 1 || bucket.elems == 0) return;
    if (take_fault(FaultKind::skip_bucket) != nullptr) {
      stage_[std::size_t(index)] = Stage::skipped;
      return;
    }
    if (take_fault(FaultKind::halve_count) != nullptr) halved_ = index;
    if (in_stream_order_) return start_in_stream(index);
    if (moves_device()) {
      last_computed_ = on_device_[std::size_t(index)].computed.get();
      backend_.record(*last_computed_);
    }
    if (gather_.takes(plan_->size, bucket.elems)) return;
    stage_[std::size_t(index)] = Stage::in_chunks;
    chunk_index_[std::size_t(index)] = chunks_.started();
    const OwnStream scope(*this);
    chunks_.start(exchanged_part(index), last_computed_);
  }

  bool is_finished(int index) const { return stage_.at(std::size_t(index)) == Stage::finished; }
  bool in_flight() const { return !in_stream_order_ && !chunks_.idle(); }
  void progress() {
    if (!in_flight()) return;
    const OwnStream scope(*this);
    chunks_.progress();
  }

  void finish_bucket(int index) {
    Stage& stage = stage_.at(std::size_t(index));
    LOCKSTEP_ASSERT(stage != Stage::open && stage != Stage::finished);
    const Bucket bucket = exchanged_part(index);
    if (stage == Stage::in_stream) {
      finish_in_stream(index);
      backend_.wait_for(*on_device_[std::size_t(index)].summed);
    } else if (ranks_ > 1 && bucket.elems > 0) {
      std::optional<CollectiveScope> scope;
      if (position_ != nullptr)
        scope.emplace(*position_,
                      CollectiveNote{.name = "exchange",
                                     .bytes = bucket.elems * std::int64_t(sizeof(float)),
                                     .bucket = index});
      finish_by_host(index, bucket);
    }
    stage = Stage::finished;
  }

  HostCommunicators gather_communicators() { return chunks_.gather_communicators(); }
  const std::shared_ptr<const ExchangeCommunicators>& communicators() const {
    return communicators_;
  }
  int bucket_count() const { return int(buckets_.size()); }
  std::size_t partial_sum_bytes() const { return sums_.bytes() + kept_.bytes(); }
  std::size_t communication_bytes() const { return gather_.bytes() + chunks_.bytes(); }
  SentBytes sent() const {
    SentBytes sum = bytes_replayed_;
    sum += gather_.sent();
    return sum += chunks_.sent();
  }
  double exposed_seconds() const { return std::chrono::duration<double>(exposed_).count(); }

 private:
  enum class Stage : std::uint8_t { open, started, in_chunks, in_stream, skipped, finished };

  /// Of one bucket, where the device has streams.
  struct OnDevice {
    std::unique_ptr<DeviceEvent> computed, summed;
  };

  /// Where the host moves what is on a device, what the exchange asks of the device has a stream of
  /// its own: on the compute stream it would come after all of backward, which the host has asked
  /// for long before the device gets there.
  class OwnStream {
   public:
    explicit OwnStream(State& state) {
      if (state.moves_device()) scope_.emplace(state.backend_, DeviceStream::communication);
    }

   private:
    std::optional<StreamScope> scope_;
  };
  bool moves_device() const { return !in_stream_order_ && !on_device_.empty(); }

  /// Whether the device still computes gradients: the exchange delays no rank then.
  bool computes() {
    if (last_computed_ != nullptr && last_computed_->done()) last_computed_ = nullptr;
    return last_computed_ != nullptr;
  }

  void finish_by_host(int index, Bucket bucket) {
    const Stage stage = stage_[std::size_t(index)];
    auto begin = MonotonicClock::now();
    // A small bucket blocks; until backward is done, the others make progress.
    while (stage == Stage::in_chunks ? !chunks_.complete(chunk_index_[std::size_t(index)])
                                     : stage == Stage::started && computes()) {
      progress();
      if (computes()) begin = MonotonicClock::now();
    }
    {
      const OwnStream scope(*this);
      const OnDevice* const events = moves_device() ? &on_device_[std::size_t(index)] : nullptr;
      if (stage == Stage::started) {
        if (events != nullptr) backend_.wait_for(*events->computed);
        gather_.finish(bucket);
      }
      if (events != nullptr) backend_.record(*events->summed);
    }
    if (moves_device()) backend_.wait_for(*on_device_[std::size_t(index)].summed);
    exposed_ += MonotonicClock::now() - begin;
  }

  /// Everything that the bucket needs, after what has been asked of the compute stream.
  void start_in_stream(int index) {
    const OnDevice& events = on_device_[std::size_t(index)];
    backend_.record(*events.computed);
    const StreamScope scope(backend_, DeviceStream::communication);
    backend_.wait_for(*events.computed);
    const Bucket bucket = exchanged_part(index);
    if (!plan_->local.merges.empty()) sums_.push_last(bucket);
    stage_[std::size_t(index)] = Stage::in_stream;
    int& chunk = chunk_index_[std::size_t(index)];
    if (gather_.takes(plan_->size, buckets_[std::size_t(index)].elems)) {
      chunk = -1;
      gather_.finish(bucket);
      backend_.record(*events.summed);
    } else {
      chunk = chunks_.started();
      bucket_of_chunk_[std::size_t(chunk)] = index;
      chunks_.start(bucket);
      record_summed();
    }
  }

  /// Of buckets that are asked for as a whole; the last one may have to wait for the next.
  void record_summed() {
    for (; chunks_.complete(recorded_); ++recorded_)
      backend_.record(*on_device_[std::size_t(bucket_of_chunk_[std::size_t(recorded_)])].summed);
  }

  // A bucket that waits for the next is the newest, so that no rank's collectives change places.
  void finish_in_stream(int index) {
    if (chunk_index_[std::size_t(index)] < recorded_) return;
    const StreamScope scope(backend_, DeviceStream::communication);
    chunks_.flush();
    record_summed();
  }

  void begin_chunks() {
    recorded_ = 0;
    chunks_.begin(*plan_, memory_.largest_chunked(plan_->size));
  }

  /// The bucket, or what a planned fault leaves of it.
  Bucket exchanged_part(int index) const {
    Bucket bucket = buckets_[std::size_t(index)];
    if (index == halved_) bucket.elems /= 2;
    return bucket;
  }

  void expect_finished() const {
    for (Stage stage : stage_) LOCKSTEP_ASSERT(stage == Stage::finished);
  }

  Backend& backend_;
  const std::shared_ptr<const ExchangeCommunicators> communicators_;
  Position* position_ = nullptr;
  int rank_, ranks_, ranks_per_host_, dealt_cluster_;
  std::vector<Bucket> buckets_;
  std::vector<int> chunk_index_;  // [buckets], the number that BucketPipeline gave; -1: none
  // In stream order: of the numbers of BucketPipeline; how many have their event recorded.
  std::vector<int> bucket_of_chunk_;
  int recorded_ = 0;
  std::vector<Stage> stage_;              // [buckets]
  bool in_stream_order_ = false;          // else the host moves buckets along
  std::vector<OnDevice> on_device_;       // [buckets]; empty: the device works at once
  DeviceEvent* last_computed_ = nullptr;  // of this step; null: none, or it has happened
  int halved_ = -1;                       // by a planned fault, in this turn
  PlanCache plans_;
  std::span<const ExchangePlan> plans_of_step_;  // of the turns that follow
  const ExchangePlan* plan_ = nullptr;           // of the turn
  PartialSums sums_;
  KeptSums kept_;
  SmallBucketAllGather gather_;
  BucketPipeline chunks_;
  ExchangeMemory memory_;
  MonotonicClock::duration exposed_{};
  SentBytes bytes_replayed_;  // by graphs
};

GradientExchange::GradientExchange(Backend& backend,
                                   Communicator& communicator,
                                   Reduction reduction,
                                   std::vector<Bucket> buckets,
                                   float* gradients,
                                   int max_shards,
                                   int dealt_cluster,
                                   std::vector<float*> summed,
                                   std::shared_ptr<const ExchangeCommunicators> communicators)
    : state_(std::make_unique<State>(backend,
                                     communicator,
                                     reduction,
                                     std::move(buckets),
                                     gradients,
                                     max_shards,
                                     dealt_cluster,
                                     std::move(summed),
                                     std::move(communicators))) {}

GradientExchange::~GradientExchange() = default;

void GradientExchange::set_position(Position* position) { state_->set_position(position); }
void GradientExchange::begin_step(const Schedule& schedule) { state_->begin_step(schedule); }
void GradientExchange::next_turn() { state_->next_turn(); }
void GradientExchange::finish_shard() { state_->finish_shard(); }
void GradientExchange::start_bucket(int bucket) { state_->start_bucket(bucket); }
void GradientExchange::progress() { state_->progress(); }
bool GradientExchange::is_finished(int bucket) const { return state_->is_finished(bucket); }
bool GradientExchange::in_flight() const { return state_->in_flight(); }
void GradientExchange::finish_bucket(int bucket) { state_->finish_bucket(bucket); }
bool GradientExchange::in_stream_order() const { return state_->in_stream_order(); }
ShardPlace GradientExchange::place() const { return state_->place(); }
void GradientExchange::shard_was_replayed() { state_->shard_was_replayed(); }
void GradientExchange::buckets_were_replayed(const SentBytes& bytes) {
  state_->buckets_were_replayed(bytes);
}
void GradientExchange::undo_capture(const ShardPlace& place, const SentBytes& sent) {
  state_->undo_capture(place, sent);
}
const std::shared_ptr<const ExchangeCommunicators>& GradientExchange::communicators() const {
  return state_->communicators();
}
HostCommunicators GradientExchange::gather_communicators() {
  return state_->gather_communicators();
}
int GradientExchange::bucket_count() const { return state_->bucket_count(); }
std::size_t GradientExchange::partial_sum_bytes() const { return state_->partial_sum_bytes(); }
std::size_t GradientExchange::communication_bytes() const { return state_->communication_bytes(); }
SentBytes GradientExchange::sent() const { return state_->sent(); }
double GradientExchange::exposed_seconds() const { return state_->exposed_seconds(); }

}  // namespace lockstep
