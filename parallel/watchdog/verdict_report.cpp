// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/verdict_report.h"

#include <algorithm>
#include <span>

#include "parallel/watchdog/failure_report.h"

namespace lockstep::watch {
namespace {

/// So long after a verdict that ranks come to by themselves all of them have: the connection closed
/// for all at once, and each looks every 50 ms; or each looks in its next beat.
constexpr double kOthersSeeDeathSeconds = 0.25, kOthersSeeSilenceSeconds = 0.5;

}  // namespace

bool reports_verdict(const Verdict& verdict, const Peers& peers) {
  if (peers.rank() == 0) return true;
  if (verdict.rank != 0) return false;
  const std::span<const int> children = peers.tree().children(0);
  int speaker = children.front();
  if (verdict.kind == Verdict::Kind::frozen) {
    const auto elsewhere = std::ranges::find_if(
        children, [&](int child) { return !peers.card(child).on_machine_of(peers.card(0)); });
    if (elsewhere != children.end()) speaker = *elsewhere;
  }
  return peers.rank() == speaker;
}

FaultRecord record_of(const Verdict& verdict,
                      const Peers& peers,
                      const HeartbeatNode& node,
                      const StrangerWatch& strangers) {
  FaultRecord record = describe(verdict, node.detector().note(verdict.rank));
  const Peers::Card& faulting_rank = peers.card(verdict.rank);
  record.host = faulting_rank.host;
  record.process = faulting_rank.process;
  record.seen_by = peers.rank();
  const bool may_be_disturbed =
      verdict.kind == Verdict::Kind::frozen || verdict.kind == Verdict::Kind::stuck;
  if (may_be_disturbed) record.details = strangers.all();
  return record;
}

std::chrono::duration<double> pause_before_end(const Verdict& verdict,
                                               const Peers& peers,
                                               const HeartbeatNode& node) {
  const bool is_alone = peers.rank() == 0 && !peers.tree().has_children(verdict.rank);
  if (is_alone || verdict.kind == Verdict::Kind::stuck) return {};
  double seconds = kOthersSeeDeathSeconds;
  if (verdict.kind == Verdict::Kind::frozen) seconds = kOthersSeeSilenceSeconds;
  if (peers.rank() > 0) seconds += node.rank_zero_lag_s(verdict);
  return std::chrono::duration<double>(seconds);
}

}  // namespace lockstep::watch
