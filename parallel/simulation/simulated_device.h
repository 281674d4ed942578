// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/exec/dry_backend.h"
#include "core/exec/position.h"
#include "parallel/simulation/cluster.h"

namespace lockstep::simulation {

/// The device of one simulated rank: no memory and no arithmetic, but a time for each stream. What
/// is asked of a stream begins when the host asks and what the stream had before is done, and takes
/// what was measured (DeviceModel::times) or the least that DeviceModel::peaks allow
/// (min_seconds()); an event is the time of a stream. Where the cluster traces sums, what the
/// functions would add is traced.
class SimulatedDevice final : public DryBackend {
 public:
  SimulatedDevice(Cluster& cluster, int rank, const Position& position);
  ~SimulatedDevice() override;

  std::string device_class() const override { return "simulated"; }
  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override;
  bool is_host_memory(const void* memory) const override;
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;

  void synchronize() override;
  void copy_to_device(void* device, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void start_copy_to_host(void* host, const void* device, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void set_zero(void* memory, std::size_t bytes) override;

  std::unique_ptr<DeviceEvent> make_event() override;
  std::unique_ptr<DeviceEvent> make_timed_event() override;
  void record(DeviceEvent& event) override;
  void wait_for(const DeviceEvent& event) override;
  DeviceStream use_stream(DeviceStream stream) override;

  void add(float* out, const float* a, const float* b, std::int64_t elems) override;
  void sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems) override;
  void optimizer_update(const OptimizerUpdate& update, std::span<const FlatRange> ranges) override;
  void hash(const float* values, std::span<const HashRange> ranges, std::uint64_t* result) override;

  /// When the stream in use has done what was asked of it, as seen by whoever asks now.
  double stream_time() const;
  void set_stream_time(double time);
  DeviceStream stream() const { return stream_; }
  /// Work of `seconds` on `stream`, which the host hands over. `name` is for images.
  void work(DeviceStream stream, double seconds, const char* name);
  bool is_updating() const { return position_.read().phase == Phase::optimizer; }
  /// A kernel of a program.
  void run_kernel(double seconds, const RunState& state);
  /// The host asks once whether something is there. Whoever does nothing else asks the more rarely
  /// the longer it has waited, so that what comes is seen at most kPollShare of the wait late.
  void poll();
  /// Since its last work the host has done nothing for longer than it takes to ask once.
  bool has_waited() const;
  /// Since the start, waited for what other ranks send.
  double exposed() const { return exposed_; }
  void add_exposed(double seconds) { exposed_ += seconds; }

 private:
  double& time_of(DeviceStream stream) { return streams_[std::size_t(stream)]; }
  void move_bytes(double bytes, const char* name) {
    work(stream_, bytes / model_.peaks.bytes, name);
  }

  double sum_bytes_per_s() const {
    return model_.times && model_.times->sum_bytes_per_s > 0 ? model_.times->sum_bytes_per_s
                                                             : model_.peaks.bytes;
  }

  Cluster& cluster_;
  const int rank_;
  const Position& position_;
  const DeviceModel& model_;
  std::array<double, 5> streams_{};
  DeviceStream stream_ = DeviceStream::compute;
  void begin_step(std::uint64_t step);

  static constexpr double kPoll = 2e-7, kPollShare = 0.02;
  double worked_until_ = 0;  // of the host
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t step_ = kNone;  // of `factor_`
  double factor_ = 1;
  std::uint64_t micro_batch_ = kNone;  // its first sample
  std::uint64_t updated_step_ = kNone;
  double exposed_ = 0;
};

}  // namespace lockstep::simulation
