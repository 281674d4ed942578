// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_backend.h"

#include <utility>
#include <vector>

#include "core/base/env.h"
#include "core/ops/all_ops.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_graph.h"
#include "kernels/cuda/device/dependent_launch.h"
#include "kernels/cuda/device/dependent_support.h"
#include "kernels/cuda/device/device_buffer.h"
#include "kernels/cuda/device/device_tools.h"
#include "kernels/cuda/device/free_memory.h"
#include "kernels/cuda/device/library_versions.h"
#include "kernels/cuda/device/peaks.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/optimizers/optimizer_kernels.h"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/fused_small_kernels.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using cuda::check;

cuda::Device open_device(int ordinal) {
  cuda::Device device;
  device.ordinal = ordinal;
  // Before anything that would make a context on device 0.
  check(cudaSetDevice(ordinal), fmt::format("cuda: device {}", ordinal));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cuda: device properties");
  device.name = properties.name;
  device.multiprocessors = properties.multiProcessorCount;
  check(cudaStreamCreateWithFlags(&device.compute, cudaStreamNonBlocking), "cuda: compute stream");
  return device;
}

/// The high one comes first where several streams have work.
enum class Priority : std::uint8_t { normal, high };

/// The same device, whose work goes to another stream.
cuda::Device on_a_stream_of_its_own(cuda::Device device, Priority priority) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cuda: priorities of streams");
  check(cudaStreamCreateWithPriority(
            &device.compute, cudaStreamNonBlocking, priority == Priority::high ? greatest : least),
        "cuda: stream");
  return device;
}

