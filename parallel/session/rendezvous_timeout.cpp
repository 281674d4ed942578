// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/rendezvous_timeout.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "core/base/parameter_names.h"
#include "core/base/rank_list.h"
#include "core/base/signal_masked_thread.h"
#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/session/fault_log.h"
#include "parallel/watchdog/fault_record.h"
#include "parallel/watchdog/heartbeat_protocol.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMaxRanksLookedFor = 4096;

std::string value_of(const VariableMap& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

int number_of(const VariableMap& variables, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string text = value_of(variables, name);
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    if (value > 0) return value;
  }
  return 0;
}

/// An abstract name: bound as long as its process lives.
socklen_t name_of_rank(const std::string& job, int rank, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lockstep/{}/{}/{}", getuid(), job, rank);
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data() + name.size() - size, size);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size);
}

watch::Descriptor make_socket() {
  return watch::Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool has_come(const std::string& job, int rank) {
  sockaddr_un address;
  const socklen_t size = name_of_rank(job, rank, address);
  const watch::Descriptor probe = make_socket();
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), size) == 0;
}

}  // namespace

JobName job_name(const RankDiscovery& discovery, const VariableMap& variables) {
  JobName name;
  name.ranks = discovery.size;
  name.local_ranks =
      number_of(variables, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"});
  if (name.ranks < number_of(variables, {"OMPI_COMM_WORLD_SIZE"}))
    name.local_ranks = 0;  // after a death the launcher's number says nothing
  for (const char* variable : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"})
    if (name.id.empty()) name.id = value_of(variables, variable);
  const std::string slurm = value_of(variables, "SLURM_JOB_ID");
  if (name.id.empty() && !slurm.empty())
    name.id = slurm + "." + value_of(variables, "SLURM_STEP_ID");
  if (name.ranks == 0) name.ranks = number_of(variables, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  return name;
}

std::string absence_text(const JobName& job, const std::vector<bool>& present, int& first_absent) {
  std::vector<int> here, absent;
  for (int r = 0; r < int(present.size()); ++r)
    (present[std::size_t(r)] ? here : absent).push_back(r);
  first_absent = -1;
  if (job.id.empty() || here.empty())
    return "ranks are missing, and the launcher names no job, so that they cannot be identified";
  const bool one_host = job.local_ranks > 0 && job.local_ranks == job.ranks;
  if (one_host && !absent.empty()) {
    first_absent = absent.front();
    return fmt::format("{} {} not come; {} {}",
                       format_ranks(absent),
                       absent.size() == 1 ? "has" : "have",
                       format_ranks(here),
                       here.size() == 1 ? "has" : "have");
  }
  std::string text =
      fmt::format("on this host {} {} come", format_ranks(here), here.size() == 1 ? "has" : "have");
  if (job.local_ranks > 0)
    text += int(here.size()) < job.local_ranks
                ? fmt::format(" of the {} that belong here", job.local_ranks)
                : ", all that belong here";
  if (!absent.empty())
    text += fmt::format("; {} {} on other hosts, or {} not come",
                        format_ranks(absent),
                        absent.size() == 1 ? "is" : "are",
                        absent.size() == 1 ? "has" : "have");
  return text;
}

class RendezvousTimeout::State {
 public:
  State(const RankDiscovery& discovery, const VariableMap& variables, double limit_s)
      : job_(job_name(discovery, variables)), rank_(discovery.rank), limit_s_(limit_s) {
    if (!job_.id.empty()) {
      sockaddr_un address;
      const socklen_t size = name_of_rank(job_.id, rank_, address);
      socket_ = make_socket();
      // Where this fails, others take this rank for absent: no reason not to train.
      if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) socket_.reset();
    }
    thread_ = start_signal_masked_thread([this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

 private:
  void run() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(250), [&] { return done_; })) {
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (getppid() != parent_) end_without_launcher();
      if (limit_s_ > 0 && waited.count() > limit_s_) end(waited.count());
    }
  }

  FaultRecord own_record() const {
    FaultRecord record;
    record.rank = rank_;
    record.host = host_name();
    record.stage = name_of(RunStage::start);
    return record;
  }

  [[noreturn]] void end_without_launcher() const {
    FaultRecord record = own_record();
    record.process = getpid();
    record.cause = "the launcher of this rank is gone";
    if (rank_ == 0) write_to_screen(to_block(record));
    _exit(int(ExitCode::error));
  }

  [[noreturn]] void end(double waited) const {
    std::vector<bool> present(std::size_t(std::clamp(job_.ranks, 0, kMaxRanksLookedFor)));
    bool lower_here = false;
    for (int r = 0; r < int(present.size()); ++r) {
      present[std::size_t(r)] = r == rank_ || (!job_.id.empty() && has_come(job_.id, r));
      lower_here |= r < rank_ && present[std::size_t(r)];
    }
    int absent = -1;
    FaultRecord record = own_record();
    record.cause = fmt::format("the ranks did not come together within {:.0f} s: {}",
                               waited,
                               absence_text(job_, present, absent));
    record.hint = name_parameters(
        "look at what the launcher says of the absent ranks and at their hosts; "
        "`timeout_start` is how long they are waited for, a minute where it is not "
        "given");
    if (absent >= 0) {
      record.rank = absent;
      record.seen_by = rank_;
    }
    // The lowest of a host speaks; the launcher ends the others when that one has ended.
    if (lower_here) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    if (!lower_here) write_to_screen(to_block(record));
    _exit(int(ExitCode::collective_timeout));
  }

  const JobName job_;
  const int rank_;
  const double limit_s_;
  const pid_t parent_ = getppid();
  watch::Descriptor socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

RendezvousTimeout::RendezvousTimeout(const RankDiscovery& discovery,
                                     const VariableMap& variables,
                                     double limit_s)
    : state_(std::make_unique<State>(discovery, variables, limit_s)) {}

RendezvousTimeout::~RendezvousTimeout() = default;

}  // namespace lockstep
