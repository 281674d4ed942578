// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/env.h"
#include "core/base/parameter_names.h"
#include "core/step/fault_injector.h"
#include "parallel/replica/replica_state.h"

// Note [Step graphs]
//
// Between the loading of one micro-batch and the next the host asks the device for a segment of
// the step that is the same in every step: hundreds of launches whose arguments do not change,
// since what does (StepCounters, samples, their weight) lies in device memory. The second time it
// happens it is captured as a CUDA graph, afterwards one launch replays it. Exchange and update are
// part of a step's last segment. Where MPI moves the exchange a segment is cut, into graphs between
// which the host works: at each bucket, at the sum of a shard, and at every statistic of batch norm
// that ranks share. Then no rank has to know whether another replays. Steps in which somebody looks
// at single phases or gradients are not replayed.
//
// NCCL wants a collective captured, and replayed, by all its ranks or by none. So all that decides
// it is equal on all ranks, or agreed upon: why nothing is captured, which steps are looked at, and
// whether a capture succeeded; and the last segments of steps of as many samples have one key.
// Where batch norm's groups are of several ranks NCCL stands in every segment. Then all keys
// are places: a round in a step of so many samples. A schedule is a function of samples and rank,
// the ranks of a group have equally many rounds, since who has fewer micro-batches joins the others
// without samples, and what else keys hold follows from the place. So all ranks of a group come to
// a segment for the first time, capture it and replay it in the same rounds, and agree among
// themselves; in the last segment all ranks do. Where their micro-batches differ the exchange is a
// segment of its own on all of them. Copies of weights that updates write are fresh when a step
// begins, whatever came before it; the others are stale in the first segment that reads them.
//
// Where a capture fails before anything was done the segment is launched eagerly instead, kernel
// by kernel. Behind a cut, graphs and exchanges have been done: the calls are made once more, but
// those up to that cut go into a capture that is thrown away, and the host's work is left out.
// Their order is a program's and so the same, and what they change on the host comes to the same
// when done twice. There is no way on where the host's own work fails behind a graph. Nor is there
// from an error of NCCL inside a capture: its communicator has been given up by then, so that the
// error says how to do without graphs.
namespace lockstep {
namespace {

// Graphs take memory on the device, and keys that are places make one for each micro-batch; others
// are few, however many graphs a segment is cut into.
constexpr int kMaxGraphsByPlace = 64;

/// `place` names the capture while it lives.
class CaptureScope {
 public:
  CaptureScope(WorkCapture*& place, WorkCapture& capture) : place_(place) { place_ = &capture; }
  ~CaptureScope() { place_ = nullptr; }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  WorkCapture*& place_;
};

}  // namespace

std::string ReplicaState::reason_against_graphs() const {
  if (!context.backend().captures_graphs()) return "the device has no graphs";
  if (env().graph == "0") return "LOCKSTEP_GRAPH=0";
  if (!options.use_graphs) return "it was not wanted";
  if (env().sync == "1") return "LOCKSTEP_SYNC=1 waits behind every kernel";
  if (env().nan_check == "1") return "LOCKSTEP_NAN_CHECK=1 looks at every kernel's output";
  if (env().plan == "poison") return "LOCKSTEP_PLAN=poison fills memory from the host";
  if (fault_injector() != nullptr) return "LOCKSTEP_FAULT plays faults";
  if (options.profile) return name_parameters("`profile` times every operator");
  if (ranges_ != nullptr) return "a tool is attached that sees every operator";
  if (captures_by_place()) {
    // Of whole batches and of an epoch's last.
    const int rounds = training_schedule(batch, batch.global_batch, context.rank()).most_rounds;
    if (2 * (rounds + 1) > kMaxGraphsByPlace)
      return fmt::format(
          "batch norm's groups are of several ranks, and {} micro-batches a step on a rank are too "
          "many for a graph each",
          rounds);
  }
  if (batch.shards > GradientExchange::kMaxShardsReserved)
    return fmt::format("buffers may move: there are more than {} shards",
                       GradientExchange::kMaxShardsReserved);
  return {};
}

bool ReplicaState::captures_by_place() const {
  return batch.cluster > 1 && exchange.in_stream_order();
}

bool ReplicaState::captures_now() const {
  return why_no_graphs_.empty() && !checks_ && !device_timer.was_asked() && !shard_norms.measures();
}

GraphKey ReplicaState::graph_key(const StepSegment& segment) const {
  if (captures_by_place())
    return {.step_samples = segment.schedule->samples, .round = segment.round};
  GraphKey key{.accumulate = segment.state.accumulate};
  if (segment.program != nullptr) {
    key.samples = segment.program->samples;
    key.stale_copies = segment.program->program->stale_copies();
  }
  if (!exchange.in_stream_order()) {
    if (segment.ends_shard) key.merges = 0;
  } else if (segment.ends_shard || segment.ends_step) {
    const ShardPlace place = exchange.place();
    key.shards_pending = place.pending;
    key.merges = place.merges;
  }
  if (segment.ends_step) key.step_samples = segment.schedule->samples;
  return key;
}

void ReplicaState::run_segment(const StepSegment& segment) {
  if (!captures_now()) return launch_eagerly(segment);
  const GraphKey key = graph_key(segment);
  if (const CapturedWork* known = graphs_.find(key)) return replay(segment, *known);
  const ShardPlace place = exchange.place();
  const SentBytes sent = exchange.sent();
  const bool done =
      graphs_.capture(key,
                      {.launch =
                           [&](WorkCapture& capture) {
                             const CaptureScope scope(capture_, capture);
                             launch_eagerly(segment);
                           },
                       .agree = [&](bool captured) { return agree(segment, captured); }});
  // Where collectives are captured with it all ranks have agreed that it failed.
  if (graphs_.has_failed() && segment.ends_step) why_no_graphs_ = graphs_.why_not();
  if (done) {
    times.backward += timer_.lap();
    if (segment.ends_step) bytes_sent_[segment.schedule->samples] = exchange.sent() - sent;
    return;
  }
  if (graphs_.has_failed()) {
    exchange.undo_capture(place, sent);
    programs.packed().invalidate();
  }
  launch_eagerly(segment);
}

bool ReplicaState::agree(const StepSegment& segment, bool captured) {
  if (context.size() == 1 || !exchange.in_stream_order()) return captured;
  if (segment.ends_step) return all_say(context.host_communicator(), captured);
  return group_ ? all_say(*group_, captured) : captured;
}

bool ReplicaState::all_say(Communicator& ranks, bool yes) {
  std::vector<std::uint8_t> answers(std::size_t(ranks.size()));
  const std::uint8_t own = yes ? 1 : 0;
  ranks.all_gather(&own, answers.data(), sizeof own);
  return std::ranges::all_of(answers, [](std::uint8_t answer) { return answer == 1; });
}

void ReplicaState::replay(const StepSegment& segment, const CapturedWork& work) {
  context.position().enter(segment.program != nullptr ? Phase::forward : Phase::exchange);
  const double exposed = exchange.exposed_seconds();
  work.replay();
  ++replays_;
  if (segment.program != nullptr) segment.program->program->mark_copies_fresh();
  if (exchange.in_stream_order()) {
    if (segment.ends_shard) exchange.shard_was_replayed();
    if (segment.ends_step)
      exchange.buckets_were_replayed(bytes_sent_.at(segment.schedule->samples));
  }
  if (segment.ends_step) programs.packed().invalidate_but_rounded();
  times.backward += timer_.lap() - (exchange.exposed_seconds() - exposed);
}

std::optional<GraphUse> ReplicaState::graph_use() const {
  if (!context.backend().captures_graphs()) return std::nullopt;
  GraphUse use{
      graphs_.size(), replays_, why_no_graphs_.empty() ? graphs_.why_not() : why_no_graphs_};
  if (use.graphs == 0 && use.why_not.empty())
    use.why_not = observed_steps_ == steps_
                      ? name_parameters(
                            "every step was measured: with a larger `log_every`, or with "
                            "`noise_scale_every` 0, not all are")
                      : "too few steps: the second of a kind is captured";
  return use;
}

}  // namespace lockstep
