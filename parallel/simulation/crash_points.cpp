// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/crash_points.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "core/data/forwarding_dataset.h"
#include "core/host/file_probe.h"
#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/error.h"
#include "parallel/simulation/wrapped_communicator.h"

namespace lockstep::simulation {
namespace {

namespace fs = std::filesystem;

constexpr int kDied = 10, kDone = 11, kFailed = 12;  // exit codes of the process that runs
constexpr std::size_t kMaxCrashFailures = 5;

/// What the process that runs tells the one that has started it.
struct CrashNotes {
  std::atomic<int> saves = 0;  // that rank 0 has begun
  char where[128] = {};        // it died
};

class SharedNotes {
 public:
  SharedNotes()
      : memory_(::mmap(nullptr,
                       sizeof(CrashNotes),
                       PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS,
                       -1,
                       0)) {
    if (memory_ == MAP_FAILED) throw EnvironmentError("crash points: no memory to share");
  }
  ~SharedNotes() { ::munmap(memory_, sizeof(CrashNotes)); }
  SharedNotes(const SharedNotes&) = delete;
  SharedNotes& operator=(const SharedNotes&) = delete;

  CrashNotes& clear() { return *new (memory_) CrashNotes; }
  const CrashNotes& read() const { return *static_cast<const CrashNotes*>(memory_); }

 private:
  void* memory_;
};

/// Ends the rank, and with it this process.
class DyingRank final : public FileProbe {
 public:
  DyingRank(int rank,
            std::int64_t operation,
            bool alone,
            const CrashPointRequest& request,
            CrashNotes& notes)
      : rank_(rank), operation_(operation), alone_(alone), request_(request), notes_(notes) {}

  bool is_dead(int rank) const { return rank == rank_ && dead_; }

  void begin_save(int rank) override {
    saver_ = rank;
    if (rank == 0) ++notes_.saves;
  }

  bool before(FileOperation operation, const fs::path& path) override {
    if (saver_ < 0) return true;  // not in a save
    ++operations_;
    if (saver_ == rank_ && ++own_ == operation_) die(operation, path);
    if (operation != FileOperation::write) return true;
    if (saver_ == 0) spoil(path);
    return !request_.loses_write || !request_.loses_write(saver_, path);
  }

 private:
  [[noreturn]] void die(FileOperation operation, const fs::path& path) {
    const std::string text =
        fmt::format("{} {}", name_of(operation), path.lexically_relative(request_.folder).string());
    std::strncpy(notes_.where, text.c_str(), sizeof notes_.where - 1);
    dead_ = true;
    constexpr auto kQuiet = std::chrono::milliseconds(10);
    std::int64_t seen = -1;
    while (alone_ && std::exchange(seen, operations_.load()) != operations_.load())
      std::this_thread::sleep_for(kQuiet);
    ::_exit(kDied);
  }

  /// Space that was taken for a file.
  void spoil(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    if (!spoiled_.insert(path.string()).second) return;
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && ::fstat(file, &status) == 0 && status.st_size > 0) {
      const std::vector<char> bytes(std::size_t(status.st_size), '\xa5');
      (void)!::pwrite(file, bytes.data(), bytes.size(), 0);
    }
    if (file >= 0) ::close(file);
  }

  static thread_local int saver_;
  const int rank_;
  const std::int64_t operation_;
  const bool alone_;
  const CrashPointRequest& request_;
  CrashNotes& notes_;
  std::atomic<bool> dead_ = false;
  std::atomic<std::int64_t> operations_ = 0;
  std::int64_t own_ = 0;  // of the one thread that saves for `rank_`
  std::mutex mutex_;
  std::set<std::string> spoiled_;
};

thread_local int DyingRank::saver_ = -1;

/// Of a rank that may be dead: then it calls nothing any more.
class MortalCommunicator final : public WrappedCommunicator {
 public:
  MortalCommunicator(std::unique_ptr<Communicator> inner, int rank, const DyingRank& probe)
      : WrappedCommunicator(std::move(inner)), rank_(rank), probe_(probe) {}

