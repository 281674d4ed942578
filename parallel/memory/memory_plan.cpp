// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/memory_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>

#include "core/data/sampler.h"
#include "core/exec/dry_backend.h"
#include "core/host/process_memory.h"
#include "core/plan/hidden_matrices.h"
#include "core/plan/matrix_deal.h"
#include "core/step/dry_communicator.h"
#include "lockstep/error.h"
#include "lockstep/replica.h"
#include "lockstep/schedule.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/gradient_exchange.h"
#include "parallel/memory/micro_batch_search.h"
#include "parallel/replica/memory_fit.h"
#include "parallel/training/checkpointing.h"
#include "parallel/training/memory_snapshots.h"
#include "parallel/training/run_loaders.h"

namespace lockstep {
namespace {

double flops_per_step(const CompiledPrograms& programs,
                      const BatchPlan& batch,
                      bool deals_matrices) {
  const std::int64_t whole = batch.global_batch / batch.micro_batch;
  const std::int64_t rest = batch.global_batch % batch.micro_batch;
  const auto with_teacher = [&](const CompiledProgram& sized) {
    const auto& teacher = programs.teacher();
    return flops_of(*sized.program) + (teacher ? flops_of(teacher->program(sized.samples)) : 0);
  };
  double flops = 0;
  for (const CompiledProgram& sized : programs.training()) {
    if (sized.samples == batch.micro_batch) flops += double(whole) * with_teacher(sized);
    if (rest > 0 && sized.samples == rest) flops += with_teacher(sized);
  }
  if (programs.orthogonalization())
    flops += (deals_matrices ? 1 : double(batch.ranks)) * flops_of(*programs.orthogonalization());
  return flops;
}

void count_hidden_matrices(const CompiledPrograms& programs,
                           int rank,
                           int members,
                           MemoryPlan& plan) {
  if (!programs.orthogonalization()) return;
  plan.orthogonalizing_flops = flops_of(*programs.orthogonalization()) *
                               dealt_work(programs.graph(), members)[std::size_t(rank)];
  for (const int matrix : hidden_matrices(programs.graph())) {
    const Parameter& parameter = programs.graph().parameters()[std::size_t(matrix)];
    plan.hidden_matrices.push_back(parameter.name);
    plan.hidden_elems += parameter.shape.elems();
  }
}

/// Goes through the exchange of one step.
std::uint64_t exchange_bytes(ReplicaParts& parts,
                             const BatchPlan& batch,
                             float* parameters,
                             int rank) {
  GradientExchange& exchange = parts.exchange;
  const Schedule schedule = training_schedule(batch, batch.global_batch, rank);
  exchange.begin_step(schedule);
  if (schedule.turns == 1)
    for (std::size_t s = 0; s + 1 < schedule.work.size(); ++s) exchange.finish_shard();
  for (int turn = 0; turn < schedule.turns; ++turn) {
    if (turn > 0) exchange.next_turn();
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  }
  if (parts.update_exchanges()) parts.optimizer.exchange_alone(parts.matrices.get());
  if (parts.owners) parts.owners->share_weights(parameters);
  return exchange.bytes_sent() + parts.update_sent().both().all;
}

/// Of micro-batches, and of the order of samples.
std::size_t loader_bytes(const PlanRequest& request, const BatchPlan& batch) {
  const auto bytes = [&](const data::Dataset& data, data::LoaderOptions options) {
    if (!request.on_host) options.held = ReplicaParts::kHeldMicroBatches;
    return data::Loader::memory_bytes(data, options);
  };
  std::size_t sum = bytes(*request.data.train, training_loader(request.options, batch)) +
                    data::Sampler::memory_bytes(request.data.train->size());
  if (request.data.validation && request.options.eval_every != 0)
    sum += bytes(*request.data.validation, evaluation_loader(request.options, batch));
  return sum;
}

void count_parameters(const Graph& graph, const TrainOptions& options, MemoryPlan& plan) {
  plan.groups =
      group_uses(graph.parameters(),
                 parameter_rates(graph.parameters(), options.optimizer, rules_of(options)),
                 options.groups);
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.kind != ParameterKind::trained) continue;
    plan.parameters += parameter.shape.elems();
    if (parameter.frozen) plan.frozen += parameter.shape.elems();
  }
}

/// For snapshots in the memory of several hosts.
std::size_t host_copy_bytes(const PlanRequest& request, const SavedArrays& saved, int rank) {
  const int on_host = request.ranks_per_host;
  if (on_host == 0 || request.ranks <= on_host) return 0;
  const int first = rank - rank % on_host;
  return MemorySnapshots::copy_bytes(saved, std::min(on_host, request.ranks - first), rank - first);
}

/// What this process holds now, of which nothing is planned.
std::optional<std::uint64_t> context_bytes(const Backend& device, bool on_host) {
  if (on_host) return resident_memory().total();
  const DeviceMemory memory = device.memory();
  if (!memory.free || !memory.free_at_start || *memory.free > *memory.free_at_start)
    return std::nullopt;  // or others have gone meanwhile
  return *memory.free_at_start - *memory.free;
}

