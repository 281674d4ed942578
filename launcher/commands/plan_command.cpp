// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <utility>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/text/number_format.h"
#include "core/exec/dry_backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "launcher/commands/commands.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/plan/network_file.h"
#include "launcher/plan/plan_report.h"
#include "launcher/plan/plan_request.h"
#include "launcher/predict/teacher.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/placeholder_data.h"
#include "launcher/settings/read_settings.h"
#include "lockstep/schedule.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/memory/sharding_choice.h"
#include "parallel/replica/replica_parts.h"
#include "parallel/session/device_choice.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

struct PlanFlags {
  std::int64_t classes = 0;
  bool by_layer = false, json = false;
  int ranks_per_host = 0;  ///< 0: not given
  std::optional<Network> network;
  std::optional<double> step_s;  ///< --step-ms
  std::optional<DeviceRate> rate;
  TrainFlags train;
  std::string help;
};

PlanFlags parse(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Says before anything runs what a training would use: memory by category, what fits, FLOPs, "
      "bytes on the wire, and how it would scale. Needs no GPU.",
      "lockstep plan");
  PlanFlags flags;
  app.add_flag("--by-layer", flags.by_layer, "the memory of each layer as well");
  app.add_flag("--json", flags.json, "one JSON object instead of text");
  app.add_option("--classes", flags.classes, "classes of the samples, where --data is omitted")
      ->type_name("N")
      ->check(whole_number("--classes", 1, 1 << 20));
  app.add_option("--ranks-per-host",
                 flags.ranks_per_host,
                 "what hosts with N ranks each send each other in a step; otherwise as many as "
                 "--network has")
      ->type_name("N")
      ->check(whole_number("--ranks-per-host", 1, kMaxForecastRanks));
  std::string network;
  app.add_option("--network",
                 network,
                 "predicts steps on 1, 2, 4, ... and --ranks N ranks that this connects; FILE.toml "
                 "has ranks_per_host, inside_latency_us, inside_bandwidth_GBps (of a rank), "
                 "between_latency_us, between_bandwidth_GBps (of a host)")
      ->type_name("nvlink|ib|ethernet|FILE");
  double step_ms = 0;
  CLI::Option* const measured =
      app.add_option("--step-ms",
                     step_ms,
                     "with --network: what one rank takes for a step of its share of the batch at "
                     "--ranks N, measured; otherwise, what the device's measured peaks allow")
          ->type_name("MS")
          ->check(real_number("--step-ms", 1e-6, 1e9));
  std::string rate;
  CLI::Option* const rated =
      app.add_option(
             "--device-rate",
             rate,
             "with --network: the GPU of each rank, at an assumed share of its data sheet's "
             "peaks, or the TFLOP/s that a rank reaches; otherwise the peaks of the device "
             "that is here")
          ->type_name("A100|H100|H200|B200|TFLOPS");
  measured->excludes(rated);
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep train (lockstep train --help). Without --data, "
      "samples "
      "have the shape that the model is made for; --image-size, --classes, --context and "
      "--vocabulary change it.");
  flags.help = parse_command_line(app, arguments, "lists its flags");
  if (!flags.help.empty()) return flags;
  if (!network.empty()) flags.network = open_network(network);
  if (flags.network && flags.ranks_per_host > 0)
    flags.network->ranks_per_host = flags.ranks_per_host;
  if (measured->count() > 0) flags.step_s = step_ms / 1e3;
  if (rated->count() > 0) flags.rate = parse_device_rate(rate);
  LOCKSTEP_CHECK(flags.network || !flags.step_s, ConfigError, "--step-ms needs --network");
  LOCKSTEP_CHECK(flags.network || !flags.rate, ConfigError, "--device-rate needs --network");
  const PlaceholderData placeholder{flags.classes};
  flags.train = parse_train_flags(app.remaining(), &placeholder);
  if (flags.train.measures_micro_batch)  // which only the run does
    flags.train.options.micro_batch = default_micro_batch(flags.train.options.global_batch);
  return flags;
}

void make_shards_for_all(PlanFlags& flags) {
  LOCKSTEP_CHECK(flags.train.ranks <= kMaxForecastRanks,
                 ConfigError,
                 "--network predicts up to {} ranks, got --ranks {}",
                 kMaxForecastRanks,
                 flags.train.ranks);
  make_shards_for(flags.train.options, flags.train.ranks);
}

