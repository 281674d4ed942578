// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/finite_check.h"
#include "core/exec/packed_copies.h"
#include "core/exec/position.h"
#include "core/exec/step_plan.h"
#include "core/graph/graph.h"
#include "core/plan/gradient_space.h"
#include "core/plan/program_plan.h"
#include "core/profile/profiler.h"

namespace lockstep {

/// The memory that all programs of a replica share. Owned by the replica; the flat arrays have the
/// layout of one FlatSpace.
struct ProgramMemory {
  std::byte* arena = nullptr;
  float* parameters = nullptr;
  float* gradients = nullptr;             ///< sums over micro-batches
  const GradientSpace* places = nullptr;  ///< of gradients; null: as the flat space
  std::byte* inputs = nullptr;            ///< as input_offsets() has them; null: in the arena
};

/// Where inputs lie one after the other, in the graph's order, and then where the last ends.
std::vector<std::size_t> input_offsets(const Graph& graph);

/// Whether a program may run its nodes in another order than its graph has them in.
enum class NodeOrder : std::uint8_t { for_memory, as_given };

/// A graph compiled for one device: a fixed list of kernels over fixed addresses, some of which the
/// device may join.
/// Construct all programs of a replica, allocate the largest arena, bind, then run many times.
/// run_*() allocates nothing of Lockstep's own.
class Program {
 public:
  /// Makes the kernels and plans the memory. `graph` is kept; where order_for_memory() makes the
  /// arena smaller by kMinSaving, with its nodes in that order (but not where `order` is as_given
  /// or `reuse` is off).
  Program(Graph graph,
          Backend& backend,
          const FlatSpace& space,
          MemoryReuse reuse,
          NodeOrder order = NodeOrder::for_memory);

  /// Where a tool sees the backend's ranges, each kernel's run is one: "layer1.0.conv1 conv2d".
  /// Has the backend join kernels; those that are watched run one by one.
  void bind(const ProgramMemory& memory, Backend& backend, PackedCopies& packed);

  /// From now on every kernel's run is recorded, and waited for unless the profiler traces the
  /// device; null: no longer. Each operator is declared under its name and path.
  void profile(Profiler* profiler);

  /// From now on each kernel is waited for, so that what it throws names its node; LOCKSTEP_SYNC.
  void name_faults() {
    names_faults_ = true;
    resolve_watchdog();
  }

  /// From now on the float outputs of each kernel are looked at once it has run, gradients that it
  /// accumulates included, until the first that is infinite or NaN is in `report`; then no more
  /// until report->found is false again. The program runs on all the same, since other ranks may
  /// wait in its collectives. Slow. Null: no longer. LOCKSTEP_NAN_CHECK.
  void check_finite(FiniteReport* report);

  /// Fault injection, on a bound program: from now on, after the last forward kernel at `path`
  /// that writes floats has run, the first element of its output 0 becomes NaN. Empty: no longer.
  /// False: no kernel of the forward pass has that path.
  bool poison_after(std::string_view path);

  /// From now on every kernel that was run (or, on a device, handed over) is a tick of `position`,
  /// and joined ones are one.
  void set_position(Position* position) { position_ = position; }

  /// Device memory of input `name` ("x", "target", "sample_weight"); write it before each run,
  /// since kernels reuse it. Null where the program has no such input.
  void* input(std::string_view name) const;

  /// Device memory of output `name`; holds it from the end of a run to the next. Null: no such
  /// output.
  const void* output(std::string_view name) const;

  /// Forward kernels (in evaluation programs: all), but those that are joined with backward ones
  /// and run with these. The parameters' packed copies are refreshed first where they are stale.
  void run_forward(const RunState& state);
  /// To be called after run_forward(), with the same state and watched by the same.
  void run_backward(const RunState& state);

  /// Appends the two passes as they run now, which holds until a watcher begins or ends.
  /// `tells_buckets`: backward is cut where a bucket of gradients is complete, to start it there;
  /// one that is complete in forward starts first or, where what completes it is joined with
  /// backward kernels, after these. And it is cut where gradients are written where others lay:
  /// Note [Gradient window]. `gathers_on_host`: kernels that exchange data with
  /// RunState::group are parts of their own, and the host's.
  void append_parts(bool tells_buckets, bool gathers_on_host, StepPlan& plan) const;
  /// By a profiler, ranges, names_faults(), check_finite() or poison_after(): kernels run one by
  /// one.
  bool is_watched() const { return watched_; }
  /// Of a program without views, the forward kernels of nodes [first, end) as they run now, which
  /// holds until a watcher begins or ends. No kernel that joins nodes may do others as well.
  StepPart forward_part(NodeId first, NodeId end) const;
  /// Runs a part of forward or backward; all of a pass in order, with the same state. With
  /// `between`, which is a chance to poll communication for progress, that is called after each
  /// kernel.
  void run(const StepPart& part, const RunState& state, const std::function<void()>& between = {});

