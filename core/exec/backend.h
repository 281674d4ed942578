// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/gradient_clip.h"
#include "core/exec/kernel.h"
#include "core/exec/optimizer_update.h"
#include "core/plan/norm_block.h"
#include "core/plan/weight_message.h"
#include "core/profile/device_tracer.h"
#include "core/profile/range_marker.h"
#include "lockstep/device_use.h"
#include "lockstep/error.h"

namespace lockstep {

/// Device memory with an owner. Zeroed, aligned to 256 bytes at least, touched, so that pages
/// exist.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t bytes() const = 0;
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
};

/// A stretch of the flat space that one optimizer call updates. Offsets and counts in elements.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
  float weight_decay = 0.0f;  ///< already zero where decay is excluded
  float lr_scale = 1.0f;
  /// Index of the norms of the tensor that the range is of; -1: it is updated without. See Note
  /// [Phases of an update].
  std::int32_t tensor = -1;
};

/// Blocks of kNormBlock elements, the last one shorter, whose squared norms have the numbers from
/// `first` on.
struct BlockRange {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
  std::int64_t first = 0;
};

/// A stretch of the flat space that is hashed. Offsets and counts in elements.
struct HashRange {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
  bool bf16 = false;  ///< the elements rounded as pack_weights() has them, widened
};

/// A running statistic in the flat space. Offsets and counts in elements.
struct RunningStatistic {
  std::int64_t offset = 0;  ///< of the statistic, and of its sum over the step
  std::int64_t elems = 0;
  std::int64_t weight = 0;  ///< offset of the scalar that its sum weighs
  float momentum = 0;
};

/// What a training step came to, in device memory.
struct StepOutcome {
  double loss = 0;  ///< mean over the labels that count
  double correct =
      -1;              ///< share of correct answers among them; negative where there are no classes
  double counted = 1;  ///< share of labels that are not ignored
  double grad_norm = 0;   ///< L2 norm of the mean gradient, before clipping
  float grad_scale = 1;   ///< what updates multiply the gradients by: clipping, and 1 / counted
  std::uint32_t bad = 0;  ///< bits of why no update follows; 0: it does

  static constexpr std::uint32_t kNotFinite = 1;  ///< loss or norm
  static constexpr std::uint32_t kNothingCounted = 2;
  static constexpr std::uint32_t kAfterBad = 4;  ///< see StepSums::previous
};

/// Sums of a step over all ranks, from which its StepOutcome follows:
///   loss, correct, counted = the scalars at those offsets, the first two over the third
///   grad_norm = sqrt(sum over `tensors`, in order, of their squared_norms()) / counted, in fp64
///   grad_scale = min(1, clip_norm / (grad_norm + 1e-6)) / counted, without clip_norm 1 / counted
///   bad = kNotFinite where loss or grad_norm is infinite or NaN, kNothingCounted where counted is
///   not positive, kAfterBad where `previous` is bad
/// Clipping: Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6.
struct StepSums {
  const float* gradients = nullptr;
  std::span<const FlatRange> tensors = {};
  /// [tensors] in device memory: their squared norms, where they are known already.
  const double* norms = nullptr;
  std::int64_t loss = 0, correct = -1, counted = -1;  ///< offsets; -1: there is none
  float clip_norm = 0;                                ///< 0: no clipping
  /// In device memory, the outcome of the step before; may be the one that is written. Where it is
  /// bad this one is too, so that nothing is updated until the host, which learns of a bad step
  /// late, writes a good outcome there. Null: every step is judged by itself.
  const StepOutcome* previous = nullptr;
};

/// One operand of a tree of sums; see Backend::sum_tree().
struct TreeTerm {
  float* values = nullptr;
  int merges = 0;
};

/// A point in the device's work.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual void wait() {}
  /// Whether wait() would return at once. Never blocks.
  virtual bool done() { return true; }
  /// What the device's clock says between `earlier` and this one. Both of make_timed_event(),
  /// recorded, and past: something after them has been waited for.
  virtual double seconds_since(const DeviceEvent& /*earlier*/) const { return 0; }
};

/// Queues of a device's work. Each does what it was asked for in order, concurrently with the
/// others.
enum class DeviceStream : std::uint8_t {
  compute,        ///< programs, and what else is not sent to another
  communication,  ///< sums of gradients and the collectives around them
  network,        ///< those between hosts, where hosts sum first
  copies,         ///< micro-batches on their way to the device
  copies_out,     ///< what MPI sends, on its way to the host
};