  void barrier() override { live(), WrappedCommunicator::barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override {
    live(), WrappedCommunicator::broadcast(data, bytes, root);
  }
  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    live(), WrappedCommunicator::gather(send, recv, bytes, root);
  }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    live(), WrappedCommunicator::all_gather(send, recv, bytes);
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    live(), WrappedCommunicator::all_gather_v(send, recv, bytes);
  }
  void all_reduce_max(std::span<std::uint64_t> values) override {
    live(), WrappedCommunicator::all_reduce_max(values);
  }
  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    live();
    return WrappedCommunicator::start_all_to_all(send, to, recv, from);
  }
  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    live();
    return WrappedCommunicator::start_all_gather(data, blocks);
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    live();
    return WrappedCommunicator::start_all_reduce(data, elems);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    live();
    return std::make_unique<MortalCommunicator>(
        WrappedCommunicator::split(color, key), rank_, probe_);
  }

 private:
  void live() const {
    while (probe_.is_dead(rank_)) Fiber::suspend();
  }

  const int rank_;
  const DyingRank& probe_;
};

using LoadCounts = std::vector<int>;  // of an epoch, by sample

/// Notes which samples of the first epoch are loaded.
class NotedSamples final : public data::ForwardingDataset {
 public:
  NotedSamples(std::shared_ptr<const data::Dataset> samples, LoadCounts& counts)
      : ForwardingDataset(std::move(samples)), counts_(counts) {}
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    if (epoch == 0) ++counts_[std::size_t(index)];
    inner().load_copy(epoch, index, copy, input, target);
  }
  std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset>) const override {
    return nullptr;
  }

 private:
  LoadCounts& counts_;
};

class CrashTrial {
 public:
  explicit CrashTrial(const CrashPointRequest& request) : request_(request) {
    points_.of_rank.resize(std::size_t(request.run.cluster.ranks));
  }

  CrashPoints run() {
    for (const bool alone : {false, true})
      for (int rank = 0; rank < request_.run.cluster.ranks; ++rank)
        for (std::int64_t operation = 1; !is_over(); ++operation)
          if (!dies(rank, operation, alone)) break;
    return std::move(points_);
  }

 private:
  bool is_over() const { return points_.failures.size() >= kMaxCrashFailures; }

  /// False: the rank has fewer operations, and the run came to its end.
  bool dies(int rank, std::int64_t operation, bool alone) {
    fs::remove_all(request_.folder);
    CrashNotes& notes = notes_.clear();
    const int status = run_apart(rank, operation, alone, notes);
    const bool died = WIFEXITED(status) && WEXITSTATUS(status) == kDied;
    const bool done = WIFEXITED(status) && WEXITSTATUS(status) == kDone;
    const std::string place = done ? std::string("no rank died")
                                   : fmt::format("rank {} died {} before operation {} ({})",
                                                 rank,
                                                 alone ? "alone" : "with all others",
                                                 operation,
                                                 static_cast<const char*>(notes.where));
    if (!died && !done) {
      fail(place, fmt::format("the run ended otherwise, with status {}", status));
      return false;
    }
    points_.points += died ? 1 : 0;
    points_.of_rank[std::size_t(rank)] += died ? 1 : 0;
    check(place, done);
    return died;
  }