  /// How many packed copies run_forward() would refresh first, and that a graph has done so.
  int stale_copies() const { return copies_->stale(packed_); }
  void mark_copies_fresh() { copies_->mark_fresh(packed_); }

  /// What kernels ask for, with the parameter each copy is derived from; one entry per request.
  std::vector<std::pair<int, PackedCopy>> packed_copies() const;
  const Graph& graph() const { return graph_; }
  const ProgramPlan& plan() const { return plan_; }
  std::size_t arena_bytes() const { return plan_.arena.bytes; }

 private:
  struct Step {
    Kernel* kernel = nullptr;
    int node = -1;          ///< the last that it does; -1 where no bucket can be complete after it
    int work = -1;          ///< the profiler's number
    int range = -1;         ///< the range marker's
    int first_node = node;  ///< the first; what lies between them are views
  };
  struct Steps {
    std::vector<Step> apart;   ///< one for each kernel
    std::vector<Step> joined;  ///< the same work
  };
  /// `behind_a_step`: which was recorded just before; what little comes in between, as a reading of
  /// the clock, counts as this one's.
  void run(const Step& step, const RunState& state, bool behind_a_step) {
    if (!watched_)
      step.kernel->run(state);
    else
      run_watched(step, state, behind_a_step);
    if (position_ != nullptr) position_->tick();
  }
  void resolve_watchdog() {
    watched_ = profiler_ != nullptr || ranges_ != nullptr || names_faults_ || report_ != nullptr ||
               poisoned_node_ >= 0;
  }
  /// Puts graph, kernels and plan in another order where that needs less memory.
  void save_memory(const std::vector<std::size_t>& workspace);
  void run_watched(const Step& step, const RunState& state, bool behind_a_step);
  void declare_ranges();
  /// Where time is taken, or faults are named, by waiting.
  void wait_if_watched() {
    if (names_faults_ || (profiler_ != nullptr && !profiler_->traces_device()))
      backend_.synchronize();
  }
  void look_after(int node);
  /// Of a node in the graph that the program was made of, which all ranks' programs share.
  NodeId given_number(int node) const {
    return given_numbers_.empty() ? node : given_numbers_[std::size_t(node)];
  }
  void add_step(int node, const ProgramMemory& memory, Backend& backend);
  void join_kernels(Backend& backend);
  /// Of nodes [first_node, end_node).
  void append_buckets(int first_node, int end_node, StepPlan& plan) const;
  bool gathers(const Step& step) const;
  bool completes(const Step& step) const;
  /// Of a step that some come before, which do.
  const std::vector<int>& reuses_before(const Step& step) const;
  /// Returns whether there were any.
  bool refresh_copies();
  /// What is to run: whoever watches wants to see each kernel.
  const std::vector<Step>& current(const Steps& steps) const {
    return watched_ ? steps.apart : steps.joined;
  }
  KernelBuffers buffers_of(int node, const ProgramMemory& memory) const;
  void* address_of(ValueId value, const ProgramMemory& memory) const;
  std::byte* address_of_buffer(int buffer, const ProgramMemory& memory) const;

  Graph graph_;
  Backend& backend_;
  const FlatSpace& space_;
  MemoryReuse reuse_;
  ProgramPlan plan_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // per node; null for views
  std::vector<NodeId> given_numbers_;             // per node; empty: in the given order
  std::vector<std::unique_ptr<Kernel>> poison_;   // where dead memory is filled with NaN
  std::vector<std::unique_ptr<Kernel>> joined_;   // kernels that do several nodes' work
  Steps forward_, backward_;
  std::vector<int> packed_;
  std::vector<std::vector<int>> reuses_before_;  // per node: GradientSpace::reuses_before()
  PackedCopies* copies_ = nullptr;
  Position* position_ = nullptr;
  ProgramMemory memory_;
  int joined_backward_ = 0;  // the first node that the joined backward steps do
  std::vector<std::pair<std::string, void*>> inputs_;
  std::vector<std::pair<std::string, const void*>> outputs_;
  Profiler* profiler_ = nullptr;
  RangeMarker* ranges_ = nullptr;
  bool names_faults_ = false;
  FiniteReport* report_ = nullptr;
  int poisoned_node_ = -1;
  bool watched_ = false;          // by any of those above
  bool forward_watched_ = false;  // when run_forward() ran
  int packing_work_ = -1, packing_range_ = -1;
};

}  // namespace lockstep
