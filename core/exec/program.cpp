// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/exec/roofline.h"
#include "core/plan/order.h"
#include "core/profile/kernel_times.h"

namespace lockstep {
namespace {

KernelSpec spec_of(const Graph& graph, const Node& node) {
  KernelSpec spec{
      *node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.path, {}, {}};
  for (ValueId input : node.inputs) {
    const ValueInfo& info = graph.value(input);
    spec.input_parameter.push_back(info.role == ValueRole::parameter ? info.index : -1);
  }
  for (ValueId output : node.outputs)
    spec.output_accumulates.push_back(graph.value(output).accumulates_into >= 0);
  return spec;
}

/// Fills one dead buffer with NaN: whoever still reads it shows.
class PoisonKernel final : public Kernel {
 public:
  PoisonKernel(Backend& backend, std::byte* target, std::size_t bytes)
      : backend_(backend), target_(target), nan_(bytes, std::byte{0xff}) {}
  void bind(const KernelBuffers&) override {}
  void run(const RunState&) override { backend_.copy_to_device(target_, nan_.data(), nan_.size()); }

 private:
  Backend& backend_;
  std::byte* target_;
  std::vector<std::byte> nan_;
};

}  // namespace

Program::Program(
    Graph graph, Backend& backend, const FlatSpace& space, MemoryReuse reuse, NodeOrder order)
    : graph_(std::move(graph)), backend_(backend), space_(space), reuse_(reuse) {
  std::vector<std::size_t> workspace;
  for (const Node& node : graph_.nodes()) {
    kernels_.push_back(node.op->is_view() ? nullptr : backend.make_kernel(spec_of(graph_, node)));
    workspace.push_back(kernels_.back() ? kernels_.back()->workspace_bytes() : 0);
  }
  plan_ = plan_program(graph_, space, workspace, reuse);
  if (reuse != MemoryReuse::off && order == NodeOrder::for_memory) save_memory(workspace);
}

void Program::save_memory(const std::vector<std::size_t>& workspace_as_given) {
  const std::vector<NodeId> order = order_for_memory(graph_, workspace_as_given);
  if (std::ranges::is_sorted(order)) return;
  Graph graph = in_order(graph_, order);
  std::vector<std::size_t> workspace;
  for (NodeId node : order) workspace.push_back(workspace_as_given[std::size_t(node)]);
  ProgramPlan plan = plan_program(graph, space_, workspace, reuse_);
  const double least = (1 - kMinSaving) * double(plan_.arena.bytes);
  if (double(plan.arena.bytes) > least) return;
  graph.add_note(fmt::format(
      "order: an arena of {} bytes instead of {}", plan.arena.bytes, plan_.arena.bytes));
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (NodeId node : order) kernels.push_back(std::move(kernels_[std::size_t(node)]));
  kernels_ = std::move(kernels);
  given_numbers_ = order;
  graph_ = std::move(graph);
  plan_ = std::move(plan);
}

std::vector<std::size_t> input_offsets(const Graph& graph) {
  std::vector<std::size_t> offsets{0};
  for (std::size_t i = 0; i < graph.input_names().size(); ++i)
    offsets.push_back(offsets.back() +
                      aligned_in_arena(graph.value(graph.input_value(int(i))).type.bytes()));
  return offsets;
}

void Program::add_step(int node, const ProgramMemory& memory, Backend& backend) {
  auto& steps = (node >= plan_.first_backward_node ? backward_ : forward_).apart;
  if (Kernel* kernel = kernels_[std::size_t(node)].get()) steps.push_back({kernel, node});
  if (reuse_ != MemoryReuse::poison) return;
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    const BufferLifetime& buffer = plan_.buffers[b];
    if (buffer.last != node || buffer.bytes == 0) continue;
    poison_.push_back(
        std::make_unique<PoisonKernel>(backend, address_of_buffer(int(b), memory), buffer.bytes));
    steps.push_back({poison_.back().get(), -1});
  }
}

