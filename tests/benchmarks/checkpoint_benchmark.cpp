// SPDX-License-Identifier: Apache-2.0
// Seconds, stall and memory of saving a gpt with AdamW's state, by all ranks or by rank 0 alone;
// checkpoint_writers.py runs it:
//   mpirun -np 4 build/release/tests/benchmarks/checkpoint_benchmark FOLDER all|one SAVES
//          [LAYERS WIDTH VOCABULARY]
// Nothing is trained, and the three flat arrays share one memory, so that a model of 355 million
// parameters fits into that of a small machine. Prints one line of JSON on rank 0; bytes and peaks
// are by rank.
#include <cstdio>
#include <cstdlib>
#include <fmt/ranges.h>
#include <string>
#include <vector>

#include "core/exec/gather_records.h"
#include "core/host/process_memory.h"
#include "core/nn/trace.h"
#include "core/plan/flat_space.h"
#include "lockstep/zoo.h"
#include "parallel/comm/mpi_communicator.h"
#include "parallel/training/checkpointing.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

constexpr std::int64_t kContext = 64;

Graph gpt(int layers, int width, int vocabulary) {
  data::SampleSpec samples;
  samples.input = {Shape{kContext}, DType::i32};
  samples.target = {Shape{kContext}, DType::i32};
  samples.classes = vocabulary;
  return trace(nn::make_model({.name = "gpt",
                               .outputs = vocabulary,
                               .layers = layers,
                               .heads = width / 64,
                               .width = width,
                               .context = kContext}),
               softmax_cross_entropy,
               samples,
               {.micro_batch = 1});
}

class Records final : public TrainObserver {
 public:
  void on_checkpoint(const CheckpointRecord& record) override {
    if (!record.error.empty()) std::fprintf(stderr, "error: %s\n", record.error.c_str());
    seconds.push_back(record.seconds);
    stall_ms.push_back(record.stall_ms);
    failed |= !record.error.empty();
  }
  std::vector<double> seconds, stall_ms;
  bool failed = false;
};

bool measure(
    Communicator& world, const std::string& folder, bool all_write, int saves, const Graph& graph) {
  testing::NullBackend backend;
  const FlatSpace space = lay_out(graph, 25 << 20, {.ranks = world.size()});
  std::vector<float> values(std::size_t(space.elems), 0.25f);
  const SavedArrays saved{
      backend,
      graph,
      space,
      {{"", values.data()}, {"exp_avg", values.data()}, {"exp_avg_sq", values.data()}}};
  // A rank that has no folder writes nothing.
  const bool has_folder = all_write || world.rank() == 0;
  Records records;
  Checkpointing saving(world,
                       {.folder = has_folder ? folder : std::string(), .every_steps = 1, .keep = 1},
                       saved,
                       {},
                       {&records});
  for (std::int64_t step = 1; step <= saves; ++step) {
    world.barrier();
    (void)saving.save_now(step, [step] {
      io::CheckpointState state;
      state.step = step;
      return state;
    });
  }
  const auto snapshots = gather_records(world, std::uint64_t(saving.memory_bytes()));
  const auto peaks = gather_records(world, std::uint64_t(peak_resident_bytes()));
  std::int64_t parameters = 0;
  for (const Parameter& parameter : graph.parameters())
    if (parameter.kind == ParameterKind::trained) parameters += parameter.shape.elems();
  if (world.rank() == 0)
    fmt::print(
        "{{\"parameters\":{},\"seconds\":[{}],\"stall_ms\":[{}],\"snapshot_bytes\":[{}],"
        "\"peak_bytes\":[{}],\"array_bytes\":{}}}\n",
        parameters,
        fmt::join(records.seconds, ","),
        fmt::join(records.stall_ms, ","),
        fmt::join(snapshots, ","),
        fmt::join(peaks, ","),
        values.size() * sizeof(float));
  return !records.failed;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 4 && argc != 7) return 2;
  const auto number = [&](int i, int otherwise) {
    return argc == 7 ? std::atoi(argv[i]) : otherwise;
  };
  const MpiSession session;
  const bool good = measure(*make_mpi_communicator(session),
                            argv[1],
                            std::string(argv[2]) == "all",
                            std::atoi(argv[3]),
                            gpt(number(4, 24), number(5, 1024), number(6, 50257)));
  return good ? 0 : 1;
}
