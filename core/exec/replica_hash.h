// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Note [Replica hash]. Replicas that must hold the same bits are compared by a 64-bit number a
/// tensor:
///
///   hash = sum over elements, modulo 2^64, of replica_hash_mix(bits, offset)
///
/// with the 32 bits of the element and its place in the flat array. Addition modulo 2^64 has no
/// order, so that devices, instruction sets and ranges that are cut elsewhere agree.
///
/// The mix is a bijection of 64 bits applied to offset * odd constant XOR bits: every step of it
/// can be undone. So two different contents of one place always differ in the mix, and a change of
/// one element, of whichever bits, always changes the hash. Changes of several elements cancel out
/// with a probability of about 2^-64: a difference depends on all bits and the place, which the
/// tests of this header measure. It detects accidents, not deliberate collisions.
///
/// A round costs a product of 32 bits by 32, which every vector unit and GPU has.

inline constexpr std::uint64_t kReplicaHashStride = 0x9e3779b97f4a7c15u;  ///< 2^64 / golden ratio
/// Even: the lowest set bit of (low half) * factor then lies above the lowest that is set in the
/// low half, so that their XOR can be undone, bit by bit from below.
inline constexpr std::uint32_t kReplicaHashFactor1 = 0xd2511f52u;
inline constexpr std::uint32_t kReplicaHashFactor2 = 0xcd9e8d56u;
inline constexpr std::uint32_t kReplicaHashFactor3 = 0x9e3779b8u;
inline constexpr std::uint32_t kReplicaHashFactor4 = 0xbb67ae84u;

/// XORs the product of the low half into both halves, then swaps the halves.
constexpr std::uint64_t replica_hash_round(std::uint64_t word, std::uint32_t factor) {
  word ^= (word & 0xffffffffu) * factor;
  return word << 32 | word >> 32;
}

constexpr std::uint64_t replica_hash_mix(std::uint32_t bits, std::int64_t offset) {
  std::uint64_t word = (std::uint64_t(offset) + 1) * kReplicaHashStride ^ bits;
  word = replica_hash_round(word, kReplicaHashFactor1);
  word = replica_hash_round(word, kReplicaHashFactor2);
  word = replica_hash_round(word, kReplicaHashFactor3);
  return replica_hash_round(word, kReplicaHashFactor4);
}

}  // namespace lockstep