void* Program::address_of(ValueId value, const ProgramMemory& memory) const {
  const ValueInfo& info = graph_.value(value);
  if (info.role == ValueRole::parameter) return memory.parameters + space_.of(info.index).offset;
  if (info.accumulates_into >= 0) {
    const Segment& segment = space_.of(info.accumulates_into);
    return memory.gradients +
           (memory.places == nullptr ? segment.offset : memory.places->place_of(segment));
  }
  const int buffer = plan_.buffer_of_value[std::size_t(value)];
  return address_of_buffer(buffer, memory);
}

std::byte* Program::address_of_buffer(int buffer, const ProgramMemory& memory) const {
  if (memory.inputs != nullptr) {
    const std::vector<std::size_t> offsets = input_offsets(graph_);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      if (plan_.buffer_of_value[std::size_t(graph_.input_value(int(i)))] == buffer)
        return memory.inputs + offsets[i];
  }
  return memory.arena + plan_.arena.offsets[std::size_t(buffer)];
}

KernelBuffers Program::buffers_of(int index, const ProgramMemory& memory) const {
  const Node& node = graph_.nodes()[std::size_t(index)];
  KernelBuffers buffers;
  for (ValueId input : node.inputs) buffers.inputs.push_back(address_of(input, memory));
  for (ValueId output : node.outputs) buffers.outputs.push_back(address_of(output, memory));
  if (const int workspace = plan_.workspace_of_node[std::size_t(index)]; workspace >= 0)
    buffers.workspace = memory.arena + plan_.arena.offsets[std::size_t(workspace)];
  return buffers;
}

void Program::bind(const ProgramMemory& memory, Backend& backend, PackedCopies& packed) {
  copies_ = &packed;
  memory_ = memory;
  reuses_before_.assign(kernels_.size(), {});
  if (memory.places != nullptr) reuses_before_ = memory.places->reuses_before(graph_, space_);
  for (int i = 0; i < int(kernels_.size()); ++i) {
    add_step(i, memory, backend);
    Kernel* kernel = kernels_[std::size_t(i)].get();
    if (kernel == nullptr) continue;
    KernelBuffers buffers = buffers_of(i, memory);
    const std::vector<PackedCopy> wanted = kernel->packed_copies();
    std::vector<int> numbers;
    for (const PackedCopy& copy : wanted) {
      const ValueId input = graph_.nodes()[std::size_t(i)].inputs[std::size_t(copy.input)];
      numbers.push_back(packed.request(backend, graph_.value(input).index, copy));
      buffers.packed.push_back(packed.data(numbers.back()));
    }
    kernel->bind(buffers);
    for (std::size_t c = 0; c < numbers.size(); ++c)
      packed.offer_packer(numbers[c], *kernel, int(c));
    packed_.insert(packed_.end(), numbers.begin(), numbers.end());
  }
  for (std::size_t i = 0; i < graph_.input_names().size(); ++i)
    inputs_.emplace_back(graph_.input_names()[i], address_of(graph_.input_value(int(i)), memory));
  for (const auto& [name, value] : graph_.outputs())
    outputs_.emplace_back(name, address_of(value, memory));
  ranges_ = backend.ranges();
  if (ranges_ != nullptr) declare_ranges();
  join_kernels(backend);
}

void Program::join_kernels(Backend& backend) {
  std::vector<Step> all = forward_.apart;
  all.insert(all.end(), backward_.apart.begin(), backward_.apart.end());
  std::vector<Kernel*> kernels;
  for (const Step& step : all) kernels.push_back(step.kernel);
  joined_backward_ = plan_.first_backward_node;
  for (std::size_t i = 0; i < all.size();) {
    Step step = all[i];
    const bool begins_in_forward = i < forward_.apart.size();
    std::size_t end = i + 1;  // a step waits between kernels, not within one
    while (end < all.size() && reuses_before(all[end]).empty()) ++end;
    JoinedKernels joined = backend.join(std::span(kernels).subspan(i, end - i));
    i += joined.kernel ? joined.count : 1;
    if (joined.kernel) {
      step.kernel = joined.kernel.get();
      step.node = all[i - 1].node;
      joined_.push_back(std::move(joined.kernel));
    }
    const bool ends_in_forward = i <= forward_.apart.size();
    if (begins_in_forward && !ends_in_forward) joined_backward_ = step.first_node;
    (ends_in_forward ? forward_ : backward_).joined.push_back(step);
  }
}

