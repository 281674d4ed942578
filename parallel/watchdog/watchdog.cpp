// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/watchdog.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "core/base/exit_deadline.h"
#include "core/base/parameter_names.h"
#include "core/base/signal_masked_thread.h"
#include "core/base/text/fixed_text.h"
#include "core/exec/gather_records.h"
#include "lockstep/error.h"
#include "parallel/watchdog/connect_outcome.h"
#include "parallel/watchdog/death_notice.h"
#include "parallel/watchdog/failure_report.h"
#include "parallel/watchdog/heartbeat_node.h"
#include "parallel/watchdog/heartbeat_transport.h"
#include "parallel/watchdog/rank_processes.h"
#include "parallel/watchdog/stranger_watch.h"
#include "parallel/watchdog/verdict_report.h"

namespace lockstep {
namespace {

using watch::now;
using Kind = watch::Kind;

constexpr int kSendMs = 200, kLeaveMs = 300, kParentMs = 1000;
constexpr double kSoonSeconds = 0.05, kConnectSeconds = 30;
constexpr std::chrono::milliseconds kMaxLastWords{2000};

}  // namespace

class Watchdog::State final : public watch::PeerListener {
 public:
  State(Communicator& host,
        const Position& position,
        FailureHandler failure_handler,
        const WatchLimits& limits,
        bool has_launcher,
        std::vector<IpAddress> job_addresses,
        int fan_out)
      : position_(position),
        has_launcher_(has_launcher),
        limits_(limits),
        failure_handler_(std::move(failure_handler)),
        exceptions_(std::uncaught_exceptions()),
        peers_(host, limits.any(), fan_out),
        node_(peers_.tree(), peers_.rank(), limits, now()),
        strangers_(peers_, std::move(job_addresses), limits.training_s),
        processes_(peers_) {
    alone_ = peers_.size() == 1 || !peers_.wanted();
    if (!alone_) meet(host);
    watching_ = true;
    if (alone_ && !has_launcher_)
      stop();
    else if (!thread_.joinable())
      start();
    peers_.wake();
  }

  ~State() override { stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const std::string& blindness() const { return blindness_; }

  void announce(const FaultRecord& record) {
    if (!thread_.joinable()) return;
    std::unique_lock lock(mutex_);
    announcement_ = watch::pack(record, true);
    peers_.wake();
    announced_.wait_for(lock, std::chrono::seconds(1), [&] { return !announcement_.has_value(); });
  }

  void outlive_deaths(double patience_s, std::function<void()> on_death) {
    notice_.set_callback(std::move(on_death));
    patience_s_ = patience_s;
    peers_.wake();
  }

  watch::DeathNotice& notice() { return notice_; }

 private:
  void start() {
    thread_ = start_signal_masked_thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "watchdog");
  }

  void stop() {
    if (!thread_.joinable()) return;
    after_error_ = std::uncaught_exceptions() > exceptions_;
    stopping_ = true;
    peers_.wake();
    thread_.join();
  }

  /// Every rank is connected, or none is.
  void meet(Communicator& host) {
    std::array<std::uint64_t, 1> failed{};
    if (peers_.has_children()) start();
    try {
      ConnectOutcome own;
      if (const std::string problem = connect(); !problem.empty()) {
        set_text(own.problem, problem);
        own.listens = peers_.problem().empty() ? 1 : 0;
        failed[0] = 1;
      }
      host.all_reduce_max(failed);
      if (failed[0] != 0) blindness_ = format_blindness(gather_records(host, own), peers_.tree());
    } catch (...) {
      stop();
      throw;
    }
    alone_ = !blindness_.empty();
    if (alone_ && !thread_.joinable()) peers_.part();
  }

