// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/watchdog.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "core/base/fixed_text.h"
#include "core/base/parameter_names.h"
#include "core/base/signal_masked_thread.h"
#include "core/exec/gather_records.h"
#include "lockstep/error.h"
#include "parallel/watchdog/failure_detector.h"
#include "parallel/watchdog/failure_report.h"
#include "parallel/watchdog/heartbeat_transport.h"
#include "parallel/watchdog/stranger_watch.h"

namespace lockstep {
namespace {

using watch::now;
using Kind = watch::Kind;

constexpr int kSendMs = 200, kLeaveMs = 300;
constexpr double kSoonSeconds = 0.05, kConnectSeconds = 30;
constexpr std::chrono::milliseconds kMaxLastWords{2000}, kSpeakerFirst{500}, kOthersFirst{250};

/// What each rank met while it connected.
struct Outcome {
  char problem[512] = {};
};

/// Whether a debugger holds a process of this machine.
bool is_traced(std::int64_t process) {
  char path[64] = {};
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/status", process).out = '\0';
  const watch::Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file.valid() ? read(file.get(), text, sizeof text) : 0;
  const std::string_view status(text, std::size_t(std::max<ssize_t>(size, 0)));
  constexpr std::string_view kKey = "TracerPid:\t";
  const std::size_t at = status.find(kKey);
  return at != std::string_view::npos && at + kKey.size() < status.size() &&
         status[at + kKey.size()] != '0';
}

}  // namespace

class Watchdog::State final : public watch::PeerListener {
 public:
  State(Communicator& host,
        const Position& position,
        FailureHandler failure_handler,
        const WatchLimits& limits,
        bool has_launcher,
        std::vector<IpAddress> job_addresses)
      : position_(position),
        has_launcher_(has_launcher),
        limits_(limits),
        failure_handler_(std::move(failure_handler)),
        exceptions_(std::uncaught_exceptions()),
        peers_(host, limits.any()),
        judge_(peers_.size(),
               peers_.rank() == 0 ? FailureDetector::Watches::everyone
                                  : FailureDetector::Watches::rank_zero,
               now()),
        strangers_(peers_, std::move(job_addresses), limits.training_s) {
    judge_.set_limits(limits_);
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
    Outcome own;
    std::vector<Outcome> all;
    if (peers_.rank() == 0) start();
    try {
      if (const std::string problem = connect(); !problem.empty()) set_text(own.problem, problem);
      all = gather_records(host, own);
    } catch (...) {
      stop();
      throw;
    }
    blindness_ = text_of(all);
    alone_ = !blindness_.empty();
    if (alone_ && peers_.rank() > 0) peers_.part();
  }