void Program::declare_ranges() {
  packing_range_ = ranges_->declare("pack_weights");
  for (Steps* steps : {&forward_, &backward_})
    for (Step& step : steps->apart) {
      step.range = packing_range_;
      if (step.node < 0) continue;
      const Node& node = graph_.nodes()[std::size_t(step.node)];
      step.range = ranges_->declare(fmt::format("{} {}", node.path, name_of(node.op->kind())));
    }
  resolve_watchdog();
}

std::vector<std::pair<int, PackedCopy>> Program::packed_copies() const {
  std::vector<std::pair<int, PackedCopy>> copies;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (kernels_[i] == nullptr) continue;
    for (const PackedCopy& copy : kernels_[i]->packed_copies())
      copies.emplace_back(graph_.value(graph_.nodes()[i].inputs[std::size_t(copy.input)]).index,
                          copy);
  }
  return copies;
}

void* Program::input(std::string_view name) const {
  for (const auto& [input, address] : inputs_)
    if (input == name) return address;
  return nullptr;
}

void Program::profile(Profiler* profiler) {
  profiler_ = profiler;
  resolve_watchdog();
  if (profiler == nullptr) return;
  packing_work_ = profiler->declare({.name = "pack_weights", .path = "", .cost = {}});
  for (Steps* steps : {&forward_, &backward_})
    for (Step& step : steps->apart) {
      if (step.node < 0) {
        step.work = packing_work_;
        continue;
      }
      const Node& node = graph_.nodes()[std::size_t(step.node)];
      const auto inputs = graph_.types_of(node.inputs), outputs = graph_.types_of(node.outputs);
      step.work = profiler->declare({.name = std::string(name_of(node.op->kind())),
                                     .path = node.path,
                                     .kernel = kernel_name(*node.op, inputs, outputs),
                                     .bf16 = computes_in_bf16(inputs),
                                     .cost = node.op->cost(inputs, outputs)});
    }
}

const void* Program::output(std::string_view name) const {
  for (const auto& [output, address] : outputs_)
    if (output == name) return address;
  return nullptr;
}

void Program::run_watched(const Step& step, const RunState& state, bool behind_a_step) {
  try {
    const RangeScope range(ranges_, step.range);
    // Looking after the node before took time outside of any operator.
    const bool goes_on = behind_a_step && report_ == nullptr && poisoned_node_ < 0;
    using Begin = ProfileScope::Begin;
    const ProfileScope scope(profiler_, step.work, goes_on ? Begin::at_last_end : Begin::now);
    step.kernel->run(state);
    wait_if_watched();
  } catch (const Error& error) {
    if (!names_faults_) throw;
    const std::string name =
        step.node < 0 ? "filling of dead memory"
                      : fmt::format("{} {}",
                                    name_of(graph_.nodes()[std::size_t(step.node)].op->kind()),
                                    graph_.nodes()[std::size_t(step.node)].path);
    throw Error(fmt::format("{}: {}", name, as_written(error.what())),
                as_written(error.hint()),
                error.exit_code());
  }
  if (step.node >= 0) look_after(step.node);
}

void Program::run_forward(const RunState& state) {
  run({.work = StepWork::forward, .end = int(current(forward_).size())}, state);
}

void Program::run_backward(const RunState& state) {
  run({.work = StepWork::backward, .end = int(current(backward_).size())}, state);
}