/// Its bus address, which parts of a divided device (MIG) have in common, and what tells those
/// apart.
std::string device_id(int ordinal) {
  char address[32] = {};
  if (cudaDeviceGetPCIBusId(address, sizeof address, ordinal) != cudaSuccess) address[0] = 0;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cuda: device properties");
  std::string id = fmt::format("{} ", address);
  for (const char byte : properties.uuid.bytes) id += fmt::format("{:02x}", std::uint8_t(byte));
  return id;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int ordinal)
      : free_at_start_(cuda::free_without_context(ordinal)),
        device_(open_device(ordinal)),
        communication_(on_a_stream_of_its_own(device_, Priority::high)),
        network_(on_a_stream_of_its_own(device_, Priority::high)),
        copies_(on_a_stream_of_its_own(device_, Priority::normal)),
        copies_out_(on_a_stream_of_its_own(device_, Priority::normal)),
        id_(device_id(ordinal)) {
    if (env().dependent_launch == "1" && cuda::has_dependent_launches(ordinal))
      cuda::set_dependent_launches(true);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() override {
    device_.algorithms->forget_built();  // on the compute stream
    cudaStreamDestroy(copies_out_.compute);
    cudaStreamDestroy(copies_.compute);
    cudaStreamDestroy(network_.compute);
    cudaStreamDestroy(communication_.compute);
    cudaStreamDestroy(device_.compute);
  }

  std::string device_class() const override {
    return fmt::format("cuda, {}, {}", device_.name, cuda::library_versions());
  }

  bool allow_tf32(bool allowed) override {
    device_.tf32 = allowed;
    return true;
  }

  bool chooses_algorithms() const override { return true; }
  std::string choices() const override { return device_.algorithms->to_text(); }
  void take_choices(const std::string& choices) override { device_.algorithms->replace(choices); }
  void time_algorithms(bool timed) override { device_.times_algorithms = timed; }
  bool times_algorithms() const override { return device_.times_algorithms; }
  std::string timing_note() const override { return device_.algorithms->timing_note(); }
  std::vector<std::string> notices() const override { return device_.algorithms->notices(); }

  DeviceTraits traits() const override { return kGpuTraits; }

  DeviceMemory memory() const override {
    select();
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return {free, total, id_, {}, {}, free_at_start_};
  }

  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override {
    select();
    return cuda::make_device_buffer(device_, bytes, what);
  }

  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override {
    select();
    return cuda::make_pinned_buffer(bytes, what);
  }

  bool is_host_memory(const void* memory) const override {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, memory), "kind of memory");
    return attributes.type != cudaMemoryTypeDevice;
  }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    switch (spec.op.kind()) {
#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem) \
  case OpKind::stem:            \
    return cuda::make_##stem##_kernel(op_cast<ops::Type>(spec.op), spec, device_);
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
      default:
        break;
    }
    throw InternalError(fmt::format("{} is a view and has no kernel", describe(spec)));
  }
  JoinedKernels join(std::span<Kernel* const> kernels) override {
    return cuda::join(device_, kernels);
  }

  DevicePeaks measure_peaks() override { return cuda::measure_peaks(device_); }

  std::unique_ptr<DeviceTracer> make_tracer() override {
    return cuda::make_tracer({{device_.compute, "compute"},
                              {communication_.compute, "communication"},
                              {network_.compute, "network"},
                              {copies_.compute, "copies"},
                              {copies_out_.compute, "copies to the host"}});
  }
  RangeMarker* ranges() override { return ranges_.get(); }

  void synchronize() override {
    check(cudaStreamSynchronize(device_.compute), "waiting for the device");
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, host), "kind of memory");
    copy(device, host, bytes, cudaMemcpyHostToDevice, *in_use_);
    // Nothing promises that pageable memory has been read when an asynchronous copy returns.
    if (attributes.type != cudaMemoryTypeHost)
      check(cudaStreamSynchronize(in_use_->compute), "waiting for a copy");
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    copy(host, device, bytes, cudaMemcpyDeviceToHost, device_);
    synchronize();
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes, cudaMemcpyDeviceToDevice, *in_use_);
  }
  void set_zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, in_use_->compute), "zeros");
  }

  std::unique_ptr<DeviceEvent> make_event() override {
    select();
    return std::make_unique<cuda::CudaEvent>(cudaEventDisableTiming);
  }
  std::unique_ptr<DeviceEvent> make_timed_event() override {
    select();
    return std::make_unique<cuda::CudaEvent>(cudaEventDefault);
  }
  void record(DeviceEvent& event) override {
    static_cast<cuda::CudaEvent&>(event).record(in_use_->compute);
  }
  void wait_for(const DeviceEvent& event) override {
    static_cast<const cuda::CudaEvent&>(event).hold_up(in_use_->compute);
  }
  DeviceStream use_stream(DeviceStream stream) override {
    in_use_ = stream == DeviceStream::compute         ? &device_
              : stream == DeviceStream::communication ? &communication_
              : stream == DeviceStream::network       ? &network_
              : stream == DeviceStream::copies        ? &copies_
                                                      : &copies_out_;
    return std::exchange(stream_in_use_, stream);
  }
  void* native_stream() override { return in_use_->compute; }

  bool captures_graphs() const override { return true; }
  void begin_capture() override { cuda::begin_capture(device_); }
  std::unique_ptr<DeviceGraph> end_capture() override { return cuda::end_capture(device_); }
  void abandon_capture() noexcept override { cuda::abandon_capture(device_); }

  void start_copy_to_host(void* host, const void* device, std::size_t bytes) override {
    copy(host, device, bytes, cudaMemcpyDeviceToHost, *in_use_);
  }

  void add(float* out, const float* a, const float* b, std::int64_t elems) override {
    cuda::add(*in_use_, out, a, b, elems);
  }
  void sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems) override {
    if (elems == 0) return;
    if (terms.size() == 1 || !cuda::sum_tree(*in_use_, terms, result, elems))
      Backend::sum_tree(terms, result, elems);
  }
  void optimizer_update(const OptimizerUpdate& update, std::span<const FlatRange> ranges) override {
    std::visit(
        [&](const auto& optimizer) { cuda::optimizer_update(*in_use_, optimizer, update, ranges); },
        update.optimizer);
  }
  void squared_norms(const float* values,
                     std::span<const FlatRange> ranges,
                     double* result) override {
    reserve_norms(ranges);
    start_squared_norms(values, ranges, norms_->as<double>());
    copy_to_host(result, norms_->data(), ranges.size() * sizeof(double));
  }
  void start_squared_norms(const float* values,
                           std::span<const FlatRange> ranges,
                           double* result) override {
    reserve_norms(ranges);
    cuda::squared_norms(
        *in_use_, values, ranges, result, norms_->data() + ranges.size() * sizeof(double));
  }
  void start_block_norms(const float* values,
                         std::span<const BlockRange> ranges,
                         double* result) override {
    cuda::block_norms(*in_use_, values, ranges, result);
  }
  void gather(const double* values,
              const std::int32_t* places,
              std::int64_t count,
              double* result) override {
    cuda::gather(*in_use_, values, places, count, result);
  }
  void add_in_order(const double* values,
                    std::span<const std::int64_t> ends,
                    double* result) override {
    cuda::add_in_order(*in_use_, values, ends, result);
  }
  void reserve_norms(std::span<const FlatRange> tensors) override {
    const std::size_t bytes =
        tensors.size() * sizeof(double) + cuda::squared_norms_workspace(tensors);
    if (!norms_ || norms_->bytes() < bytes) norms_ = allocate(bytes, "gradient norms");
  }
  void conclude_step(const StepSums& sums, StepOutcome* outcome) override {
    if (sums.norms != nullptr) return cuda::conclude_step(*in_use_, sums, sums.norms, outcome);
    if (cuda::conclude_small_step(*in_use_, sums, outcome)) return;
    reserve_norms(sums.tensors);
    start_squared_norms(sums.gradients, sums.tensors, norms_->as<double>());
    cuda::conclude_step(*in_use_, sums, norms_->as<double>(), outcome);
  }
  void clip_values(float* gradients,
                   float limit,
                   std::span<const FlatRange> ranges,
                   const StepOutcome* outcome) override {
    cuda::clip_values(*in_use_, gradients, limit, ranges, outcome);
  }
  void clip_units(const UnitClip& clip, std::span<const UnitRange> ranges) override {
    cuda::clip_units(*in_use_, clip, ranges);
  }
  void pack_weights(const float* values,
                    std::span<const WeightPiece> pieces,
                    std::uint16_t* message) override {
    cuda::pack_weights(*in_use_, values, pieces, message);
  }
  void unpack_weights(const std::uint16_t* message,
                      std::span<const WeightPiece> pieces,
                      float* values) override {
    cuda::unpack_weights(*in_use_, message, pieces, values);
  }
  void hash(const float* values,
            std::span<const HashRange> ranges,
            std::uint64_t* result) override {
    const std::size_t tiles = cuda::hash_tiles(ranges);
    // The first calls see the most tiles: later ones allocate nothing.
    if (!hashes_ || host_hashes_.size() < tiles) {
      host_hashes_.resize(tiles);
      hashes_ = allocate(tiles * sizeof(std::uint64_t), "hashes of replicas");
    }
    cuda::hash(device_, values, ranges, result, hashes_->as<std::uint64_t>(), host_hashes_);
  }
  void update_average(const AverageUpdate& update) override {
    cuda::update_average(*in_use_, update);
  }
  void swap(float* a, float* b, std::int64_t elems) override { cuda::swap(*in_use_, a, b, elems); }
  void update_running_statistics(float* values,
                                 const float* sums,
                                 std::span<const RunningStatistic> statistics,
                                 const StepOutcome* outcome) override {
    cuda::update_running_statistics(*in_use_, values, sums, statistics, outcome);
  }

 private:
  /// CUDA's choice of the device is a thread's; on another than ours a context would be made.
  void select() const { check(cudaSetDevice(device_.ordinal), "choice of the device"); }

  void copy(void* to,
            const void* from,
            std::size_t bytes,
            cudaMemcpyKind kind,
            const cuda::Device& device) {
    if (bytes > 0 && to != from)
      check(cudaMemcpyAsync(to, from, bytes, kind, device.compute), "copy");
  }

  const std::optional<std::uint64_t> free_at_start_;  // asked for before device_ has a context
  cuda::Device device_;
  // Their streams stand where device_ has compute. What waits for a collective waits for other
  // ranks too, so that it comes first.
  const cuda::Device communication_, network_, copies_, copies_out_;
  const cuda::Device* in_use_ = &device_;
  DeviceStream stream_in_use_ = DeviceStream::compute;
  const std::string id_;
  const std::unique_ptr<RangeMarker> ranges_ = cuda::make_range_marker();
  std::unique_ptr<DeviceBuffer> norms_;  // squared norms, and after them the sums of their blocks
  std::unique_ptr<DeviceBuffer> hashes_;
  std::vector<std::uint64_t> host_hashes_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device) {
  return std::make_unique<CudaBackend>(device);
}

}  // namespace lockstep
