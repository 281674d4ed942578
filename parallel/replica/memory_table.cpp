// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/memory_table.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr std::string_view kNames[kMemoryCategories] = {"parameters",
                                                        "gradients",
                                                        "optimizer_state",
                                                        "weight_average",
                                                        "pending_sums",
                                                        "packed_copies",
                                                        "teacher",
                                                        "activations",
                                                        "workspace",
                                                        "input",
                                                        "communication",
                                                        "checkpoint_snapshot",
                                                        "loader",
                                                        "image_decoding",
                                                        "context_and_libraries"};
constexpr const char* kInput = "(input)";
constexpr const char* kWindow = "(gradient window)";

enum class ArenaUse : std::uint8_t { activation, workspace, input };

/// A buffer that is alive at the arena's fullest moment.
struct LiveBuffer {
  ArenaUse use = ArenaUse::activation;
  std::uint64_t bytes = 0;
  std::string layer;
};

/// The owner of each buffer: the node that first writes it, or the input that it holds.
std::vector<LiveBuffer> owners(const Program& program) {
  const Graph& graph = program.graph();
  const ProgramPlan& plan = program.plan();
  std::vector<LiveBuffer> owners(plan.buffers.size());
  for (std::size_t b = 0; b < owners.size(); ++b) owners[b].bytes = plan.buffers[b].bytes;
  for (std::size_t v = graph.values().size(); v-- > 0;) {
    const int buffer = plan.buffer_of_value[v];
    if (buffer < 0) continue;
    const ValueInfo& info = graph.values()[v];
    LiveBuffer& owner = owners[std::size_t(buffer)];
    const bool is_input = info.role == ValueRole::input;
    owner.use = is_input ? ArenaUse::input : ArenaUse::activation;
    owner.layer = is_input ? kInput : graph.nodes()[std::size_t(info.producer)].path;
  }
  for (std::size_t n = 0; n < plan.workspace_of_node.size(); ++n) {
    const int buffer = plan.workspace_of_node[n];
    if (buffer < 0) continue;
    owners[std::size_t(buffer)].use = ArenaUse::workspace;
    owners[std::size_t(buffer)].layer = graph.nodes()[n].path;
  }
  return owners;
}

std::vector<LiveBuffer> live_at_the_fullest(const Program& program) {
  const std::vector<BufferLifetime>& buffers = program.plan().buffers;
  const int step = busiest_step(buffers);
  std::vector<LiveBuffer> all = owners(program), live;
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].first <= step && step <= buffers[b].last) live.push_back(std::move(all[b]));
  return live;
}

std::uint64_t sum_of(const std::vector<LiveBuffer>& live, ArenaUse use) {
  std::uint64_t sum = 0;
  for (const LiveBuffer& buffer : live)
    if (buffer.use == use) sum += buffer.bytes;
  return sum;
}

/// Rows by layer, in the order in which they are first asked for.
class LayerRows {
 public:
  LayerMemory& of(const std::string& layer) {
    const auto [position, is_new] = numbers_.try_emplace(layer, rows_.size());
    if (is_new) rows_.push_back({.layer = layer});
    return rows_[position->second];
  }
  std::vector<LayerMemory>& rows() { return rows_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<LayerMemory> rows_;
};

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

void add_nodes(LayerRows& rows, const Graph& graph) {
  for (const Node& node : graph.nodes()) rows.of(node.path).flops += flops_of(graph, node);
}

void add_parameters(LayerRows& rows,
                    const CompiledPrograms& programs,
                    const PackedCopies& packed,
                    const Optimizer& optimizer) {
  const auto arrays = std::uint64_t(state_arrays(optimizer));
  const Ownership ownership(programs.space(), 0);
  const bool divided = programs.gradients().divided();
  const std::vector<Parameter>& parameters = programs.graph().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto bytes = std::uint64_t(parameters[i].shape.elems()) * sizeof(float);
    LayerMemory& row = rows.of(layer_of(parameters[i].name));
    row.parameters += bytes;
    if (!divided) row.gradients += bytes;
    for (const OwnedStretch& own :
         ownership.within(programs.space().of(int(i)).offset, parameters[i].shape.elems())) {
      const std::uint64_t owned = std::uint64_t(own.elems) * sizeof(float);
      row.optimizer_state += owned * arrays;
      if (divided && !parameters[i].frozen) row.gradients += owned;
    }
    row.packed_copies += packed.bytes_of(int(i));
  }
}