bool Program::refresh_copies() {
  if (names_faults_) backend_.synchronize();  // what came before is not the fault of a kernel
  if (!copies_->has_stale(packed_)) return false;
  const RangeScope range(ranges_, packing_range_);
  const ProfileScope scope(profiler_, packing_work_);
  copies_->refresh(packed_);
  wait_if_watched();
  return true;
}

void Program::run(const StepPart& part,
                  const RunState& state,
                  const std::function<void()>& between) {
  const bool is_backward = part.work == StepWork::backward;
  bool behind_a_step = is_backward && part.first == 0 && !between;
  if (is_backward) {
    LOCKSTEP_ASSERT(watched_ == forward_watched_);  // or joined work is done twice, or not at all
  } else {
    forward_watched_ = watched_;
    behind_a_step = part.first == 0 && refresh_copies();
  }
  const std::vector<Step>& steps = current(is_backward ? backward_ : forward_);
  for (int i = part.first; i < part.end; ++i) {
    run(steps[std::size_t(i)], state, behind_a_step);
    behind_a_step = !between;
    if (between) between();
  }
}

void Program::append_parts(bool tells_buckets, bool gathers_on_host, StepPlan& plan) const {
  for (const StepWork pass : {StepWork::forward, StepWork::backward}) {
    const bool is_backward = pass == StepWork::backward, tells = tells_buckets && is_backward;
    if (tells) append_buckets(0, watched_ ? plan_.first_backward_node : joined_backward_, plan);
    const std::vector<Step>& steps = current(is_backward ? backward_ : forward_);
    StepPart part{.work = pass};
    const auto end_at = [&](std::size_t step) {
      part.end = int(step);
      if (part.first < part.end) plan.push_back(part);
      part.first = part.end;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (tells && !reuses_before(step).empty()) {
        end_at(i);
        for (int reuse : reuses_before(step))
          plan.push_back({.work = StepWork::reuse_gradients, .first = reuse});
      }
      if (gathers_on_host && gathers(step)) {
        end_at(i);
        part.on_host = true;
        end_at(i + 1);
        part.on_host = false;
      }
      if (!tells || step.node < 0 || !completes(step)) continue;
      end_at(i + 1);
      // Fused small kernels end before an exchange would need a chance to move.
      append_buckets(step.first_node, step.node + 1, plan);
    }
    end_at(steps.size());
    // All of forward may be joined with backward; copies are made fresh before.
    if (!is_backward && steps.empty()) plan.push_back(part);
  }
}

StepPart Program::forward_part(NodeId first, NodeId end) const {
  const std::vector<Step>& steps = current(forward_);
  const auto from = [&](NodeId node) {
    // Steps that fill dead memory have no node, and belong to what they follow.
    const auto step = std::ranges::find_if(steps, [&](const Step& s) { return s.node >= node; });
    LOCKSTEP_ASSERT(step == steps.end() || step->first_node >= node);
    return int(step - steps.begin());
  };
  return {.work = StepWork::forward, .first = from(first), .end = from(end)};
}

bool Program::gathers(const Step& step) const {
  for (int node = step.first_node; node >= 0 && node <= step.node; ++node)
    if (graph_.nodes()[std::size_t(node)].op->kind() == OpKind::all_gather) return true;
  return false;
}

bool Program::completes(const Step& step) const {
  for (int node = step.first_node; node <= step.node; ++node)
    if (!plan_.buckets_after_node[std::size_t(node)].empty()) return true;
  return false;
}

const std::vector<int>& Program::reuses_before(const Step& step) const {
  static const std::vector<int> kNone;
  return step.node < 0 ? kNone : reuses_before_[std::size_t(step.first_node)];
}

void Program::append_buckets(int first_node, int end_node, StepPlan& plan) const {
  for (int node = first_node; node < end_node; ++node)
    for (int bucket : plan_.buckets_after_node[std::size_t(node)])
      plan.push_back({.work = StepWork::start_bucket, .first = bucket});
}

}  // namespace lockstep
