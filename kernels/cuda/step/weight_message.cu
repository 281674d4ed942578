// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"

// Weights into the message of their owner and out of the others'. A block takes one tile of a
// piece, a thread four neighbours at a time where addresses allow. Bytes an element: 6 of bf16, 8
// of fp32. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kMessageTile = 4096;

__global__ void pack_weights_kernel(std::uint16_t* message,
                                    const float* values,
                                    const __grid_constant__ RangeTable<WeightPiece> table,
                                    bool aligned) {
  wait_for_earlier_work();
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const WeightPiece& piece = place.range;
  const std::int64_t begin = place.tile * kMessageTile, end = begin + kMessageTile;
  std::uint16_t* const to = message + piece.place;
  const float* const from = values + piece.offset;
  for_each_in_tile(
      begin, end < piece.elems ? end : piece.elems, aligned, [&](std::int64_t i, auto width) {
        constexpr int kWidth = decltype(width)::value;
        const Floats<kWidth> group = load_floats<kWidth>(from + i);
        if (piece.bf16)
          store_floats(reinterpret_cast<Bf16*>(to) + i, group);
        else
          store_floats(reinterpret_cast<float*>(to) + i, group);
      });
}

__global__ void unpack_weights_kernel(float* values,
                                      const std::uint16_t* message,
                                      const __grid_constant__ RangeTable<WeightPiece> table,
                                      bool aligned) {
  wait_for_earlier_work();
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const WeightPiece& piece = place.range;
  const std::int64_t begin = place.tile * kMessageTile, end = begin + kMessageTile;
  const std::uint16_t* const from = message + piece.place;
  float* const to = values + piece.offset;
  for_each_in_tile(
      begin, end < piece.elems ? end : piece.elems, aligned, [&](std::int64_t i, auto width) {
        constexpr int kWidth = decltype(width)::value;
        if (piece.bf16)
          store_floats(to + i, load_floats<kWidth>(reinterpret_cast<const Bf16*>(from) + i));
        else
          store_floats(to + i, load_floats<kWidth>(reinterpret_cast<const float*>(from) + i));
      });
}

/// Whether every piece begins at a multiple of 16 bytes on both sides, as those of a FlatSpace do.
bool begin_at_packs(std::span<const WeightPiece> pieces) {
  constexpr std::int64_t kUnits = kPackBytes / 2, kFloats = kPackBytes / 4;
  for (const WeightPiece& piece : pieces)
    if (piece.place % kUnits != 0 || piece.offset % kFloats != 0) return false;
  return true;
}

template <typename Start>
void for_each_table_of(std::span<const WeightPiece> pieces, Start start) {
  for_each_table<WeightPiece>(
      pieces, kMessageTile, [](const WeightPiece& piece) { return piece; }, start);
}

}  // namespace

void pack_weights(const Device& device,
                  const float* values,
                  std::span<const WeightPiece> pieces,
                  std::uint16_t* message) {
  const bool aligned = begin_at_packs(pieces) && aligned_to_packs(values, message);
  for_each_table_of(pieces, [&](const RangeTable<WeightPiece>& table) {
    launch("pack_weights",
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           pack_weights_kernel,
           message,
           values,
           table,
           aligned);
  });
}

void unpack_weights(const Device& device,
                    const std::uint16_t* message,
                    std::span<const WeightPiece> pieces,
                    float* values) {
  const bool aligned = begin_at_packs(pieces) && aligned_to_packs(values, message);
  for_each_table_of(pieces, [&](const RangeTable<WeightPiece>& table) {
    launch("unpack_weights",
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           unpack_weights_kernel,
           values,
           message,
           table,
           aligned);
  });
}

}  // namespace lockstep::cuda