/// Whose kernels are planned.
struct PlannedDevice {
  std::unique_ptr<Backend> backend;
  bool cuda = false;
  bool known = true;  ///< false: a GPU that is not here
  std::string name, note;
};

/// `sheet`: the GPU that --device-rate names.
PlannedDevice choose(const std::string& asked, const std::optional<DeviceSheet>& sheet) {
  LOCKSTEP_CHECK(!sheet || asked != "cpu",
                 ConfigError,
                 "--device cpu cannot be combined with --device-rate {}, which is a GPU's",
                 sheet->name);
  const DeviceProbe probe = asked == "cpu" ? DeviceProbe{} : probe_cuda();
  PlannedDevice device;
  if ((asked == "cuda" || sheet) && probe.devices == 0) {
    device.backend = std::make_unique<DryBackend>(kGpuTraits);
    device.cuda = true;
    device.known = false;
    device.name = sheet ? fmt::format("cuda ({}), none here", sheet->name) : "cuda, none here";
    device.note = fmt::format(
        "{}: workspace, packed copies and context are unknown, and the arena holds tensors alone",
        probe.reason);
    return device;
  }
  const DeviceChoice choice = asked == "cpu" ? DeviceChoice{} : choose_device(asked, probe, 0);
  device.cuda = choice.cuda;
  device.backend = choice.cuda ? make_cuda_backend(choice.ordinal) : make_cpu_backend();
  device.name = device.backend->device_class();
  device.note = choice.note;
  return device;
}

/// As a run would be, but where nothing fits: then what comes closest.
void plan_as_asked(Backend& device, const PlanRequest& request, PlanReport& report) {
  try {
    report.plan = plan_memory(device, request);
  } catch (const OutOfMemory&) {
    report.plan = plan_min_memory(device, request);
    report.fits_nothing = request.options.recompute == Recompute::automatic;
  }
}

/// What of `request` fits `limit`.
void find_what_fits(Backend& device,
                    const PlanRequest& request,
                    std::uint64_t limit,
                    PlanReport& report) {
  PlanRequest recomputing = request;
  recomputing.options.recompute = Recompute::automatic;
  const MemoryTarget target{.bytes = limit};
  report.largest = largest_micro_batch(device, request, limit);
  report.largest_recomputing = largest_micro_batch(device, recomputing, limit);
  if (report.largest->micro_batch == 0) report.least = min_memory(device, request, target);
  if (report.largest_recomputing->micro_batch == 0)
    report.min_recomputing = min_memory(device, recomputing, target);
  if (report.plan.limited_bytes > limit) report.advice = advise(device, request, target);
}

std::string format_planned_data(const TrainFlags& flags, const data::Dataset& data) {
  if (!flags.placeholder) return format_data(data);
  const data::SampleSpec& spec = data.spec();
  return fmt::format("samples of {}, {} {}",
                     spec.input.to_string(),
                     spec.classes,
                     spec.input.dtype == DType::i32 ? "different tokens" : "classes");
}

void add_traffic(PlanReport& report) {
  const BatchPlan& batch = report.plan.batch;
  const Schedule schedule = training_schedule(batch, batch.global_batch, 0);
  report.traffic = host_traffic(
      report.plan.buckets, schedule, report.ranks_per_host, report.flags.options.reduction);
}