std::vector<StepMemory> step_memory(const Program& program) {
  const std::vector<Node>& nodes = program.graph().nodes();
  const std::vector<std::size_t> live = live_bytes(program.plan().buffers);
  std::vector<StepMemory> steps;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    steps.push_back({fmt::format("{} {}", nodes[n].path, name_of(nodes[n].op->kind())),
                     n < live.size() ? live[n] : 0});
  return steps;
}

/// As `request`, for another micro-batch and without a limit.
TrainOptions with_micro_batch(const PlanRequest& request, std::int64_t micro_batch) {
  TrainOptions options = request.options;
  options.micro_batch = micro_batch;
  options.accumulation = 0;
  options.memory_limit = 0;
  return options;
}

/// Products of sizes stay far from overflow.
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 24;
constexpr std::int64_t kMaxSamplesInTable = 4096;

/// With which every rank has a micro-batch: ceil(global / micro) >= ranks.
std::int64_t most_samples(const PlanRequest& request) {
  const std::int64_t global = request.options.global_batch;
  const std::int64_t most = request.ranks == 1 ? global : (global - 1) / (request.ranks - 1);
  return std::clamp<std::int64_t>(most, 1, kMaxSamples);
}

/// Of short last micro-batches.
std::vector<std::int64_t> sizes_beside(const data::DataSplit& data, const BatchPlan& batch) {
  return tail_sizes(batch, data.train->size(), data.validation ? data.validation->size() : 0);
}

MicroBatchMemory memory_with(const PlanRequest& request,
                             const BatchPlan& batch,
                             Recompute recompute) {
  TrainOptions options = with_micro_batch(request, batch.micro_batch);
  options.recompute = recompute;
  MicroBatchSizes& whole = request.sizes->of(options, batch, batch.micro_batch);
  const std::size_t choice = recompute == Recompute::none ? 0 : index_of_all(whole.choices());
  std::vector<ProgramSize> programs;
  std::size_t arena = kArenaAlignment;
  for (const std::int64_t samples : distinct_sizes(batch, sizes_beside(request.data, batch))) {
    MicroBatchSizes& sizes = request.sizes->of(options, batch, samples);
    programs.push_back(
        sizes.training(choice == 0 ? 0 : std::min(choice, sizes.choices().size() - 1)));
    if (sizes.evaluation()) programs.push_back(*sizes.evaluation());
  }
  if (const auto size = whole.orthogonalization(options)) programs.push_back(*size);
  for (const ProgramSize& program : programs) arena = std::max(arena, program.arena_bytes);
  return {arena, whole.training_bytes(programs, options, whole.beside(options, batch))};
}

/// ProgramSizes::least_bytes() by micro-batch, each computed once.
class BytesByMicroBatch {
 public:
  explicit BytesByMicroBatch(const PlanRequest& request) : request_(request) {}

  /// `micro_batch` need not be one that the batch can be planned with: a neighbour may be.
  std::size_t operator()(std::int64_t micro_batch) {
    const auto [position, is_new] = known_.try_emplace(micro_batch, 0);
    if (!is_new) return position->second;
    TrainOptions options = with_micro_batch(request_, micro_batch);
    std::optional<BatchPlan> batch = batch_with(request_, micro_batch);
    if (!batch) {
      options.batch_norm = {};
      options.shards = 0;
      batch = plan_batch(options, request_.ranks);
    }
    return position->second = request_.sizes->least_bytes(options, *batch);
  }

 private:
  const PlanRequest& request_;
  std::map<std::int64_t, std::size_t> known_;
};

/// What training reserves on its device within the limit, with every program that it compiles;
/// nothing: it does not train so.
std::optional<std::uint64_t> bytes_within(const PlanRequest& request,
                                          std::int64_t micro_batch,
                                          std::uint64_t limit) {
  PlanRequest limited = request;
  limited.options = with_micro_batch(request, micro_batch);
  limited.options.memory_limit = limit;
  const auto plan = try_plan_memory(request.sizes->device(), limited);
  if (!plan) return std::nullopt;
  return plan->table.on_device();
}

