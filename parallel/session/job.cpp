// SPDX-License-Identifier: Apache-2.0
#include "lockstep/job.h"

#include <exception>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/text/fixed_text.h"
#include "core/exec/agreement.h"
#include "core/host/machine.h"
#include "core/step/fault_injector.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/comm/staged_communicator.h"
#include "parallel/comm/watched_communicator.h"
#include "parallel/replica/communicator_warmup.h"
#include "parallel/session/device_choice.h"
#include "parallel/session/error_report.h"
#include "parallel/session/fault_log.h"
#include "parallel/session/gpu_binding.h"
#include "parallel/session/job_internals.h"
#include "parallel/session/job_network.h"
#include "parallel/session/loaded_libraries.h"
#include "parallel/session/rank_discovery.h"
#include "parallel/session/rendezvous_timeout.h"
#include "parallel/watchdog/watchdog.h"

namespace lockstep {

class Job::State {
 public:
  void watch(Position& position, const WatchLimits& limits, bool launched);
  /// By NCCL, or through MPI where that cannot be.
  void join_devices(Job& job, const DeviceCard& own, bool share_a_gpu);

  RankDiscovery discovery;
  std::unique_ptr<FaultInjector> faults;
  FaultLog fault_log;
  // Outlives MPI, whose end waits for every rank: one may die until then.
  std::optional<Watchdog> watchdog;
  std::optional<MpiSession> mpi;
  JobNetwork network;
  std::unique_ptr<Communicator> plain;
  std::unique_ptr<Communicator> communicator;  // watched
  std::unique_ptr<Communicator> reaching;      // watched; by MPI that reaches GPUs, where it does
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> of_devices;  // for their memory; null: `communicator` is
  double join_s = 60;
  std::string device_note;
  std::optional<std::string> gpu;
};

namespace {

/// The number among the ranks of this machine: the launcher's word, or by rank order.
int local_rank(const RankDiscovery& discovery, Communicator& communicator, const DeviceCard& own) {
  if (all_ranks(communicator, discovery.local_rank >= 0)) return discovery.local_rank;
  const int before = ranks_before(communicator, own);
  return discovery.local_rank >= 0 ? discovery.local_rank : before;
}

/// ", /usr/lib/libmpi.so.40.30.4 (Open MPI v4.1.4, ...)"; empty: it is not found among the loaded.
std::string mpi_in_use() {
  for (const LoadedLibrary& library : loaded_libraries())
    if (library.name.starts_with("libmpi.so") || library.name.starts_with("libmpich.so"))
      return fmt::format(", {} ({})", library.file, library.version);
  return {};
}

/// As far as this rank goes; empty: nothing.
std::string own_reason_against_nccl() {
  if (env().nccl == "off") return "LOCKSTEP_NCCL=off";
  return has_nccl() ? "" : "this was built without it";
}

}  // namespace

Job::Job(int /*argc*/, char** /*argv*/, const WatchLimits& limits)
    : state_(std::make_unique<State>()) {
  env();  // names misspelt LOCKSTEP_* variables
  State& s = *state_;
  s.join_s = limits.join_s;
  const VariableMap variables = process_variables();
  s.discovery = discover_rank(variables);
  if (const auto place = MpiSession::place_after_shrink()) {  // see Note [Survivors]
    s.discovery.rank = place->rank;
    s.discovery.size = place->size;
    s.discovery.source += ", before a rank died";
  }
  if (!MpiSession::place_after_shrink()) {  // else other threads run, and all of them are set
    set_cuda_variables();
    MpiSession::set_variables();
    const bool apart = env().nccl == "shared";
    set_nccl_variables(apart ? std::optional(s.discovery.rank) : std::nullopt);
  }
  if (env().fault)
    s.faults = std::make_unique<FaultInjector>(
        parse_fault_plan(*env().fault),
        s.discovery.rank,
        position(),
        [rank = s.discovery.rank](const std::string& what) { print_warning(what, rank); });
  const bool launched = s.discovery.launched_by == LaunchedBy::mpi ||
                        s.discovery.launched_by == LaunchedBy::slurm_only;
  if (s.discovery.size == 1) {
    if (MpiSession::place_after_shrink()) s.mpi.emplace();  // for its end
    s.plain = std::make_unique<SelfCommunicator>();
    s.communicator = std::make_unique<SelfCommunicator>();
    s.watch(position(), limits, launched);
    return;
  }
  const RendezvousTimeout join(s.discovery, variables, limits.join_s);
  const std::vector<OwnListener> before = own_listeners();
  s.mpi.emplace();
  s.plain = make_mpi_communicator(*s.mpi);
  check_against_mpi(s.discovery, s.plain->rank(), s.plain->size(), mpi_in_use);
  s.network = gather_network(*s.plain);
  const auto transports = variables.find("OMPI_MCA_btl");
  const std::string open =
      close_to_strangers(opened_since(before, own_listeners()),
                         s.network,
                         transports == variables.end() ? std::string() : transports->second);
  if (!open.empty() && s.plain->rank() == 0) print_warning(open, 0);
  s.watch(position(), limits, launched);
  s.communicator = make_watched_communicator(
      make_mpi_communicator(*s.mpi), position(), env().check_collectives == "1");
}

void Job::State::watch(Position& position, const WatchLimits& limits, bool launched) {
  watchdog.emplace(
      *plain,
      position,
      [log = &fault_log](const FaultRecord& record, bool reports) { log->write(record, reports); },
      limits,
      launched,
      network.addresses);
  if (const std::string& why = watchdog->blindness(); !why.empty() && plain->rank() == 0)
    print_warning(why + ": a dead or frozen rank will not be seen; open TCP between the hosts", 0);
}

Job::~Job() = default;

void Job::open_device(const std::string& device) {
  State& s = *state_;
  LOCKSTEP_ASSERT(s.backend == nullptr);
  DeviceCard own;
  set_text(own.host, host_name());
  set_text(own.machine, machine_id());
  const int local = local_rank(s.discovery, *s.communicator, own);
  std::unique_ptr<Backend> backend;
  try {
    const DeviceChoice choice =
        device == "cpu" ? DeviceChoice{} : choose_device(device, probe_cuda(), local);
    // Before the driver's threads and pinned memory: both go where this thread is.
    if (choice.cuda) bind_to_gpu(cuda_device_id(choice.ordinal), env().started.has_value());
    backend = choice.cuda ? make_cuda_backend(choice.ordinal) : make_cpu_backend();
    own.cuda = choice.cuda;
    own.shared_nccl = env().nccl == "shared";
    set_text(own.no_nccl, own_reason_against_nccl());
    if (choice.cuda) set_text(own.device, cuda_device_id(choice.ordinal));
    if (choice.cuda) set_text(own.gpu, uuid_in(backend->memory().pool));
    set_text(own.text, choice.note);
  } catch (...) {
    const ErrorReport report = describe(std::current_exception());
    own.exit_code = report.exit_code;
    set_text(own.text, report.message);
    set_text(own.hint, report.hint);
  }
  check_devices(*s.communicator, own);
  const GpuSharing sharing = gpu_sharing(*s.communicator, own);
  s.backend = std::move(backend);
  if (own.cuda) s.gpu = own.device;
  s.device_note = own.cuda ? sharing.note : own.text;
  if (own.cuda && s.communicator->size() > 1) s.join_devices(*this, own, sharing.any);
}

void Job::State::join_devices(Job& job, const DeviceCard& own, bool share_a_gpu) {
  const std::string why_not = reason_against_nccl(*communicator, own, share_a_gpu);
  if (why_not.empty()) {
    of_devices = make_nccl_communicator(*communicator, *backend, {.join_s = join_s});
    // Whether it reaches all ranks. What a training needs more is tried when that is known: see
    // Note [Communicator warm-up].
    warm_up_connections(job);
    return;
  }
  // Hosts may be set up differently, and all have to exchange in one way.
  const bool reached = all_ranks(*communicator, MpiSession::reaches_gpus());
  if (reached)
    reaching = make_watched_communicator(make_mpi_communicator(*mpi, MpiExchange::messages),
                                         job.position(),
                                         env().check_collectives == "1");
  of_devices = reached
                   ? make_staged_communicator(*reaching, *backend, DeviceReach::all_but_all_reduce)
                   : make_staged_communicator(*communicator, *backend);
  if (!device_note.empty()) device_note += "; ";
  device_note += fmt::format("gradients travel through {} MPI, not NCCL: {}",
                             reached ? "a CUDA-aware" : "host memory and",
                             why_not);
}

Backend& Job::backend() {
  if (!state_->backend) open_device("auto");
  return *state_->backend;
}

Communicator& Job::communicator() {
  backend();
  return state_->of_devices ? *state_->of_devices : *state_->communicator;
}

Communicator& Job::host_communicator() { return *state_->communicator; }
const std::string& Job::source() const { return state_->discovery.source; }
const std::optional<std::string>& Job::gpu() const { return state_->gpu; }
const std::string& Job::device_note() const { return state_->device_note; }

JobInternals JobInternals::of(const Job& job) {
  Job::State& s = *job.state_;
  return {.plain = *s.plain, .watchdog = *s.watchdog, .fault_log = s.fault_log};
}

}  // namespace lockstep
