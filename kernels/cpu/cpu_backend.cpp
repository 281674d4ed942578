// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <sys/mman.h>
#include <utility>

#include "core/exec/conclude.h"
#include "core/host/host_memory.h"
#include "core/ops/all_ops.h"
#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/flat.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/optimizers/optimizer_kernels.h"
#include "kernels/cpu/peaks.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

std::optional<std::uint64_t> available_bytes() { return read_host_memory().left(); }

/// What is available differs between ranks that fail alike: it is not a part of the message.
[[noreturn]] void throw_out_of_memory(std::size_t bytes, const std::string& what) {
  const auto available = available_bytes();
  throw OutOfMemory(fmt::format("{}: {} bytes of memory wanted", what, bytes),
                    "use a smaller micro-batch or model, or a machine with more memory" +
                        (available ? fmt::format("; {} bytes are available", *available) : ""));
}

/// Linux promises more memory than there is and kills whoever touches it, so large requests are
/// compared with what is there first.
constexpr std::size_t kCheckedBytes = std::size_t{64} << 20;

/// Anonymous pages: aligned to a page, zero, and present from the start, so that no run takes
/// faults.
class CpuBuffer final : public DeviceBuffer {
 public:
  CpuBuffer(std::size_t bytes, const std::string& what) : bytes_(bytes) {
    if (bytes == 0) return;
    const bool fits = bytes < kCheckedBytes || bytes <= available_bytes().value_or(bytes);
    data_ = fits ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                 : MAP_FAILED;
    if (data_ == MAP_FAILED) throw_out_of_memory(bytes, what);
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
  }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;
  ~CpuBuffer() override {
    if (data_) munmap(data_, bytes_);
  }

  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

#define LOCKSTEP_KERNEL_OF(Type, name) \
  auto kernel_of(const Type&) { return LOCKSTEP_CHOOSE(name##_update); }
LOCKSTEP_OPTIMIZERS(LOCKSTEP_KERNEL_OF)
#undef LOCKSTEP_KERNEL_OF

cpu::RangeUpdate on_range(const OptimizerUpdate& update,
                          const StepScalars& scalars,
                          const FlatRange& range) {
  cpu::RangeUpdate result{
      .params = update.params + range.offset,
      .grads = update.grads + range.offset,
      .phase = update.phase,
      .elems = range.elems,
      .grad_scale = update.outcome ? update.outcome->grad_scale : update.grad_scale,
      .weight_decay = range.weight_decay,
      .lr = update.lr,
      .lr_scale = range.lr_scale,
      .step = update.step,
      .scalars = scalars,
      .is_tensor = range.tensor >= 0};
  if (range.tensor >= 0 && update.weight_norms != nullptr)
    result.weight_norm = std::sqrt(update.weight_norms[range.tensor]);
  if (range.tensor >= 0 && update.direction_norms != nullptr)
    result.direction_norm = std::sqrt(update.direction_norms[range.tensor]);
  if (range.tensor >= 0 && update.tensor_elems != nullptr)
    result.tensor_elems = update.tensor_elems[range.tensor];
  for (std::size_t i = 0; i < update.state.size(); ++i)
    if (update.state[i] != nullptr) result.state[i] = update.state[i] + range.offset;
  return result;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend() {
    cpu::check_matrix_library();
    cpu::use_one_thread();
  }

  std::string device_class() const override {
    return fmt::format("cpu, {}, bf16 products {}, {}",
                       cpu::name_of(cpu::isa()),
                       cpu::name_of(cpu::bf16_products()),
                       cpu::matrix_library());
  }

  bool multiplies_bf16() const override {
    return cpu::bf16_products() != cpu::Bf16Products::widened;
  }

  DeviceMemory memory() const override {
    HostMemory host = read_host_memory();
    if (!host.group.empty()) host.group += fmt::format(" {}", host.group_id);
    return {host.free, host.total, {}, std::move(host.group), host.own};
  }

  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override {
    return std::make_unique<CpuBuffer>(bytes, what);
  }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    switch (spec.op.kind()) {
#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem) \
  case OpKind::stem:            \
    return cpu::make_##stem##_kernel(op_cast<ops::Type>(spec.op), spec);
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
      default:
        break;
    }
    throw InternalError(fmt::format("{} is a view and has no kernel", describe(spec)));
  }

  DevicePeaks measure_peaks() override { return cpu::measure_peaks(); }

  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    copy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    copy(host, device, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void set_zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }

  void add(float* out, const float* a, const float* b, std::int64_t elems) override {
    add_(out, a, b, elems);
  }
  void optimizer_update(const OptimizerUpdate& update, std::span<const FlatRange> ranges) override {
    if (update.outcome && update.outcome->bad) return;
    std::visit(
        [&](const auto& optimizer) {
          const auto kernel = kernel_of(optimizer);
          const StepScalars scalars = optimizer.step_scalars(update.step);
          for (const FlatRange& range : ranges) kernel(optimizer, on_range(update, scalars, range));
          for_each_row(update, [&](const FlatRange& range, double squares, std::int64_t elems) {
            cpu::RangeUpdate row = on_range(update, scalars, range);
            row.row_squares = squares;
            row.row_elems = elems;
            kernel(optimizer, row);
          });
        },
        update.optimizer);
  }
  void squared_norms(const float* values,
                     std::span<const FlatRange> ranges,
                     double* result) override {
    for (std::size_t i = 0; i < ranges.size(); ++i)
      result[i] = squared_norm_(values + ranges[i].offset, ranges[i].elems, kNormBlock);
  }
  void start_block_norms(const float* values,
                         std::span<const BlockRange> ranges,
                         double* result) override {
    for (const BlockRange& range : ranges)
      for (std::int64_t b = 0; b * kNormBlock < range.elems; ++b)
        result[range.first + b] = squared_norm_(values + range.offset + b * kNormBlock,
                                                std::min(kNormBlock, range.elems - b * kNormBlock),
                                                kNormBlock);
  }
  void gather(const double* values,
              const std::int32_t* places,
              std::int64_t count,
              double* result) override {
    for (std::int64_t i = 0; i < count; ++i) result[i] = values[places[i]];
  }
  void add_in_order(const double* values,
                    std::span<const std::int64_t> ends,
                    double* result) override {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      *result++ = std::accumulate(values + begin, values + end, 0.0);
      begin = end;
    }
  }
  void conclude_step(const StepSums& sums, StepOutcome* outcome) override {
    double squares = 0;
    for (std::size_t i = 0; i < sums.tensors.size(); ++i) {
      const FlatRange& tensor = sums.tensors[i];
      squares += sums.norms != nullptr
                     ? sums.norms[i]
                     : squared_norm_(sums.gradients + tensor.offset, tensor.elems, kNormBlock);
    }
    *outcome = outcome_of(sums, std::sqrt(squares));
  }
  void clip_values(float* gradients,
                   float limit,
                   std::span<const FlatRange> ranges,
                   const StepOutcome* outcome) override {
    if (outcome && outcome->bad) return;
    const float unscaled = unscaled_limit(limit, outcome ? outcome->grad_scale : 1.0f);
    for (const FlatRange& range : ranges)
      clip_values_(gradients + range.offset, unscaled, range.elems);
  }
  void clip_units(const UnitClip& clip, std::span<const UnitRange> ranges) override {
    if (clip.outcome && clip.outcome->bad) return;
    const double scale = double(clip.outcome ? clip.outcome->grad_scale : 1.0f);
    for (const UnitRange& range : ranges)
      for (std::int64_t unit = range.first; unit < range.first + range.elems; ++unit) {
        const std::int64_t begin = unit * range.unit;
        float* const gradients = clip.gradients + range.offset;
        const auto norm = [&](const float* values, const double* given) {
          return std::sqrt(range.norm < 0 ? squares_of_unit(values, begin, range.unit)
                                          : given[range.norm]);
        };
        const double weight = norm(clip.weights + range.offset, clip.weight_norms);
        const double gradient = norm(gradients, clip.gradient_norms);
        const float factor = unit_factor(weight, scale * gradient, clip.factor);
        float* const own = gradients + begin + range.own;
        if (factor < 1.0f) scale_(own, own, factor, range.norm < 0 ? range.unit : range.own_elems);
      }
  }
  void pack_weights(const float* values,
                    std::span<const WeightPiece> pieces,
                    std::uint16_t* message) override {
    for (const WeightPiece& piece : pieces)
      if (piece.bf16)
        round(reinterpret_cast<cpu::Bf16*>(message + piece.place),
              values + piece.offset,
              piece.elems);
      else
        std::memcpy(
            message + piece.place, values + piece.offset, std::size_t(piece.elems) * sizeof(float));
  }
  void unpack_weights(const std::uint16_t* message,
                      std::span<const WeightPiece> pieces,
                      float* values) override {
    for (const WeightPiece& piece : pieces)
      if (piece.bf16)
        widen_(values + piece.offset,
               reinterpret_cast<const cpu::Bf16*>(message + piece.place),
               piece.elems);
      else
        std::memcpy(
            values + piece.offset, message + piece.place, std::size_t(piece.elems) * sizeof(float));
  }
  void hash(const float* values,
            std::span<const HashRange> ranges,
            std::uint64_t* result) override {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const HashRange& range = ranges[i];
      result[i] = range.bf16 ? hash_of_rounded(values, range)
                             : hash_(values + range.offset, range.offset, range.elems);
    }
  }
  void update_average(const AverageUpdate& u) override {
    if (u.outcome && u.outcome->bad) return;
    // average + rate * (value - 1 * average)
    update_statistic_(u.average, u.values, 1.0f, u.rate, u.elems);
  }
  void swap(float* a, float* b, std::int64_t elems) override { std::swap_ranges(a, a + elems, b); }
  void update_running_statistics(float* values,
                                 const float* sums,
                                 std::span<const RunningStatistic> statistics,
                                 const StepOutcome* outcome) override {
    if (outcome && outcome->bad) return;
    for (const RunningStatistic& s : statistics)
      update_statistic_(values + s.offset, sums + s.offset, sums[s.weight], s.momentum, s.elems);
  }