void add_arena(LayerRows& rows, const Program& program) {
  for (const LiveBuffer& buffer : live_at_the_fullest(program)) {
    LayerMemory& row = rows.of(buffer.layer);
    if (buffer.use == ArenaUse::activation) row.activations += buffer.bytes;
    if (buffer.use == ArenaUse::workspace) row.workspace += buffer.bytes;
    if (buffer.use == ArenaUse::input) row.input += buffer.bytes;
  }
}

/// What no layer has: the rest of each category.
LayerMemory rest(const std::vector<LayerMemory>& rows, const MemoryTable& table) {
  const auto left = [&](MemoryCategory category, std::uint64_t LayerMemory::*column) {
    std::uint64_t sum = 0;
    for (const LayerMemory& row : rows) sum += row.*column;
    LOCKSTEP_ASSERT(sum <= table[category].value_or(0));
    return table[category].value_or(0) - sum;
  };
  LayerMemory row{.layer = "(alignment)"};
  row.parameters = left(MemoryCategory::parameters, &LayerMemory::parameters);
  row.gradients = left(MemoryCategory::gradients, &LayerMemory::gradients);
  row.optimizer_state = left(MemoryCategory::optimizer_state, &LayerMemory::optimizer_state);
  row.activations = left(MemoryCategory::activations, &LayerMemory::activations);
  return row;
}

}  // namespace

std::string_view name_of(MemoryCategory category) { return kNames[std::size_t(category)]; }

std::string words_of(MemoryCategory category) {
  if (category == MemoryCategory::partial_sums) return "partial sums";
  std::string words(name_of(category));
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::uint64_t MemoryTable::planned() const {
  return total() - (*this)[MemoryCategory::context].value_or(0);
}

std::uint64_t MemoryTable::on_device() const {
  const auto& self = *this;
  return planned() - self[MemoryCategory::snapshot].value_or(0) -
         self[MemoryCategory::loader].value_or(0) -
         self[MemoryCategory::image_decoding].value_or(0);
}

std::uint64_t MemoryTable::total() const {
  std::uint64_t sum = 0;
  for (const auto& known : bytes) sum += known.value_or(0);
  return sum;
}

double flops_of(const Graph& graph, const Node& node) {
  if (node.op->is_view()) return 0;
  return node.op->cost(graph.types_of(node.inputs), graph.types_of(node.outputs)).flops;
}

MemoryTable tabulate(const CompiledPrograms& programs,
                     const ProgramBuffers& buffers,
                     const PackedCopies& packed,
                     const ReplicaParts& parts) {
  using enum MemoryCategory;
  const std::vector<LiveBuffer> live = live_at_the_fullest(programs.largest());
  MemoryTable table;
  table.arena_bytes = buffers.arena->bytes();
  table[parameters] = buffers.parameters->bytes();
  table[gradients] = buffers.gradients->bytes();
  table[optimizer_state] = parts.optimizer.state_bytes();
  table[weight_average] = parts.average.bytes();
  table[partial_sums] = parts.partial_sum_bytes();
  table[packed_copies] = packed.bytes();
  table[teacher] = programs.teacher() ? programs.teacher()->bytes() : 0;
  table[workspace] = sum_of(live, ArenaUse::workspace);
  table[input] = sum_of(live, ArenaUse::input);
  table[activations] = table.arena_bytes - *table[workspace] - *table[input];
  table[communication] = parts.communication_bytes();
  return table;
}

std::vector<LayerMemory> by_layer(const CompiledPrograms& programs,
                                  const MemoryTable& table,
                                  const PackedCopies& packed,
                                  const Optimizer& optimizer) {
  LayerRows rows;
  add_nodes(rows, programs.graph());
  add_parameters(rows, programs, packed, optimizer);
  add_arena(rows, programs.largest());
  if (const std::int64_t window = programs.gradients().window_elems(); window > 0)
    rows.of(kWindow).gradients = std::uint64_t(window) * sizeof(float);
  rows.rows().push_back(rest(rows.rows(), table));
  return std::move(rows.rows());
}

}  // namespace lockstep