PlanReport make_report(const PlanFlags& flags, PlannedDevice& device, int ranks) {
  TrainFlags train = flags.train;
  data::DataSplit data = open_placeholder(train);
  resolve_teacher(train, *data.train);
  PlanRequest request =
      with_sizes(*device.backend, request_for(train, std::move(data), ranks, !device.cuda));
  const int ranks_per_host = flags.ranks_per_host == 0 && flags.network
                                 ? flags.network->ranks_per_host
                                 : flags.ranks_per_host;
  if (train.snapshots) request.ranks_per_host = ranks_per_host;
  if (train.chooses_sharding) {
    train.chooses_sharding = false;
    train.options.sharding = request.options.sharding =
        choose_sharding(*device.backend, request, {.bytes = UINT64_MAX}).sharding;
  }
  PlanReport report{.flags = train,
                    .data = format_planned_data(train, *request.data.train),
                    .device = device.name,
                    .note = device.note,
                    .subject = {.on_host = !device.cuda, .complete = device.known},
                    .plan = {},
                    .rows = {},
                    .largest = {},
                    .largest_recomputing = {},
                    .least = {},
                    .min_recomputing = {},
                    .advice = {},
                    .forecast = {},
                    .ranks_per_host = ranks_per_host,
                    .traffic = {}};
  plan_as_asked(*device.backend, request, report);
  if (report.ranks_per_host > 0) add_traffic(report);
  if (!device.known)
    for (const auto category : {MemoryCategory::workspace, MemoryCategory::packed_copies})
      report.plan.table[category].reset();
  report.rows = micro_batch_table(*device.backend, request);
  const std::uint64_t limit = train.options.memory_limit;
  if (limit > 0) find_what_fits(*device.backend, request, limit, report);
  if (flags.network) {
    ForecastRequest asked{.network = *flags.network,
                          .peaks = {},
                          .step_s = flags.step_s,
                          .rate = flags.rate,
                          .device = device.name};
    if (device.known && !flags.step_s && !flags.rate) asked.peaks = device.backend->measure_peaks();
    report.forecast = make_forecast(*device.backend, request, asked);
  }
  return report;
}

/// Throws where no micro-batch and no recomputation fits.
void require_something_fits(const PlanReport& report) {
  if (!report.min_recomputing) return;
  const MinMemory& least = *report.min_recomputing;
  const double limit = double(report.flags.options.memory_limit);
  const double fixed = double(least.plan.fixed_bytes), needed = double(least.needed);
  if (needed <= limit) return;
  const std::string at_least = report.subject.complete ? "" : "at least ";
  const std::string hint =
      fmt::format("a --memory-limit of {} suffices, or {}",
                  least.needed,
                  report.advice ? format_other_settings(*report.advice) : "a smaller model");
  if (limit < fixed)
    throw OutOfMemory(fmt::format("memory: parameters, gradients and optimizer state of {} take {} "
                                  "or more at any micro-batch, {} more than the limit of {}",
                                  report.flags.model.name,
                                  format_bytes(fixed),
                                  format_bytes(fixed - limit),
                                  format_bytes(limit)),
                      hint);
  throw OutOfMemory(
      fmt::format("memory: {} does not fit: a micro-batch of {} with full recompute, which "
                  "takes the least, takes {}{}, {} more than the limit of {}",
                  report.flags.model.name,
                  least.micro_batch,
                  at_least,
                  format_bytes(needed),
                  format_bytes(needed - std::min(needed, limit)),
                  format_bytes(limit)),
      hint);
}

void plan(PlanFlags& flags, const RankDiscovery& discovery) {
  validate(flags.train.options);
  if (flags.network) make_shards_for_all(flags);
  PlannedDevice device = choose(flags.train.device, flags.rate ? flags.rate->sheet : std::nullopt);
  // A run there could use no more, whichever GPU is here.
  std::uint64_t& limit = flags.train.options.memory_limit;
  if (limit == 0 && flags.rate && flags.rate->sheet)
    limit = std::uint64_t(flags.rate->sheet->memory_bytes);
  const bool launched = discovery.launched_by != LaunchedBy::none;
  // GPUs that are not here are not counted: one, unless --ranks says more.
  const int devices = !device.cuda   ? available_cores().count
                      : device.known ? usable_gpus(flags.train.device)
                                     : 1;
  // In a shell that srun or mpirun opened, --ranks still says what is to be planned.
  const int ranks =
      launched && flags.train.ranks <= 0 ? discovery.size : choose_ranks(flags.train, devices);
  const PlanReport report = make_report(flags, device, ranks);
  std::cout << (flags.json ? to_json(report, flags.by_layer) : to_text(report, flags.by_layer))
            << std::flush;
  require_something_fits(report);
}

}  // namespace

int plan_command(const std::vector<std::string>& arguments) {
  env();
  const RankDiscovery discovery = discover_rank(process_variables());
  if (discovery.rank > 0) return 0;  // rank 0 plans for all
  PlanFlags flags = parse(arguments);
  const std::string& help = flags.help.empty() ? flags.train.help : flags.help;
  if (print_help(help)) return 0;
  try {
    plan(flags, discovery);
  } catch (Error& error) {
    add_origins(error, flags.train);
    throw;
  }
  return 0;
}

}  // namespace lockstep