/// Captured work of a device, which is launched as a whole.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Has the device do the work once more, with the addresses and values it was captured with,
  /// after what was asked of the compute stream; what is asked of that later comes after all of
  /// it. Does not wait.
  virtual void launch() = 0;
  /// Kernels, copies and collectives in it.
  virtual std::size_t nodes() const = 0;
};

/// What devices of a kind have in common, so that work for one that is not here can be planned.
struct DeviceTraits {
  /// The most bytes of gradients that travel as one message where not set otherwise: as many as
  /// the networks around such devices need to come near their full rate.
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  /// That the exchange has receive buffers for. In stream order one is enough.
  int buckets_in_flight = 4;
  /// Copies on DeviceStream::copies run while the compute stream works.
  bool copies_beside_compute = false;
  /// Rows of bf16 logits become multiples of as many elements, few classes of fewer; see
  /// core/plan/pad_logits.h.
  std::int64_t row_multiple = 1;
};
/// Of GPUs. An all-reduce over NVLink (8 x H200) reaches 276 GB/s of its 464 with 32 MiB, 347 with
/// 64: stas00/ml-engineering, network.
inline constexpr DeviceTraits kGpuTraits{.bucket_bytes = std::int64_t{64} << 20,
                                         .buckets_in_flight = 1,
                                         .copies_beside_compute = true,
                                         .row_multiple = 64};

/// The memory that allocate() takes from.
struct DeviceMemory {
  std::optional<std::uint64_t> free;  ///< bytes that it could still give; nothing: unknown
  std::uint64_t total = 0;            ///< of the device, or of the container; 0: unknown
  /// Equal for backends of one machine that share it: empty for the machine's own memory, otherwise
  /// the device's id, of a GPU its bus address, a space and its UUID; see uuid_in().
  std::string pool;
  /// Of the machine's own memory, the control group that limits it, which only the group's
  /// processes share, distinguished from others of its path; empty: none.
  std::string group = {};
  /// Of a limit of this process alone, what is left; nothing: there is none.
  std::optional<std::uint64_t> own = {};
  /// Of a device, what was free before this process had anything there, a context included;
  /// nothing: unknown.
  std::optional<std::uint64_t> free_at_start = {};
};

/// Of a DeviceMemory::pool; empty: unknown. Parts of a GPU (MIG) have their own.
inline std::string_view uuid_in(std::string_view pool) {
  const std::size_t space = pool.find(' ');
  const std::string_view uuid = space == pool.npos ? std::string_view() : pool.substr(space + 1);
  return uuid.find_first_not_of('0') == uuid.npos ? std::string_view() : uuid;
}

/// One kernel that does what several did.
struct JoinedKernels {
  std::unique_ptr<Kernel> kernel;  ///< bound; null: there is none
  std::size_t count = 0;           ///< of how many
};

