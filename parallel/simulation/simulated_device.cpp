// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/simulated_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/exec/roofline.h"

namespace lockstep::simulation {
namespace {

/// Smaller buffers of the host hold what is written to them.
constexpr std::size_t kMaxHeld = std::size_t{64} << 10;
constexpr double kFloat = sizeof(float);

class HeldBuffer final : public DeviceBuffer {
 public:
  explicit HeldBuffer(std::size_t bytes) : memory_(bytes) {}
  std::byte* data() override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.size(); }

 private:
  std::vector<std::byte> memory_;
};

class SharedBuffer final : public DeviceBuffer {
 public:
  SharedBuffer(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class SimulatedEvent final : public DeviceEvent {
 public:
  explicit SimulatedEvent(RankScheduler& scheduler) : scheduler_(scheduler) {}
  void wait() override { scheduler_.advance_to(time); }
  bool done() override { return time <= scheduler_.now(); }
  double seconds_since(const DeviceEvent& earlier) const override {
    return time - static_cast<const SimulatedEvent&>(earlier).time;
  }
  double time = 0;

 private:
  RankScheduler& scheduler_;
};

/// What a kernel takes, and whether that was measured.
struct KernelTime {
  double seconds = 0;
  std::string name;  ///< empty: there is no table of measured ones
  bool measured = false;
};

KernelTime time_of(const DeviceModel& model, const KernelSpec& spec) {
  const double least = min_seconds(
      spec.op.cost(spec.inputs, spec.outputs), computes_in_bf16(spec.inputs), model.peaks);
  if (!model.times) return {least, {}, false};
  const std::string name = kernel_name(spec.op, spec.inputs, spec.outputs);
  const auto measured = model.times->seconds.find(name);
  if (measured == model.times->seconds.end()) return {least + model.times->kernel_s, name, false};
  return {measured->second, name, true};
}

/// One for all ranks of a cluster: they share programs, whose memory has the same addresses.
class SimulatedKernel final : public Kernel {
 public:
  SimulatedKernel(Cluster& cluster, const KernelSpec& spec)
      : cluster_(cluster), time_(time_of(cluster.options().device, spec)) {
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      if (spec.output_accumulates[i]) gradients_.push_back({i, nullptr, spec.outputs[i].elems()});
  }

  void bind(const KernelBuffers& buffers) override {
    for (Gradient& gradient : gradients_) {
      auto* const place = static_cast<const float*>(buffers.outputs[gradient.output]);
      LOCKSTEP_ASSERT(gradient.place == nullptr || gradient.place == place);
      gradient.place = place;
    }
  }

  void run(const RunState& state) override {
    SimulatedDevice& device = cluster_.device();
    device.run_kernel(time_.seconds, state);
    if (!time_.name.empty()) {
      KernelMatches& matches = cluster_.matches();
      (time_.measured ? matches.measured : matches.missing).insert(time_.name);
      time_.name.clear();
    }
    TracedMemory* const traced = cluster_.memory(cluster_.scheduler().rank());
    // Optimizers that orthogonalize write directions where gradients lay.
    if (traced == nullptr || device.is_updating()) return;
    for (const Gradient& gradient : gradients_)
      traced->write_gradient(
          gradient.place, gradient.elems, leaf(state.first_sample), state.accumulate);
  }

 private:
  struct Gradient {
    std::size_t output;
    const float* place;
    std::int64_t elems;
  };
  Cluster& cluster_;
  KernelTime time_;
  std::vector<Gradient> gradients_;
};

Span::Track track_of(DeviceStream stream) {
  if (stream == DeviceStream::communication) return Span::Track::communication;
  return stream == DeviceStream::network ? Span::Track::network : Span::Track::compute;
}

}  // namespace

SimulatedDevice::SimulatedDevice(Cluster& cluster, int rank, const Position& position)
    : DryBackend(cluster.options().device.gpu ? kGpuTraits : DeviceTraits{}),
      cluster_(cluster),
      rank_(rank),
      position_(position),
      model_(cluster.options().device) {
  cluster_.set_device(rank, this);
}

SimulatedDevice::~SimulatedDevice() { cluster_.set_device(rank_, nullptr); }

std::unique_ptr<DeviceBuffer> SimulatedDevice::allocate_host(std::size_t bytes,
                                                             const std::string&) {
  if (bytes <= kMaxHeld) return std::make_unique<HeldBuffer>(bytes);
  return std::make_unique<SharedBuffer>(cluster_.host_memory(bytes), bytes);
}

bool SimulatedDevice::is_host_memory(const void* memory) const {
  return !model_.gpu || reinterpret_cast<std::uintptr_t>(memory) < kFirstAddress;
}

std::unique_ptr<Kernel> SimulatedDevice::make_kernel(const KernelSpec& spec) {
  return std::make_unique<SimulatedKernel>(cluster_, spec);
}

double SimulatedDevice::stream_time() const {
  return std::max(streams_[std::size_t(stream_)], cluster_.scheduler().now());
}

void SimulatedDevice::set_stream_time(double time) {
  if (model_.gpu && stream_ == DeviceStream::compute)
    add_exposed(std::max(0.0, time - stream_time()));
  time_of(stream_) = time;
  if (!model_.gpu) cluster_.scheduler().advance_to(time);
}

void SimulatedDevice::work(DeviceStream stream, double seconds, const char* name) {
  RankScheduler& scheduler = cluster_.scheduler();
  scheduler.note_progress();
  scheduler.advance(model_.launch_s);
  double& time = time_of(stream);
  double begin = std::max(time, scheduler.now());
  if (model_.gpu) {
    time = begin + seconds;
  } else {
    scheduler.advance_to(begin);
    begin = cluster_.use_core(seconds);
    time = scheduler.now();
  }
  worked_until_ = scheduler.now();
  cluster_.add_span(rank_, {track_of(stream), begin, time, name});
}

void SimulatedDevice::poll() {
  RankScheduler& scheduler = cluster_.scheduler();
  const double seconds = std::max(kPoll, kPollShare * (scheduler.now() - worked_until_));
  scheduler.advance(seconds);
  if (!model_.gpu) add_exposed(seconds);
}

bool SimulatedDevice::has_waited() const {
  return cluster_.scheduler().now() - worked_until_ > 2 * kPoll;
}

void SimulatedDevice::begin_step(std::uint64_t step) {
  step_ = step;
  micro_batch_ = kNone;
  const RandomBlock words =
      philox(random_key(cluster_.options().seed, "spread of steps"), step, std::uint64_t(rank_));
  if (model_.spread > 0) {
    const double z = normal_of(words[0], words[1]);
    factor_ = std::exp(model_.spread * z - model_.spread * model_.spread / 2);
  } else if (model_.times) {
    factor_ = model_.times->factor_at(uniform01(words[0]));
  }
}

void SimulatedDevice::run_kernel(double seconds, const RunState& state) {
  if (state.step != step_) begin_step(state.step);
  if (model_.times && state.first_sample != micro_batch_) {
    micro_batch_ = state.first_sample;
    if (model_.times->micro_batch_s > 0)
      work(DeviceStream::compute, model_.times->micro_batch_s, "data");
  }
  work(DeviceStream::compute, seconds * factor_, name_of(position_.read().phase).data());
}

void SimulatedDevice::synchronize() {
  for (const double time : streams_) cluster_.scheduler().advance_to(time);
}

void SimulatedDevice::copy_to_device(void* device, const void*, std::size_t bytes) {
  work(stream_, double(bytes) / model_.copy_bytes_per_s, "copy to the device");
  if (TracedMemory* const traced = cluster_.memory(rank_))
    traced->forget(static_cast<float*>(device), std::int64_t(bytes / sizeof(float)));
}

void SimulatedDevice::start_copy_to_host(void* host, const void*, std::size_t bytes) {
  work(stream_, double(bytes) / model_.copy_bytes_per_s, "copy to the host");
  if (is_host_memory(host) && reinterpret_cast<std::uintptr_t>(host) < kFirstAddress)
    std::memset(host, 0, bytes);
}

void SimulatedDevice::copy_to_host(void* host, const void* device, std::size_t bytes) {
  start_copy_to_host(host, device, bytes);
  cluster_.scheduler().advance_to(time_of(stream_));
}

void SimulatedDevice::copy(void* to, const void* from, std::size_t bytes) {
  move_bytes(2 * double(bytes), "copy");
  if (TracedMemory* const traced = cluster_.memory(rank_)) {
    const auto stretches =
        traced->read(static_cast<const float*>(from), std::int64_t(bytes / sizeof(float)));
    traced->write(static_cast<float*>(to), stretches);
  }
}

void SimulatedDevice::set_zero(void* memory, std::size_t bytes) {
  move_bytes(double(bytes), "fill");
  if (TracedMemory* const traced = cluster_.memory(rank_))
    traced->write(static_cast<float*>(memory), std::int64_t(bytes / sizeof(float)), kZero, 0);
}

std::unique_ptr<DeviceEvent> SimulatedDevice::make_event() {
  return std::make_unique<SimulatedEvent>(cluster_.scheduler());
}

std::unique_ptr<DeviceEvent> SimulatedDevice::make_timed_event() {
  return model_.gpu ? make_event() : nullptr;
}

void SimulatedDevice::record(DeviceEvent& event) {
  static_cast<SimulatedEvent&>(event).time = stream_time();
}

void SimulatedDevice::wait_for(const DeviceEvent& event) {
  double& time = time_of(stream_);
  const double at = static_cast<const SimulatedEvent&>(event).time;
  if (stream_ == DeviceStream::compute) add_exposed(std::max(0.0, at - stream_time()));
  time = std::max(time, at);
}

DeviceStream SimulatedDevice::use_stream(DeviceStream stream) {
  return std::exchange(stream_, stream);
}

void SimulatedDevice::add(float* out, const float* a, const float* b, std::int64_t elems) {
  work(stream_, 3 * kFloat * double(elems) / sum_bytes_per_s(), "add");
  if (TracedMemory* const traced = cluster_.memory(rank_)) traced->add(out, a, b, elems);
}

void SimulatedDevice::sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems) {
  work(stream_, kFloat * double(elems) * double(terms.size() + 1) / sum_bytes_per_s(), "sum");
  if (TracedMemory* const traced = cluster_.memory(rank_)) traced->sum_tree(terms, result, elems);
}

void SimulatedDevice::optimizer_update(const OptimizerUpdate& update,
                                       std::span<const FlatRange> ranges) {
  double elems = 0;
  for (const FlatRange& range : ranges) elems += double(range.elems);
  const auto states = double(std::ranges::count_if(update.state, [](float* s) { return s; }));
  if (!model_.times || model_.times->step_s == 0) {
    move_bytes(kFloat * elems * (3 + 2 * states), "optimizer");
  } else if (update.step != updated_step_) {
    updated_step_ = update.step;
    work(stream_, model_.times->step_s, "optimizer");
  }
  if (rank_ == 0) cluster_.end_step(std::int64_t(update.step), {time_of(stream_), exposed_});
  for (const FlatRange& range : ranges)
    cluster_.check_sum(std::int64_t(update.step), update.grads + range.offset, range.elems);
}

void SimulatedDevice::hash(const float*, std::span<const HashRange> ranges, std::uint64_t* result) {
  double elems = 0;
  for (const HashRange& range : ranges) elems += double(range.elems);
  move_bytes(kFloat * elems, "hash");
  cluster_.scheduler().advance_to(time_of(stream_));
  std::ranges::fill_n(result, std::ssize(ranges), 0);
}

}  // namespace lockstep::simulation
