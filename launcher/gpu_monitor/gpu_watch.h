// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/exec/communicator.h"
#include "lockstep/gpu_use.h"
#include "lockstep/train_options.h"

namespace lockstep {

class Nvml;

/// A thread that looks at this rank's GPU through NVML once a second while the training continues.
/// Opening the library, starting it and every question happen on that thread: whatever they take,
/// training never waits for them. What cannot be had is said in GpuUse::not_watched; nothing
/// throws.
class GpuWatch {
 public:
  struct Settings {
    std::string device = {};  ///< address on the PCI bus
    /// Of libnvidia-ml.so.1; empty: where the dynamic linker looks.
    std::string library_folder = {};
    std::chrono::milliseconds period{1000};
    int stale_periods = 3;  ///< as old as so many, a sample is no longer the newest
    std::chrono::milliseconds max_wait{500};  ///< of stop(), where the driver hangs
  };

  explicit GpuWatch(const Settings& settings);
  /// stop()
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// Watches a run with `options` from its first step to its end, and puts what it sees into its
  /// records: StepRecord::gpu, and TrainSummary::gpus of all ranks (not where a signal stops it).
  /// Takes the place of their complete_step and complete_summary. To be done on every rank; the
  /// watch and `communicator` must outlive the run.
  void follow(TrainOptions& options, Communicator& communicator);

  /// The first step begins. The first sample comes a period later, so that it is of training alone.
  /// Waits for nothing.
  void begin();
  /// The newest sample; nothing before the first, and where stale_periods have brought none. Waits
  /// for nothing and allocates nothing. One thread at a time.
  std::optional<GpuSample> newest();
  /// Ends the sampling and says what it came to, with the answer that is under way; later calls say
  /// the same. Where the driver does not answer within max_wait the thread is left to itself, and
  /// changes nothing any more.
  GpuUse stop();

 private:
  struct State;
  static void watch(State& state, const Nvml& nvml);

  std::shared_ptr<State> state_;  // also the thread's, which may outlive this
  std::thread thread_;
  std::optional<GpuSample> newest_;
};

/// `own` of every rank, in rank order. Collective.
std::vector<GpuUse> gather_gpu_use(Communicator& communicator, const GpuUse& own);

}  // namespace lockstep