/// A kind of device: makes kernels, owns memory, and works on flat arrays. One per process.
/// All flat-array functions are elementwise or reduce in a fixed order, so that their bits depend
/// on neither addresses nor how a range is cut at tensor boundaries.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "cpu, avx512, oneDNN 2.6.3": the device class within which bits are promised.
  virtual std::string device_class() const = 0;
  /// Whether the device multiplies bf16 itself; otherwise bf16 runs on fp32 arithmetic, and slower
  /// than fp32.
  virtual bool multiplies_bf16() const { return true; }
  /// Whether kernels made from now on may round the factors of fp32 products to tf32 (10 bits of
  /// mantissa). Returns false where that is asked for and the device has no such products.
  virtual bool allow_tf32(bool allowed) { return !allowed; }
  virtual DeviceMemory memory() const { return {}; }
  /// Whether what is written to its memory can be read again: not where only sizes and times are
  /// asked for, so that no values need be made for it.
  virtual bool has_memory() const { return true; }
  virtual DeviceTraits traits() const { return {}; }
  /// Throws OutOfMemory naming `what` and the bytes.
  virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) = 0;
  /// Host memory from which copies to the device run at full speed (pinned, on CUDA).
  virtual std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) {
    return allocate(bytes, what);
  }
  /// Whether the processor reads and writes `memory` itself; no where it is a device's.
  virtual bool is_host_memory(const void* /*memory*/) const { return true; }
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;
  /// `kernels` are bound and run one after another. A kernel that does the work of the first of
  /// them, two or more, with the same bits and for less; or none. It may use them as long as it
  /// lives.
  virtual JoinedKernels join(std::span<Kernel* const> /*kernels*/) { return {}; }

  /// Whether kernels run library algorithms that the device chooses, so that the bits of two ranks
  /// may differ unless one chooses for both.
  virtual bool chooses_algorithms() const { return false; }
  /// What was chosen for all kernels made until now, as text for take_choices().
  virtual std::string choices() const { return {}; }
  /// Forgets what this device chose. Kernels made from now on run the algorithms of `choices`, or
  /// make_kernel() throws EnvironmentError naming the operator; it chooses for others alone. Throws
  /// InternalError: this is not of choices().
  virtual void take_choices(const std::string& /*choices*/) {}
  /// Whether algorithms are timed from now on where the device chooses; otherwise a heuristic's
  /// favourites are taken.
  virtual void time_algorithms(bool /*timed*/) {}
  virtual bool times_algorithms() const { return false; }
  /// How many were timed, in what time; a line for each kernel not taken, and why. Empty: none.
  virtual std::string timing_note() const { return {}; }
  /// What users should know of the kernels made until now: those that are far slower than they
  /// could be, and why. Lines for the console.
  virtual std::vector<std::string> notices() const { return {}; }

  /// Takes some tenths of a second; other ranks on the machine should do it at the same time, as
  /// they share its memory.
  virtual DevicePeaks measure_peaks() = 0;

  /// Times the device by its own clock, one at a time in a process; null where the device is the
  /// processor, whose clock the host has. Throws EnvironmentError: what it takes is not installed.
  virtual std::unique_ptr<DeviceTracer> make_tracer() { return nullptr; }
  /// Owned by the backend; null where no tool is attached that would see ranges.
  virtual RangeMarker* ranges() { return nullptr; }

  /// Waits until everything that was asked for is done.
  virtual void synchronize() {}
  /// Copies happen in the order of the calls and of the programs around them. `host` may be changed
  /// once copy_to_device() returns; where it came from allocate_host(), only after synchronize(), a
  /// copy_to_host(), which waits for everything before it, or an event recorded after the copy.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Memory of the device, in the order of copy().
  virtual void set_zero(void* memory, std::size_t bytes) = 0;

  /// A point that record() sets and that wait() waits for; where the device works at once, nothing.
  virtual std::unique_ptr<DeviceEvent> make_event() { return std::make_unique<DeviceEvent>(); }
  /// An event of which the device notes the time. Null where the device works at once: what the
  /// host's clock says of it is all there is.
  virtual std::unique_ptr<DeviceEvent> make_timed_event() { return nullptr; }
  /// `event` is everything that was asked for until now.
  virtual void record(DeviceEvent& /*event*/) {}
  /// What is asked for later, on the stream in use, begins when `event`, as it was recorded last,
  /// has happened. The host does not wait.
  virtual void wait_for(const DeviceEvent& /*event*/) {}
  /// Has functions of flat arrays, copies to and on the device, start_copy_to_host(), record() and
  /// wait_for() go to `stream` from now on; programs' kernels and copy_to_host() always go to the
  /// compute stream. Returns the stream in use before. See StreamScope.
  virtual DeviceStream use_stream(DeviceStream /*stream*/) { return DeviceStream::compute; }
  /// By what libraries know the stream in use, a cudaStream_t; null where the device works at once.
  virtual void* native_stream() { return nullptr; }

  /// Whether begin_capture() may be called: the device takes graphs.
  virtual bool captures_graphs() const { return false; }
  /// From here to end_capture() what this thread asks for is captured instead of done. It may not
  /// wait, allocate, or copy from and to memory that is not of allocate() or allocate_host(); work
  /// on another stream takes part where that waits for an event recorded on the compute stream, or
  /// on one that takes part, meanwhile, and is waited for in turn before the end.
  virtual void begin_capture() { throw InternalError("this device captures no graphs"); }
  /// Throws Error: something cannot be captured. Then nothing was done, and nothing is captured
  /// any more.
  virtual std::unique_ptr<DeviceGraph> end_capture() { return nullptr; }
  /// Ends a capture that threw, or that is not needed.
  virtual void abandon_capture() noexcept {}

  /// As copy_to_host(), to memory of allocate_host(), which holds the bytes once an event that was
  /// recorded afterwards has been waited for.
  virtual void start_copy_to_host(void* host, const void* device, std::size_t bytes) {
    copy_to_host(host, device, bytes);
  }

  /// out = a + b; `out` may be `a` or `b`.
  virtual void add(float* out, const float* a, const float* b, std::int64_t elems) = 0;
  /// result = the terms, from left to right, summed as a tree: sums stand on a stack; each term is
  /// pushed, then the top is `merges` times replaced by the sum of the top two, and one remains at
  /// the end. `elems` each. Terms are consumed: their memory may be written; `result` may be one.
  virtual void sum_tree(std::span<const TreeTerm> terms, float* result, std::int64_t elems);
  /// One phase of an optimizer's step on these ranges, and on its rows. Does not wait.
  virtual void optimizer_update(const OptimizerUpdate& update,
                                std::span<const FlatRange> ranges) = 0;
  /// Sum of squares of each range: fixed blocks of kNormBlock elements, summed in fp64 in order.
  virtual void squared_norms(const float* values,
                             std::span<const FlatRange> ranges,
                             double* result) = 0;
  /// As squared_norms(), to device memory and without waiting.
  virtual void start_squared_norms(const float* values,
                                   std::span<const FlatRange> ranges,
                                   double* result) {
    squared_norms(values, ranges, result);
  }
  /// result[range.first + b] = the sum of squares of block b of each range, as squared_norms() has
  /// it, in device memory. Does not wait.
  virtual void start_block_norms(const float* values,
                                 std::span<const BlockRange> ranges,
                                 double* result) = 0;
  /// result[i] = values[places[i]], all in device memory. Does not wait.
  virtual void gather(const double* values,
                      const std::int32_t* places,
                      std::int64_t count,
                      double* result) = 0;
  /// result[i] = 0 + the values from ends[i - 1] (0 for the first) up to ends[i], one after
  /// another; both in device memory. Does not wait.
  virtual void add_in_order(const double* values,
                            std::span<const std::int64_t> ends,
                            double* result) = 0;
  /// Reserves what conclude_step() and start_squared_norms() need for these tensors, so that they
  /// never allocate.
  virtual void reserve_norms(std::span<const FlatRange> /*tensors*/) {}
  /// See StepSums. `outcome` in device memory. Does not wait.
  virtual void conclude_step(const StepSums& sums, StepOutcome* outcome) = 0;
  /// Each element of `gradients` in these ranges to [-limit, limit] / grad_scale of `outcome`, in
  /// device memory (null: 1): what an update then multiplies by it is in [-limit, limit], but for a
  /// rounding, as PyTorch's clip_grad_value_() has it. Nothing where it is bad. Does not wait.
  virtual void clip_values(float* gradients,
                           float limit,
                           std::span<const FlatRange> ranges,
                           const StepOutcome* outcome) = 0;
  /// See UnitClip. Nothing where its outcome is bad. Does not wait.
  virtual void clip_units(const UnitClip& clip, std::span<const UnitRange> ranges) = 0;
  /// message[piece.place], ... = values[piece.offset], ... of each piece: rounded as the kernels
  /// round weights to bf16, or as they are. Does not wait.
  virtual void pack_weights(const float* values,
                            std::span<const WeightPiece> pieces,
                            std::uint16_t* message) = 0;
  /// The way back; bf16 becomes the fp32 of the same value. Does not wait.
  virtual void unpack_weights(const std::uint16_t* message,
                              std::span<const WeightPiece> pieces,
                              float* values) = 0;
  /// result[i], on the host: the sum modulo 2^64 over the elements of ranges[i] of
  /// mix(bits of the element, its offset), so that every order of adding gives the same; see
  /// core/exec/replica_hash.h.
  virtual void hash(const float* values,
                    std::span<const HashRange> ranges,
                    std::uint64_t* result) = 0;
  /// For each of `statistics`: value += momentum * (sum - weight * value), elementwise; value in
  /// `values`, sum and the scalar weight in `sums`. Nothing where `outcome` (in device memory;
  /// null: none) is bad.
  virtual void update_running_statistics(float* values,
                                         const float* sums,
                                         std::span<const RunningStatistic> statistics,
                                         const StepOutcome* outcome) = 0;
  /// See AverageUpdate. Does not wait.
  virtual void update_average(const AverageUpdate& update) = 0;
  /// Each array gets what the other has. Does not wait.
  virtual void swap(float* a, float* b, std::int64_t elems) = 0;
};

/// Has `backend` use a stream while it lives, the one before afterwards.
class StreamScope {
 public:
  StreamScope(Backend& backend, DeviceStream stream)
      : backend_(backend), before_(backend.use_stream(stream)) {}
  ~StreamScope() { backend_.use_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Backend& backend_;
  DeviceStream before_;
};

}  // namespace lockstep