MemoryPlan plan_memory_of(Backend& device,
                          const PlanRequest& request,
                          const BatchPlan& batch,
                          int rank) {
  const TrainOptions& options = request.options;
  MemoryPlan plan;
  plan.batch = batch;
  const data::DataSplit data = training_data(request.data, options);
  const CompiledPrograms programs(device,
                                  request.model,
                                  request.loss,
                                  samples_of(data),
                                  options,
                                  batch,
                                  sizes_beside(data, batch));
  const std::optional<std::uint64_t> context = context_bytes(device, request.on_host);

  DryBackend nothing(device.traits());
  DryCommunicator nobody(rank, request.ranks);
  const ProgramBuffers buffers(nothing, programs);
  PackedCopies packed(programs.space());
  request_packed_copies(nothing, programs, packed);
  ReplicaParts parts(nothing,
                     nobody,
                     programs.graph(),
                     programs.space(),
                     buffers.parameters->as<float>(),
                     buffers.gradients->as<float>(),
                     programs.gradients(),
                     packed.rounded(),
                     options,
                     batch,
                     buffers.upload.get());

  plan.table = tabulate(programs, buffers, packed, parts);
  plan.table[MemoryCategory::context] = context;
  plan.table[MemoryCategory::loader] = loader_bytes(request, batch);
  plan.table[MemoryCategory::image_decoding] = decoding_bytes(request.data, request.options, batch);
  const SavedArrays saved = saved_arrays(
      nothing, programs.graph(), programs.space(), buffers.parameters->as<float>(), parts);
  plan.table[MemoryCategory::snapshot] = Checkpointing::memory_bytes(saved, request.ranks, rank) +
                                         host_copy_bytes(request, saved, rank);
  plan.state_bytes = copied_bytes(saved, {.offset = 0, .elems = saved.space.elems});
  plan.layers = by_layer(programs, plan.table, packed, options.optimizer);
  count_parameters(programs.graph(), options, plan);
  count_hidden_matrices(
      programs, parts.matrices ? rank : 0, parts.matrices ? batch.ranks : 1, plan);
  plan.other_image_sizes = image_size_uses(programs, *data.train);
  plan.steps = step_memory(programs.whole());
  plan.first_backward_step = std::size_t(programs.whole().plan().first_backward_node);
  plan.limited_bytes = plan.table.on_device();
  for (const auto category : {MemoryCategory::parameters,
                              MemoryCategory::gradients,
                              MemoryCategory::optimizer_state,
                              MemoryCategory::weight_average})
    plan.fixed_bytes += *plan.table[category];
  plan.arena_lower_bound = arena_lower_bound(programs.largest().plan().buffers);
  plan.flops_per_step = flops_per_step(programs, batch, parts.matrices != nullptr);
  plan.buckets = programs.space().buckets;
  plan.gradient_window_bytes = std::uint64_t(programs.gradients().window_elems()) * sizeof(float);
  plan.why_whole_gradients = programs.gradients().why_whole();
  plan.exchange_bytes_per_step =
      exchange_bytes(parts, batch, buffers.parameters->as<float>(), rank);
  return plan;
}

}  // namespace

std::optional<BatchPlan> batch_with(const PlanRequest& request, std::int64_t micro_batch) {
  return try_plan_batch(with_micro_batch(request, micro_batch), request.ranks);
}

PlanRequest with_sizes(Backend& device, PlanRequest request) {
  if (!request.sizes)
    request.sizes = std::make_shared<ProgramSizes>(
        device, request.model, request.loss, samples_of(request.data));
  return request;
}

MemoryPlan plan_memory(Backend& device, const PlanRequest& request, int rank) {
  return plan_memory_of(device, request, plan_batch(request.options, request.ranks), rank);
}

std::optional<MemoryPlan> try_plan_memory(Backend& device, const PlanRequest& request) {
  const auto batch = try_plan_batch(request.options, request.ranks);
  if (!batch || batch->micro_batches > kMaxMicroBatches) return std::nullopt;
  try {
    return plan_memory_of(device, request, *batch, 0);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

std::vector<MicroBatchRow> micro_batch_table(Backend& device, const PlanRequest& asked) {
  const PlanRequest request = with_sizes(device, asked);
  const std::int64_t most = std::min(most_samples(request), kMaxSamplesInTable);
  std::vector<MicroBatchRow> rows;
  for (std::int64_t micro = 1;; micro = std::min(2 * micro, most)) {
    if (const auto batch = batch_with(request, micro))
      rows.push_back({micro,
                      memory_with(request, *batch, Recompute::none),
                      memory_with(request, *batch, Recompute::all)});
    if (micro == most) return rows;
  }
}

LargestMicroBatch largest_micro_batch(Backend& device,
                                      const PlanRequest& asked,
                                      std::uint64_t limit) {
  const PlanRequest request = with_sizes(device, asked);
  const std::int64_t most = most_samples(request);
  BytesByMicroBatch bytes(request);
  LargestMicroBatch largest{.micro_batch =
                                largest_within(std::ref(bytes), request.options, most, limit)};
  while (largest.micro_batch > 0) {
    if (const auto needed = bytes_within(request, largest.micro_batch, limit)) {
      largest.bytes = *needed;
      break;
    }
    // Large sizes differ little.
    largest.micro_batch -= std::max<std::int64_t>(1, largest.micro_batch / 64);
  }
  if (largest.micro_batch == 0) largest.bytes = bytes(1);
  largest.limited = largest.micro_batch < most;
  return largest;
}

}  // namespace lockstep
