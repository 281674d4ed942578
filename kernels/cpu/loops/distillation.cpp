// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_reduce.h"
#include "kernels/cpu/losses/losses.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

LOCKSTEP_INLINE float largest_logit(const float* x, std::int64_t count) {
  Vec top = broadcast(-kInfinity);
  for_each_vec(count, [&](std::int64_t i, auto lanes) {
    top = max(load_or(x + i, lanes, broadcast(-kInfinity)), top);
  });
  return largest(top);
}

LOCKSTEP_INLINE float log_of(float sum) { return log_from_one(broadcast(sum))[0]; }

/// (x - top) / T of some lanes; others are as unlikely as can be.
template <typename Lanes>
LOCKSTEP_INLINE Vec below(const float* x, float top, Vec inverse, Lanes lanes) {
  return (load_or(x, lanes, broadcast(-kInfinity)) - broadcast(top)) * inverse;
}

/// The loss of one row; `d`, which may be `x`, gets its gradient over dx_factor unless it is null.
LOCKSTEP_INLINE double soft_row(const DistillationArgs& a,
                                const float* x,
                                const float* teacher,
                                float* d) {
  const float top = largest_logit(x, a.classes), teachers = largest_logit(teacher, a.classes);
  const Vec inverse = broadcast(a.inverse_temperature);
  Vec sum = zero(), teachers_sum = zero(), apart = zero();
  for_each_vec(a.classes, [&](std::int64_t i, auto lanes) {
    const Vec student = below(x + i, top, inverse, lanes);
    const Vec wanted = below(teacher + i, teachers, inverse, lanes);
    const Vec e = exp_nonpositive(student), q = exp_nonpositive(wanted);
    sum = sum + e;
    teachers_sum = teachers_sum + q;
    apart = apart + keep_lanes(q * (wanted - student), lanes);
    if (d != nullptr) store(d + i, e, lanes);
  });
  const float of_student = total(sum), of_teacher = total(teachers_sum);
  if (d != nullptr) {
    const Vec p_factor = broadcast(a.dx_factor / of_student),
              q_factor = broadcast(a.dx_factor / of_teacher);
    for_each_vec(a.classes, [&](std::int64_t i, auto lanes) {
      const Vec q = exp_nonpositive(below(teacher + i, teachers, inverse, lanes));
      store(d + i, load(d + i, lanes) * p_factor - q * q_factor, lanes);
    });
  }
  return double(total(apart) / of_teacher) + double(log_of(of_student)) -
         double(log_of(of_teacher));
}

LOCKSTEP_INLINE double hard_row(const DistillationArgs& a,
                                const float* x,
                                const float* teacher,
                                float* d) {
  std::int64_t likeliest = 0;
  for (std::int64_t k = 1; k < a.classes; ++k)
    if (teacher[k] > teacher[likeliest]) likeliest = k;
  const float top = largest_logit(x, a.classes), of_likeliest = x[likeliest] - top;
  Vec sum = zero();
  for_each_vec(a.classes, [&](std::int64_t i, auto lanes) {
    const Vec e = exp_nonpositive(below(x + i, top, broadcast(1.0f), lanes));
    sum = sum + e;
    if (d != nullptr) store(d + i, e, lanes);
  });
  const float of_all = total(sum);
  if (d != nullptr) {
    const Vec factor = broadcast(a.dx_factor / of_all);
    for_each_vec(a.classes, [&](std::int64_t i, auto lanes) {
      store(d + i, load(d + i, lanes) * factor, lanes);
    });
    d[likeliest] -= a.dx_factor;
  }
  return double(log_of(of_all)) - double(of_likeliest);
}

}  // namespace

double distillation(const DistillationArgs& a) {
  double sum = 0;
  for (std::int64_t n = 0; n < a.rows; ++n) {
    const std::int64_t first = n * a.classes;
    float* const d = a.dx == nullptr ? nullptr : a.dx + first;
    sum += a.hard ? hard_row(a, a.x + first, a.teacher + first, d)
                  : soft_row(a, a.x + first, a.teacher + first, d);
  }
  return sum;
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