  /// Empty, or what kept it from being done.
  std::string connect() {
    if (peers_.rank() == 0 || !peers_.problem().empty()) return peers_.problem();
    const double start_s = limits_.join_s;
    try {
      peers_.connect(start_s > 0 ? start_s / 2 : kConnectSeconds);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  // From here on: the watchdog's thread.

  void run() {
    bool began = false;
    double next_beat = now();
    while (!stopping_) {
      try {
        if (watching_ && !std::exchange(began, true)) {
          node_.restart(now());
          next_beat = now();
          if (alone_)
            peers_.part();
          else
            peers_.begin(*this);
        }
        if (!began) next_beat = now() + kBeatSeconds;
        const double left = std::min(next_beat - now(), node_.judges_soon() ? kSoonSeconds : 1.0);
        peers_.turn(left <= 0 ? 0 : int(left * 1e3) + 1, *this);
        if (began) look(next_beat);
      } catch (...) {
        // Without memory: what was missed comes again with the next turn.
        poll_without_memory();
      }
    }
    peers_.send_to_all(Kind::goodbye, watch::Goodbye{std::uint8_t(after_error_ ? 1 : 0)});
    peers_.resolve(kSendMs);
  }

  void look(double& next_beat) {
    send_announcement();
    peers_.flush();
    const double time = woken();
    const bool beats = time >= next_beat;
    if (beats) {
      next_beat = time + kBeatSeconds;
      beat(time);
    }
    if (death_ && (time >= end_at_ || patience_s_ == 0)) end(*death_, false, true, -1);
    // Judging takes time for each rank: not at every message of every rank.
    if ((spoken_ && !death_) || alone_ || (!beats && !node_.judges_soon())) return;
    // As of then: where all ranks were stopped since, no rank would know of it yet.
    auto verdict = node_.detector().judge(time);
    if (!verdict || is_held(*verdict)) return;
    if (patience_s_ > 0 &&
        processes_.end_frozen(*verdict, watch::reports_verdict(*verdict, peers_), time))
      return;
    if (verdict->kind == Verdict::Kind::died) processes_.explain(*verdict);
    if (death_) return node_.detector().settle(verdict->rank, time);  // of a second MPI tells
    // Rank 0 may not know yet.
    const bool is_known = peers_.rank() == 0 || verdict->rank == 0;
    const bool speaks = watch::reports_verdict(*verdict, peers_) || verdict->killed;
    leave(watch::record_of(*verdict, peers_, node_, strangers_),
          speaks,
          is_known,
          -1,
          watch::pause_before_end(*verdict, peers_, node_));
  }

  /// Whether a debugger caused `verdict`. One that was attached stops all threads of a process
  /// at once, so that the rank could not tell.
  bool is_held(const Verdict& verdict) {
    if (verdict.kind != Verdict::Kind::frozen && verdict.kind != Verdict::Kind::stuck) return false;
    bool held = false;
    for (int r = 0; r < peers_.size(); ++r) {
      if (!node_.detector().is_present(r) || !processes_.is_traced(r)) continue;
      node_.detector().hold(r, now());
      held = true;
    }
    return held;
  }

  void beat(double time) {
    if (has_launcher_ && getppid() != parent_) end_without_launcher();
    if (alone_) return;
    const PositionNote note = position_.read();
    const bool traced = watch::is_traced(getpid());
    const watch::Beat own = watch::pack(note, traced);
    node_.on_own_beat(own, time);
    const bool passes_on = peers_.parent_is_idle();
    peers_.send_beat(own, passes_on ? node_.news(time) : watch::HeartbeatRelay::News{});
    if (passes_on) node_.mark_told();
    if (const auto strangers = strangers_.look(note, time)) strangers_.keep(*strangers);
    while (strangers_.keeps_some() && peers_.parent_is_idle())
      peers_.send_to_parent(Kind::strangers, strangers_.take());
  }

  /// Before anything that was seen in a turn.
  double woken() {
    const double time = now();
    node_.detector().wake(time);
    return time;
  }
  void pass_on(const std::optional<watch::RankEnded>& ended) {
    if (ended) peers_.send_to_parent(Kind::ended, *ended);
  }
  void on_beat(int from, const watch::Beat& beat) override { node_.on_beat(from, beat, woken()); }
  void on_summary(const watch::RankSummary& summary) override {
    node_.on_summary(summary, woken());
  }
  void on_details(const watch::RankBeat& details) override { node_.on_details(details); }
  void on_goodbye(int from, const watch::Goodbye& goodbye) override {
    pass_on(node_.on_goodbye(from, goodbye.after_error != 0, woken()));
  }
  void on_ended(const watch::RankEnded& ended) override { pass_on(node_.on_ended(ended, woken())); }
  void on_strangers(const watch::Strangers& strangers) override { strangers_.hear(strangers); }
  void on_closed(int from) override { pass_on(node_.on_closed(from, woken())); }

  void on_record(int from, const watch::PackedRecord& packed) override {
    if (spoken_ || stopping_) return;
    const bool is_root = peers_.rank() == 0;
    leave(watch::unpack(packed), is_root && packed.said == 0, is_root || packed.said != 0, from);
  }

  void send_announcement() {
    const std::lock_guard lock(mutex_);
    if (!announcement_) return;
    spoken_ = true;
    peers_.send_to_all(Kind::record, *announcement_);
    peers_.keep_open();
    peers_.resolve(kSendMs);
    announcement_.reset();
    announced_.notify_all();
  }

  void end_without_launcher() {
    FaultRecord record;
    set_position(record, position_.read());
    record.rank = peers_.rank();
    record.host = peers_.card(record.rank).host;
    record.process = getpid();
    record.cause = "the launcher of this rank is gone";
    record.hint = name_parameters(
        "mpirun or srun ended or was killed; start the run again, with `resume` auto");
    end(record, peers_.rank() == 0, peers_.rank() == 0, -1);
  }

  void leave(const FaultRecord& record,
             bool reports,
             bool said,
             int from,
             std::optional<std::chrono::duration<double>> pause = {}) {
    if (patience_s_ > 0 && record.has_died) return outlive(record, reports, said, from);
    end(record, reports, said, from, pause);
  }

  /// The training thread finds out by itself, from MPI.
  void outlive(const FaultRecord& record, bool reports, bool said, int from) {
    const double patience_s = patience_s_;
    end_at_ = now() + patience_s;
    spoken_ = true;
    node_.detector().settle(record.rank, now());
    {
      const ExitDeadline deadline(std::chrono::milliseconds(std::int64_t(patience_s * 1e3)),
                                  record.exit_code);
      peers_.send_to_all(Kind::record, watch::pack(record, said), from);
      peers_.flush();
      try {
        death_ = record;
        notice_.post(record);
      } catch (...) {
        _exit(record.exit_code);  // without memory the training thread might never know
      }
      call_handler(record, reports);
    }
    notice_.set_reported();
  }

  void call_handler(const FaultRecord& record, bool reports) {
    try {
      if (failure_handler_) failure_handler_(record, reports);
    } catch (...) {
      say_without_memory();
    }
  }

  /// Whatever hangs from here on, a full pipe or a dead file system, the process ends. The record
  /// goes to all neighbours but the one that has sent it, and with it whether the screen has it. A
  /// frozen parent that is woken to be killed has to know as well. `pause` where it is this rank's
  /// own verdict, which above rank 0 is of its parent.
  [[noreturn]] void end(const FaultRecord& record,
                        bool reports,
                        bool said,
                        int from,
                        std::optional<std::chrono::duration<double>> pause = {}) {
    const int exit_code = record.exit_code;
    const auto start = std::chrono::steady_clock::now();
    ExitDeadline(kMaxLastWords, exit_code).keep();
    peers_.send_to_all(Kind::record, watch::pack(record, said), from);
    peers_.flush();
    call_handler(record, reports);
    peers_.keep_open();
    peers_.await_children(kLeaveMs);
    peers_.finish_sending();
    if (pause)
      std::this_thread::sleep_until(start + *pause);
    else
      peers_.await_parent(kParentMs);
    processes_.let_others_end_first(record.rank);
    _exit(exit_code);
  }

  static void say_without_memory() {
    constexpr std::string_view kText = "error: a rank of this job is gone, frozen or stuck\n";
    if (::write(STDERR_FILENO, kText.data(), kText.size()) < 0) return;
  }
  static void poll_without_memory() { usleep(useconds_t(kBeatSeconds * 1e6)); }

  const Position& position_;
  const bool has_launcher_;
  const pid_t parent_ = getppid();
  const WatchLimits limits_;
  const FailureHandler failure_handler_;
  const int exceptions_;  // in flight when the watchdog began
  watch::Peers peers_;
  watch::HeartbeatNode node_;
  StrangerWatch strangers_;
  watch::RankProcesses processes_;
  std::string blindness_;
  bool spoken_ = false;             // this rank ends, and has said why
  std::atomic<bool> alone_{false};  // watches its launcher only
  std::atomic<bool> watching_{false}, stopping_{false}, after_error_{false};
  std::atomic<double> patience_s_{0};  // outlive_deaths()
  double end_at_ = 0;                  // where there is a death_

  std::mutex mutex_;
  std::condition_variable announced_;
  std::optional<watch::PackedRecord> announcement_;
  std::optional<FaultRecord> death_;  // of the watchdog's thread; others have notice_
  watch::DeathNotice notice_;
  std::thread thread_;
};

Watchdog::Watchdog(Communicator& host,
                   const Position& position,
                   FailureHandler failure_handler,
                   const WatchLimits& limits,
                   bool has_launcher,
                   std::vector<IpAddress> job_addresses,
                   int fan_out)
    : state_(std::make_unique<State>(host,
                                     position,
                                     std::move(failure_handler),
                                     limits,
                                     has_launcher,
                                     std::move(job_addresses),
                                     fan_out)) {}

Watchdog::~Watchdog() = default;

const std::string& Watchdog::blindness() const { return state_->blindness(); }
void Watchdog::announce(const FaultRecord& record) { state_->announce(record); }
void Watchdog::outlive_deaths(double patience_s, std::function<void()> on_death) {
  state_->outlive_deaths(patience_s, std::move(on_death));
}
std::optional<FaultRecord> Watchdog::await_death(double seconds) {
  return state_->notice().await(seconds);
}
void Watchdog::await_report(double seconds) { state_->notice().await_report(seconds); }

}  // namespace lockstep
