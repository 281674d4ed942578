// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/bf16_weight_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/exec/replica_hash.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/hash_cases.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<DeviceBuffer> on_device(Backend& backend, const void* data, std::size_t bytes) {
  auto memory = backend.allocate(bytes, "test");
  backend.copy_to_device(memory->data(), data, bytes);
  return memory;
}

template <typename T>
std::vector<T> from_device(Backend& backend, DeviceBuffer& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  backend.copy_to_host(values.data(), memory.data(), memory.bytes());
  return values;
}

/// Numbers of every size, and those next to where rounding turns.
Floats all_kinds_of_numbers(std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto bits = std::uint32_t(replica_hash_mix(7, std::int64_t(i)));
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x7fffu | (i % 2 << 15);
    if (i % 5 == 0) bits &= 0x80ffffffu;  // close to the smallest normal number
    if ((bits & 0x7f800000u) == 0x7f800000u) bits &= 0xbfffffffu;
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

bool is_subnormal(float value) { return std::fpclassify(value) == FP_SUBNORMAL; }

/// `values` as they come out of a message in which all of them are bf16.
Floats through_message(Backend& backend, const Floats& values) {
  const WeightPiece all{.elems = std::int64_t(values.size()), .bf16 = true};
  const auto from = on_device(backend, values.data(), values.size() * sizeof(float));
  const auto message = backend.allocate(values.size() * sizeof(float), "message");
  const auto to = backend.allocate(values.size() * sizeof(float), "received");
  backend.pack_weights(from->as<float>(), {&all, 1}, message->as<std::uint16_t>());
  backend.unpack_weights(message->as<std::uint16_t>(), {&all, 1}, to->as<float>());
  return from_device<float>(backend, *to);
}

/// Of the ops test's cases, the activations larger by so much.
constexpr float kScale = 0x1p20f;

/// The case in bf16 with weights that bf16 does not hold, of which the first output's are next to
/// the smallest normal number; products are far from it.
std::optional<OpCase> with_fp32_weights(const OpCase& test_case) {
  OpCase large = test_case;
  HostTensor& activations = large.inputs[0];
  if (activations.type.dtype != DType::f32 || activations.bytes.empty()) return std::nullopt;
  for (std::int64_t i = 0; i < activations.type.elems(); ++i) activations.as<float>()[i] *= kScale;
  std::optional<OpCase> variant = bf16_variant(large);
  if (!variant) return std::nullopt;
  HostTensor& weights = variant->inputs[1];
  weights = random_f32(weights.type.shape, 11);
  const std::int64_t outputs = std::max<std::int64_t>(1, weights.type.shape[0]);
  for (std::int64_t i = 0; i < weights.type.elems() / outputs; ++i)
    weights.as<float>()[i] = std::bit_cast<float>(std::uint32_t(0x007f8000 + i * 1237 % 0x10000));
  return variant;
}

void expect_same_bits(Backend& backend, const OpCase& test_case, const TestMemory& memory) {
  SCOPED_TRACE(test_case.name);
  const KernelFactory factory = [&](const KernelSpec& spec) { return backend.make_kernel(spec); };
  OpCase rounded = test_case;
  HostTensor& weights = rounded.inputs[1];
  const Floats before(weights.as<float>(), weights.as<float>() + weights.type.elems());
  const Floats after = before.empty() ? before : through_message(backend, before);
  std::ranges::copy(after, weights.as<float>());
  const std::vector<HostTensor> from_fp32 = run_kernel(test_case, factory, memory),
                                from_bf16 = run_kernel(rounded, factory, memory);
  ASSERT_EQ(from_fp32.size(), from_bf16.size());
  for (std::size_t i = 0; i < from_fp32.size(); ++i)
    EXPECT_EQ(from_fp32[i].bytes, from_bf16[i].bytes) << "output " << i;
}

}  // namespace

void expect_weight_messages(Backend& backend) {
  const Floats values = all_kinds_of_numbers(9000);
  // More than a launch takes, of both kinds, in any order; two of them empty or of one element.
  std::vector<WeightPiece> pieces{{.offset = 8192, .elems = 0, .place = 0, .bf16 = true},
                                  {.offset = 8961, .elems = 1, .place = 0, .bf16 = true}};
  std::int64_t place = 64;
  for (std::int64_t i = 0; i < 120; ++i) {
    const std::int64_t at = (i * 37) % 120, elems = at % 4 == 3 ? 61 : 64;
    pieces.push_back({.offset = 64 * at, .elems = elems, .place = place, .bf16 = at % 2 == 0});
    place += 128;
  }
  pieces.push_back({.offset = 7680, .elems = 1025, .place = place, .bf16 = true});
  place += 1026;
  const auto from = on_device(backend, values.data(), values.size() * sizeof(float));
  const std::vector<std::uint16_t> none(std::size_t(place), 0x7abc);
  const auto message = on_device(backend, none.data(), none.size() * sizeof(std::uint16_t));
  const Floats untouched(values.size(), -7.0f);
  const auto to = on_device(backend, untouched.data(), untouched.size() * sizeof(float));
  backend.pack_weights(from->as<float>(), pieces, message->as<std::uint16_t>());
  backend.unpack_weights(message->as<std::uint16_t>(), pieces, to->as<float>());
  const Floats got = from_device<float>(backend, *to);
  Floats expected = untouched;
  for (const WeightPiece& piece : pieces)
    for (auto i = std::size_t(piece.offset); i < std::size_t(piece.offset + piece.elems); ++i) {
      const HostTensor rounded = rounded_to_bf16(f32_tensor({1}, {values[i]}));
      expected[i] = piece.bf16 ? float(rounded.to_double()[0]) : values[i];
      if (piece.bf16 && is_subnormal(values[i]) && got[i] == 0) expected[i] = 0;
    }
  EXPECT_EQ(got, expected);
  const std::vector<std::uint16_t> sent = from_device<std::uint16_t>(backend, *message);
  EXPECT_EQ(sent[1], 0x7abc);
  EXPECT_EQ(sent[std::size_t(place) - 1], 0x7abc);
  const Floats rounded = through_message(backend, values);
  EXPECT_EQ(through_message(backend, rounded), rounded);
  const std::vector<HashRange> ranges{{.offset = 3, .elems = 4000, .bf16 = true},
                                      {.offset = 4003, .elems = 4997, .bf16 = false}};
  const std::vector<std::uint64_t> hash = hashes(backend, values, ranges);
  EXPECT_EQ(hash[0], reference_hash(rounded, ranges[0]));
  EXPECT_EQ(hash[1], reference_hash(values, ranges[1]));
}

void expect_bits_of_rounded_weights(Backend& backend, bool exact_memory) {
  int compared = 0;
  for (const OpKind kind :
       {OpKind::linear, OpKind::linear_bwd_data, OpKind::conv2d, OpKind::conv2d_bwd_data}) {
    SCOPED_TRACE(name_of(kind));
    const OpSuite* const suite = find_op_suite(kind);
    ASSERT_NE(suite, nullptr);
    for (const OpCase& test_case : suite->cases()) {
      const std::optional<OpCase> variant = with_fp32_weights(test_case);
      if (!variant) continue;
      expect_same_bits(backend, *variant, {backend, exact_memory});
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

}  // namespace lockstep::test
