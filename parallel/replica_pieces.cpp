// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/env.h"
#include "parallel/fault_player.h"
#include "parallel/replica_state.h"

// Note [Recorded steps]
//
// Between the loading of one micro-batch and the next the host asks the device for a piece of work
// that is the same in every step: hundreds of launches whose arguments do not change, since what
// does (StepCounters, samples, their weight) lies in device memory. The second time it happens it
// is recorded, afterwards one launch replays it. Exchange and update are part of a step's last
// piece where the exchange stands in stream order; otherwise that piece is cut at each exchange.
// Steps in which somebody looks at single phases or gradients are not replayed.
//
// NCCL wants a collective recorded, and replayed, by all its ranks or by none. So all that decides
// it is equal on all ranks, or agreed upon: why nothing is recorded, which steps are looked at, and
// whether a recording succeeded; and the last pieces of steps of as many samples have one key.
//
// Where a recording fails before anything was done the piece is asked for kernel by kernel instead.
// Behind a cut, segments and exchanges have been done: the calls are made once more, but those up
// to that cut go into a recording that is thrown away, and its exchanges are left out. Their order
// is a program's and so the same, and what they change on the host comes to the same when done
// twice. There is no way on where the host's own work fails behind a segment, nor from an error of
// NCCL inside a recording: NCCL's communicator has been given up by then, and so the error says how
// to do without graphs.
namespace lockstep {
namespace {

/// `place` names the recorder while it lives.
class RecordingScope {
 public:
  RecordingScope(WorkRecorder*& place, WorkRecorder& recorder) : place_(place) {
    place_ = &recorder;
  }
  ~RecordingScope() { place_ = nullptr; }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  WorkRecorder*& place_;
};

}  // namespace

std::string Replica::State::reason_not_to_record() const {
  if (!context.backend().records_graphs()) return "the device has no graphs";
  if (env().graph == "0") return "LOCKSTEP_GRAPH=0";
  if (!options.record_steps) return "it was not wanted";
  if (env().sync == "1") return "LOCKSTEP_SYNC=1 waits behind every kernel";
  if (env().nan_check == "1") return "LOCKSTEP_NAN_CHECK=1 looks at every kernel's output";
  if (env().plan == "poison") return "LOCKSTEP_PLAN=poison fills memory from the host";
  if (fault_player() != nullptr) return "LOCKSTEP_FAULT plays faults";
  if (options.profile) return "--profile times every operator";
  if (ranges_ != nullptr) return "a tool is attached that sees every operator";
  // Its collectives stand in every piece, and ranks have different ones.
  if (batch.cluster > 1) return "batch norm's groups are of several ranks";
  if (batch.shards > GradientExchange::kMostShardsReserved)
    return fmt::format("buffers may move: there are more than {} shards",
                       GradientExchange::kMostShardsReserved);
  return {};
}

bool Replica::State::records_now() const {
  return why_not_recorded_.empty() && !checks_ && !device_timer.was_asked() &&
         !shard_norms.measures();
}

PieceKey Replica::State::key_of(const Piece& piece) const {
  PieceKey key{.accumulate = piece.state.accumulate};
  if (piece.program != nullptr) {
    key.samples = piece.program->samples;
    key.stale_copies = piece.program->program->stale_copies();
  }
  if (piece.ends_shard || piece.ends_step) {
    const GradientExchange::ShardPlace place = exchange.place();
    key.shards_pending = place.pending;
    key.merges = place.merges;
  }
  if (piece.ends_step) key.step_samples = piece.schedule->samples;
  return key;
}

void Replica::State::do_piece(const Piece& piece) {
  if (!records_now()) return ask_for(piece);
  const PieceKey key = key_of(piece);
  if (const RecordedWork* known = pieces_.find(key)) return replay(piece, *known);
  const GradientExchange::ShardPlace place = exchange.place();
  const SentBytes sent = exchange.sent();
  const bool done =
      pieces_.record(key,
                     {.work =
                          [&](WorkRecorder& recorder) {
                            const RecordingScope scope(recorder_, recorder);
                            ask_for(piece);
                          },
                      .agree = [&](bool recorded) { return agree(piece, recorded); }});
  // Where collectives are recorded with it all ranks have agreed that it failed.
  if (pieces_.has_failed() && piece.ends_step) why_not_recorded_ = pieces_.why_not();
  if (done) {
    times.backward += timer_.lap();
    if (piece.ends_step) bytes_sent_[piece.schedule->samples] = exchange.sent() - sent;
    return;
  }
  if (pieces_.has_failed()) {
    exchange.go_back(place, sent);
    programs.packed().invalidate();
  }
  ask_for(piece);
}

bool Replica::State::agree(const Piece& piece, bool recorded) {
  if (!piece.ends_step || context.size() == 1 || !exchange.in_stream_order()) return recorded;
  return all_ranks_say(recorded);
}

bool Replica::State::all_ranks_say(bool yes) {
  std::vector<std::uint8_t> answers(std::size_t(context.size()));
  const std::uint8_t own = yes ? 1 : 0;
  context.host_communicator().all_gather(&own, answers.data(), sizeof own);
  return std::ranges::all_of(answers, [](std::uint8_t answer) { return answer == 1; });
}

void Replica::State::replay(const Piece& piece, const RecordedWork& work) {
  context.position().enter(piece.program != nullptr ? Phase::forward : Phase::exchange);
  const double exposed = exchange.exposed_seconds();
  work.replay();
  ++replayed_;
  if (piece.program != nullptr) piece.program->program->mark_copies_fresh();
  if (exchange.in_stream_order()) {
    if (piece.ends_shard) exchange.pass_shard();
    if (piece.ends_step) exchange.pass_buckets(bytes_sent_.at(piece.schedule->samples));
  }
  if (piece.ends_step) programs.packed().invalidate();
  times.backward += timer_.lap() - (exchange.exposed_seconds() - exposed);
}

std::optional<RecordedSteps> Replica::State::recorded_steps() const {
  if (!context.backend().records_graphs()) return std::nullopt;
  RecordedSteps steps{pieces_.recorded(),
                      replayed_,
                      why_not_recorded_.empty() ? pieces_.why_not() : why_not_recorded_};
  if (steps.pieces == 0 && steps.why_not.empty())
    steps.why_not = observed_steps_ == steps_
                        ? "every step was measured: with a larger --log-every, or with "
                          "--noise-scale-every 0, not all are"
                        : "too few steps: the second of a kind is recorded";
  return steps;
}

}  // namespace lockstep