  /// Empty, or what kept it from being done.
  std::string connect() {
    if (peers_.rank() == 0) return peers_.problem();
    const double start_s = limits_.join_s;
    try {
      peers_.connect(start_s > 0 ? start_s / 2 : kConnectSeconds);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  static std::string text_of(const std::vector<Outcome>& outcomes) {
    constexpr int kMaxNamedRanks = 8;
    std::string ranks, problem;
    int count = 0;
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
      if (*outcomes[r].problem == '\0') continue;
      if (r == 0) return outcomes[r].problem;
      if (problem.empty()) problem = outcomes[r].problem;
      if (count++ < kMaxNamedRanks) ranks += fmt::format("{}{}", count > 1 ? ", " : "", r);
    }
    if (count == 0) return {};
    if (count > kMaxNamedRanks) ranks += fmt::format(" and {} more", count - kMaxNamedRanks);
    return fmt::format(
        "{} {} cannot reach rank 0 over TCP ({})", count > 1 ? "ranks" : "rank", ranks, problem);
  }

  // From here on: the watchdog's thread.

  /// Whether the other ends of the connections learn of a record, and that the screen has it. A
  /// frozen rank 0 that is woken to be killed has to know as well.
  enum class Tell : std::uint8_t { none, said, unsaid };

  void run() {
    bool began = false;
    double next_beat = now();
    while (!stopping_) {
      try {
        if (watching_ && !std::exchange(began, true)) {
          judge_.restart(now());
          next_beat = now();
          if (alone_)
            peers_.part();
          else
            peers_.begin(*this);
        }
        if (!began) next_beat = now() + kBeatSeconds;
        const double left = std::min(next_beat - now(), somebody_ended_ ? kSoonSeconds : 1.0);
        peers_.turn(left <= 0 ? 0 : int(left * 1e3) + 1, *this);
        if (began) look(next_beat);
      } catch (...) {
        // Without memory: what was missed comes again with the next turn.
        poll_without_memory();
      }
    }
    peers_.send_to_all(Kind::goodbye, watch::Goodbye{std::uint8_t(after_error_ ? 1 : 0)});
    peers_.resolve(kSendMs, false);
  }

  void look(double& next_beat) {
    send_announcement();
    const double time = woken();
    const bool beats = time >= next_beat;
    if (beats) {
      next_beat = time + kBeatSeconds;
      beat(time);
    }
    // Judging takes time for each rank: not at every message of every rank.
    if (spoken_ || alone_ || (!beats && !somebody_ended_)) return;
    // As of then: where all ranks were stopped since, no rank would know of it yet.
    if (const auto verdict = judge_.judge(time); verdict && !is_held(*verdict)) {
      // The launcher ends all ranks, and wakes the frozen one, as soon as the first has ended.
      const bool reports = speaks_of(*verdict);
      if (!reports) std::this_thread::sleep_for(kSpeakerFirst);
      leave(record_of(*verdict), reports, Tell::said);
    }
  }

  /// Whether a debugger caused `verdict`. One that was attached stops all threads of a process
  /// at once, so that the rank could not tell.
  bool is_held(const Verdict& verdict) {
    if (verdict.kind != Verdict::Kind::frozen && verdict.kind != Verdict::Kind::stuck) return false;
    const watch::Peers::Card& own = peers_.card(peers_.rank());
    bool held = false;
    for (int r = 0; r < peers_.size(); ++r) {
      const watch::Peers::Card& card = peers_.card(r);
      if (!card.on_machine_of(own) || !judge_.is_present(r) || !is_traced(card.process)) continue;
      judge_.hold(r, now());
      held = true;
    }
    return held;
  }

  void beat(double time) {
    if (has_launcher_ && getppid() != parent_) end_without_launcher();
    if (alone_) return;
    const PositionNote note = position_.read();
    const bool traced = is_traced(getpid());
    peers_.flush();
    peers_.send_to_all(Kind::beat, watch::pack(note, traced));
    if (const auto strangers = strangers_.look(note, time))
      peers_.send_to_all(Kind::strangers, *strangers);
    if (peers_.rank() == 0) judge_.beat(0, note, traced, time);
  }

  /// Before anything that was seen in a turn.
  double woken() {
    const double time = now();
    judge_.wake(time);
    return time;
  }
  void on_beat(int rank, const watch::Beat& beat) override {
    judge_.beat(rank, watch::unpack(beat), beat.traced != 0, woken());
  }
  void on_goodbye(int rank, const watch::Goodbye& goodbye) override {
    judge_.goodbye(rank, goodbye.after_error != 0, woken());
    somebody_ended_ = somebody_ended_ || goodbye.after_error != 0;
  }
  void on_strangers(int rank, const watch::Strangers& strangers) override {
    strangers_.hear(rank, strangers);
  }
  void on_closed(int rank) override {
    somebody_ended_ = somebody_ended_ || judge_.is_present(rank);
    judge_.closed(rank, woken());
  }

  void on_record(int, const watch::PackedRecord& packed) override {
    if (spoken_ || stopping_) return;
    const FaultRecord record = watch::unpack(packed);
    leave(record,
          peers_.rank() == 0 && packed.said == 0,
          peers_.rank() == 0 ? Tell::said : Tell::none);
  }

  void send_announcement() {
    const std::lock_guard lock(mutex_);
    if (!announcement_) return;
    spoken_ = true;
    peers_.send_to_all(Kind::record, *announcement_);
    peers_.resolve(kSendMs, false);
    announcement_.reset();
    announced_.notify_all();
  }

  FaultRecord record_of(const Verdict& verdict) const {
    FaultRecord record = describe(verdict, judge_.note(verdict.rank));
    const watch::Peers::Card& faulting_rank = peers_.card(verdict.rank);
    record.host = faulting_rank.host;
    record.process = faulting_rank.process;
    record.seen_by = peers_.rank();
    const bool may_be_disturbed =
        verdict.kind == Verdict::Kind::frozen || verdict.kind == Verdict::Kind::stuck;
    if (may_be_disturbed) record.details = strangers_.all();
    return record;
  }

  /// Rank 0 speaks of all others. Where it is itself gone, the lowest other rank does: of another
  /// host where rank 0's may be gone as a whole.
  bool speaks_of(const Verdict& verdict) const {
    if (peers_.rank() == 0) return true;
    const bool silent = verdict.kind == Verdict::Kind::frozen;
    int speaker = 1;
    for (int r = 1; r < peers_.size() && silent; ++r)
      if (!peers_.card(r).on_machine_of(peers_.card(0))) {
        speaker = r;
        break;
      }
    return peers_.rank() == speaker;
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
    leave(record, peers_.rank() == 0, peers_.rank() == 0 ? Tell::said : Tell::unsaid);
  }

  /// Whatever hangs from here on, a full pipe or a dead file system, the process ends.
  [[noreturn]] void leave(const FaultRecord& record, bool reports, Tell tell) {
    const int exit_code = record.exit_code;
    try {
      start_signal_masked_thread([exit_code] {
        std::this_thread::sleep_for(kMaxLastWords);
        _exit(exit_code);
      }).detach();
    } catch (...) {
      // Then it has to go without.
    }
    if (tell != Tell::none)
      peers_.send_to_all(Kind::record, watch::pack(record, tell == Tell::said));
    peers_.flush();
    try {
      if (failure_handler_) failure_handler_(record, reports);
    } catch (...) {
      say_without_memory();
    }
    peers_.resolve(kLeaveMs, peers_.rank() == 0);
    // Rank 0 is gone or frozen, so that no rank can tell the others: each has to find out by
    // itself, before the launcher kills it, which is a second after the first rank has ended.
    if (reports && peers_.rank() != 0 && peers_.size() > 2)
      std::this_thread::sleep_for(kOthersFirst);
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
  FailureDetector judge_;
  StrangerWatch strangers_;
  std::string blindness_;
  bool somebody_ended_ = false;     // and is about to be judged
  bool spoken_ = false;             // this rank ends, and has said why
  std::atomic<bool> alone_{false};  // watches its launcher only
  std::atomic<bool> watching_{false}, stopping_{false}, after_error_{false};

  std::mutex mutex_;
  std::condition_variable announced_;
  std::optional<watch::PackedRecord> announcement_;
  std::thread thread_;
};

Watchdog::Watchdog(Communicator& host,
                   const Position& position,
                   FailureHandler failure_handler,
                   const WatchLimits& limits,
                   bool has_launcher,
                   std::vector<IpAddress> job_addresses)
    : state_(std::make_unique<State>(host,
                                     position,
                                     std::move(failure_handler),
                                     limits,
                                     has_launcher,
                                     std::move(job_addresses))) {}

Watchdog::~Watchdog() = default;

const std::string& Watchdog::blindness() const { return state_->blindness(); }
void Watchdog::announce(const FaultRecord& record) { state_->announce(record); }

}  // namespace lockstep
