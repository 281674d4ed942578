// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/rank_processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace lockstep::watch {
namespace {

/// The one that speaks sees the silence within a beat, and the kernel ends a process at once,
/// unless that waits for a disk or is in a frozen control group.
constexpr double kWaitSeconds = 1;
// Where all ranks end at once after a death, Open MPI 4.1.4's mpirun was seen to pass on what they
// said a second later (one death in 74). Presumably it sleeps before it kills the others, until a
// rank ends. Other launchers lose 50 ms.
constexpr std::chrono::milliseconds kEndsLater{50};

}  // namespace

bool is_traced(std::int64_t process) {
  char path[64] = {};
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/status", process).out = '\0';
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file.valid() ? ::read(file.get(), text, sizeof text) : 0;
  const std::string_view status(text, std::size_t(std::max<ssize_t>(size, 0)));
  constexpr std::string_view kKey = "TracerPid:\t";
  const std::size_t at = status.find(kKey);
  return at != std::string_view::npos && at + kKey.size() < status.size() &&
         status[at + kKey.size()] != '0';
}

bool RankProcesses::is_traced(int rank) const {
  const Peers::Card& card = peers_.card(rank);
  return card.shares_processes_of(peers_.card(peers_.rank())) && watch::is_traced(card.process);
}

bool RankProcesses::end_frozen(const Verdict& verdict, bool speaks, double now) {
  const Peers::Card& card = peers_.card(verdict.rank);
  if (verdict.kind != Verdict::Kind::frozen || verdict.is_cut_off || card.process <= 0 ||
      verdict.rank == peers_.rank() || !card.shares_processes_of(peers_.card(peers_.rank())))
    return false;
  // Its children on other machines end, as they cannot know whether it is killed.
  const auto is_here = [&](int child) { return card.shares_processes_of(peers_.card(child)); };
  if (verdict.rank == 0 && !std::ranges::all_of(peers_.tree().children(0), is_here)) return false;
  if (killed_ && killed_->rank == verdict.rank) return now - killed_at_ < kWaitSeconds;
  if (!speaks && verdict.seconds < verdict.limit + kWaitSeconds) return true;
  // It cannot be another process of that number: while it is there, its connection is.
  if (kill(pid_t(card.process), SIGKILL) != 0 && errno != ESRCH) return false;
  killed_ = verdict;
  killed_at_ = now;
  return true;
}

void RankProcesses::explain(Verdict& death) const {
  if (!killed_ || killed_->rank != death.rank) return;
  death.killed = true;
  death.seconds = killed_->seconds;
  death.limit = killed_->limit;
}

void RankProcesses::let_others_end_first(int ended) {
  const Peers::Card& own = peers_.card(peers_.rank());
  bool others = false;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (rank == ended || rank == peers_.rank() || !peers_.card(rank).on_machine_of(own)) continue;
    if (rank < peers_.rank()) return;
    others = true;
  }
  if (!others) return;
  peers_.part();
  std::this_thread::sleep_for(kEndsLater);
}

}  // namespace lockstep::watch
