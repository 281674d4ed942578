// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUDA's vector types, with its sizes and alignments.

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define LOCKSTEP_VECTOR_TYPES(Scalar, name, align2, align4)               \
  struct __attribute__((aligned(align2))) name##2 {                       \
    Scalar x, y;                                                          \
  };                                                                      \
  struct __attribute__((aligned(align4))) name##4 {                       \
    Scalar x, y, z, w;                                                    \
  };                                                                      \
  constexpr name##2 make_##name##2(Scalar x, Scalar y) { return {x, y}; } \
  constexpr name##4 make_##name##4(Scalar x, Scalar y, Scalar z, Scalar w) { return {x, y, z, w}; }

LOCKSTEP_VECTOR_TYPES(float, float, 8, 16)
LOCKSTEP_VECTOR_TYPES(int, int, 8, 16)
LOCKSTEP_VECTOR_TYPES(unsigned, uint, 8, 16)
LOCKSTEP_VECTOR_TYPES(short, short, 4, 8)
LOCKSTEP_VECTOR_TYPES(unsigned short, ushort, 4, 8)
LOCKSTEP_VECTOR_TYPES(signed char, char, 2, 4)
LOCKSTEP_VECTOR_TYPES(unsigned char, uchar, 2, 4)
LOCKSTEP_VECTOR_TYPES(double, double, 16, 16)
LOCKSTEP_VECTOR_TYPES(long long, longlong, 16, 16)
LOCKSTEP_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
#undef LOCKSTEP_VECTOR_TYPES