  int run_apart(int rank, std::int64_t operation, bool alone, CrashNotes& notes) {
    const pid_t process = ::fork();
    if (process < 0)
      throw EnvironmentError("crash points: cannot start a process: " +
                             std::generic_category().message(errno));
    if (process == 0) run_here(rank, operation, alone, notes);
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  [[noreturn]] void run_here(int rank, std::int64_t operation, bool alone, CrashNotes& notes) {
    DyingRank probe(rank, operation, alone, request_, notes);
    int code = kDone;
    try {
      SimulationRequest run = request_.run;
      run.options.checkpoint.folder = request_.folder.string();
      run.wrap_communicator = [&](int of, std::unique_ptr<Communicator> own) {
        return std::make_unique<MortalCommunicator>(std::move(own), of, probe);
      };
      set_file_probe(&probe);
      for (const RankEnd& end : simulate(run).ends)
        if (end.error || !end.waits_for.empty()) code = kFailed;
    } catch (...) {
      code = kFailed;
    }
    while (probe.is_dead(rank)) ::pause();  // its thread ends the process
    ::_exit(code);
  }

  void check(const std::string& place, bool done) {
    const std::int64_t every = request_.run.options.checkpoint.every_steps;
    const std::int64_t last = request_.run.options.steps;
    const std::int64_t begun = notes_.read().saves;
    const std::int64_t after = std::min(begun * every, last);
    const std::int64_t before = std::max<std::int64_t>(begun - 1, 0) * every;
    try {
      io::remove_temporaries(request_.folder);
      std::vector<std::string> skipped;
      const auto found = io::newest_checkpoint(request_.folder, skipped);
      const std::int64_t step = found ? found->state.step : 0;
      for (const std::string& damaged : skipped) fail(place, damaged);
      if (step != after && (done || step != before))
        fail(place,
             fmt::format("the newest whole checkpoint is of step {}, expected {}{}",
                         step,
                         done ? std::string() : fmt::format("{} or ", before),
                         after));
      ++(step == 0 ? points_.none : step == after ? points_.after : points_.before);
      if (skipped.empty()) check_samples(place, step);
    } catch (const std::exception& error) {
      fail(place, error.what());
    }
  }

  /// Those of the first `step` steps, and of the others on other ranks.
  void check_samples(const std::string& place, std::int64_t step) {
    LoadCounts counts = first_loads(step);
    SimulationRequest resumed = request_.run;
    resumed.cluster.ranks = request_.resume_ranks;
    resumed.options.checkpoint.every_steps = 0;
    resumed.options.checkpoint.folder = request_.folder.string();
    resumed.options.checkpoint.resume = "auto";
    count(resumed, counts);
    const auto wrong = std::ranges::find_if(counts, [](int times) { return times != 1; });
    if (wrong != counts.end())
      fail(place,
           fmt::format("resumed after step {} on {} ranks, sample {} was loaded {} times in all",
                       step,
                       request_.resume_ranks,
                       wrong - counts.begin(),
                       *wrong));
  }

  const LoadCounts& first_loads(std::int64_t step) {
    const auto [place, is_new] =
        loads_.try_emplace(step, LoadCounts(std::size_t(request_.run.dataset_size)));
    if (is_new && step > 0) {
      SimulationRequest run = request_.run;
      run.options.checkpoint = {};
      run.options.steps = step;
      count(run, place->second);
    }
    return place->second;
  }

  static void count(SimulationRequest run, LoadCounts& counts) {
    run.cluster.traces_sums = false;
    run.wrap_samples = [&](std::shared_ptr<const data::Dataset> own) {
      return std::make_shared<NotedSamples>(std::move(own), counts);
    };
    for (const RankEnd& end : simulate(run).ends) {
      if (end.error) std::rethrow_exception(end.error);
      if (!end.waits_for.empty()) throw InternalError("a rank waits for ever in " + end.waits_for);
    }
  }

  void fail(const std::string& place, const std::string& what) {
    points_.failures.push_back(place + ": " + what);
  }

  const CrashPointRequest& request_;
  SharedNotes notes_;
  CrashPoints points_;
  std::map<std::int64_t, LoadCounts> loads_;  // by step
};

}  // namespace

CrashPoints try_crash_points(const CrashPointRequest& request) {
  CrashPoints points = CrashTrial(request).run();
  fs::remove_all(request.folder);
  return points;
}

}  // namespace lockstep::simulation