 private:
  void round(cpu::Bf16* to, const float* from, std::int64_t elems) const {
    round_weights_(to, from, elems, rounds_by_instruction_);
  }
  std::uint64_t hash_of_rounded(const float* values, const HashRange& range) const {
    constexpr std::int64_t kTile = 1024;
    std::array<cpu::Bf16, kTile> rounded;
    std::array<float, kTile> widened;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < range.elems; i += kTile) {
      const std::int64_t elems = std::min(kTile, range.elems - i);
      round(rounded.data(), values + range.offset + i, elems);
      widen_(widened.data(), rounded.data(), elems);
      sum += hash_(widened.data(), range.offset + i, elems);
    }
    return sum;
  }
  /// Calls use(range, squares, elems) for what is written of each row of OptimizerUpdate::rows:
  /// squares and elements of the whole row.
  template <typename Use>
  void for_each_row(const OptimizerUpdate& update, Use use) const {
    for (const UnitRange& rows : update.rows)
      for (std::int64_t row = rows.first; row < rows.first + rows.elems; ++row) {
        const std::int64_t begin = row * rows.unit;
        const bool is_given = rows.norm >= 0;
        const double squares = is_given
                                   ? update.row_norms[rows.norm]
                                   : squares_of_unit(update.grads + rows.offset, begin, rows.unit);
        use(FlatRange{.offset = rows.offset + begin + rows.own,
                      .elems = is_given ? rows.own_elems : rows.unit},
            squares,
            rows.unit);
      }
  }
  /// See UnitRange; of the elements from `begin` on of the tensor `values`.
  double squares_of_unit(const float* values, std::int64_t begin, std::int64_t elems) const {
    double sum = 0;
    for (std::int64_t i = begin, end = begin + elems; i < end;) {
      const std::int64_t next = std::min(end, (i / kNormBlock + 1) * kNormBlock);
      sum += squared_norm_(values + i, next - i, kNormBlock);
      i = next;
    }
    return sum;
  }

  decltype(&cpu::baseline::add<float>) add_ = LOCKSTEP_CHOOSE(add<float>);
  decltype(&cpu::baseline::squared_norm) squared_norm_ = LOCKSTEP_CHOOSE(squared_norm);
  decltype(&cpu::baseline::scale<float>) scale_ = LOCKSTEP_CHOOSE(scale<float>);
  decltype(&cpu::baseline::clip_values) clip_values_ = LOCKSTEP_CHOOSE(clip_values);
  decltype(&cpu::baseline::round_weights) round_weights_ = LOCKSTEP_CHOOSE(round_weights);
  decltype(&cpu::baseline::widen_to_f32) widen_ = LOCKSTEP_CHOOSE(widen_to_f32);
  bool rounds_by_instruction_ = cpu::bf16_products() != cpu::Bf16Products::widened;
  decltype(&cpu::baseline::hash) hash_ = LOCKSTEP_CHOOSE(hash);
  decltype(&cpu::baseline::update_statistic) update_statistic_ = LOCKSTEP_CHOOSE(update_statistic);
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace lockstep
