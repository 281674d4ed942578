// SPDX-License-Identifier: Apache-2.0
#include "core/data/glyphs/glyph_renderer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/random.h"
#include "core/data/glyphs/glyph_strokes.h"

namespace lockstep::data {
namespace {

/// Line segments that one span of a curve is cut into.
constexpr int kSpanSegments = 3;
/// Random words of the pixels' noise lie past those of the shape.
constexpr std::uint64_t kNoiseBlock = std::uint64_t{1} << 32;

struct Vec {
  float x = 0, y = 0;
};

/// Maps a control point of the unit box to pixels: a quadratic warp of [-1, 1]^2, then an affine
/// map (size, aspect, slant, rotation, place).
class Placement {
 public:
  explicit Placement(RandomStream& random) {
    for (float& w : warp_) w = random.uniform(-0.12f, 0.12f);
    const float half_height = random.uniform(6.5f, 10.5f);
    const float half_width = half_height * random.uniform(0.55f, 0.85f);
    const float slant = random.uniform(-0.3f, 0.3f);
    // Half-angle formulas keep libm, whose rounding differs between versions, out of the image.
    const float t = random.uniform(-0.11f, 0.11f);
    const float cosine = (1.0f - t * t) / (1.0f + t * t);
    const float sine = 2.0f * t / (1.0f + t * t);
    a_ = cosine * half_width;
    b_ = -slant * cosine * half_height - sine * half_height;
    c_ = sine * half_width;
    d_ = -slant * sine * half_height + cosine * half_height;
    const float room_x = std::max(10.5f - half_width, 0.0f);
    const float room_y = std::max(11.5f - half_height, 0.0f);
    center_ = {13.5f + random.uniform(-room_x, room_x), 13.5f + random.uniform(-room_y, room_y)};
  }

  Vec operator()(GlyphPoint point) const {
    const float x = float(point.x) * 0.02f - 1.0f;
    const float y = float(point.y) * 0.02f - 1.0f;
    const float u = x + warp_[0] * x * y + warp_[1] * y * y + warp_[2] * x * x;
    const float v = y + warp_[3] * x * y + warp_[4] * x * x + warp_[5] * y * y;
    return {center_.x + a_ * u + b_ * v, center_.y + c_ * u + d_ * v};
  }

 private:
  std::array<float, 6> warp_{};
  float a_, b_, c_, d_;  // [u v] -> pixels
  Vec center_;
};

/// The squared distance of each pixel from the nearest stroke, as far as `reach` pixels.
class DistanceField {
 public:
  explicit DistanceField(float reach) : reach_(reach) { squared_.fill(reach * reach); }

  void segment(Vec from, Vec to) {
    const float dx = to.x - from.x, dy = to.y - from.y;
    const float length2 = dx * dx + dy * dy;
    const float inverse = length2 > 0 ? 1.0f / length2 : 0.0f;
    const int x0 = clip(std::min(from.x, to.x) - reach_ + 1.0f);
    const int x1 = clip(std::max(from.x, to.x) + reach_ + 1.0f);
    const int y0 = clip(std::min(from.y, to.y) - reach_ + 1.0f);
    const int y1 = clip(std::max(from.y, to.y) + reach_ + 1.0f);
    for (int y = y0; y < y1; ++y) {
      float* row = squared_.data() + y * kGlyphSize;
      const float py = float(y) - from.y;
      for (int x = x0; x < x1; ++x) {
        const float px = float(x) - from.x;
        const float t = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
        const float ex = px - t * dx, ey = py - t * dy;
        row[x] = std::min(row[x], ex * ex + ey * ey);
      }
    }
  }

  float squared(int pixel) const { return squared_[std::size_t(pixel)]; }

 private:
  static int clip(float coordinate) { return int(std::clamp(coordinate, 0.0f, float(kGlyphSize))); }

  float reach_;
  std::array<float, kGlyphPixels> squared_;
};

/// Point at t in [0, 1] between `p1` and `p2` of the Catmull-Rom spline through four points.
Vec catmull_rom(Vec p0, Vec p1, Vec p2, Vec p3, float t) {
  const auto blend = [t](float a, float b, float c, float d) {
    return b +
           0.5f * t *
               (c - a + t * (2.0f * a - 5.0f * b + 4.0f * c - d + t * (3.0f * (b - c) + d - a)));
  };
  return {blend(p0.x, p1.x, p2.x, p3.x), blend(p0.y, p1.y, p2.y, p3.y)};
}

void draw_stroke(const GlyphStroke& stroke, const Placement& place, DistanceField& field) {
  constexpr std::size_t kMaxPoints = 16;
  std::array<Vec, kMaxPoints> points;
  const int n = int(std::min(stroke.points.size(), kMaxPoints));
  for (int i = 0; i < n; ++i) points[std::size_t(i)] = place(stroke.points[std::size_t(i)]);
  const bool closed = stroke.kind == StrokeKind::loop;
  const auto at = [&](int i) {
    return points[std::size_t(closed ? (i + n) % n : std::clamp(i, 0, n - 1))];
  };
  const int spans = closed ? n : n - 1;
  for (int i = 0; i < spans; ++i) {
    Vec from = at(i);
    const Vec end = at(i + 1);
    if (stroke.kind != StrokeKind::straight)
      for (int s = 1; s < kSpanSegments; ++s) {
        const Vec to = catmull_rom(at(i - 1), at(i), end, at(i + 2), float(s) / kSpanSegments);
        field.segment(from, to);
        from = to;
      }
    field.segment(from, end);
  }
}

}  // namespace

int draw_glyph(std::uint64_t key, std::uint64_t counter, std::byte* pixels) {
  RandomStream random(key, counter);
  const int digit = int(random.below(kGlyphClasses));
  const auto variants = glyph_variants(digit);
  const GlyphStrokes strokes = variants[random.below(std::uint32_t(variants.size()))];
  const Placement place(random);
  const float radius = random.uniform(0.65f, 1.7f);
  const float ink = random.uniform(110.0f, 235.0f);
  const float background = random.uniform(0.0f, 40.0f);
  const float noise = random.uniform(5.0f, 40.0f) / 127.5f;

  DistanceField field(radius + 0.5f);
  for (const GlyphStroke& stroke : strokes) draw_stroke(stroke, place, field);

  for (int pixel = 0; pixel < kGlyphPixels; pixel += 16) {
    const RandomBlock words = philox(key, counter, kNoiseBlock + std::uint64_t(pixel));
    for (int i = 0; i < 16; ++i) {
      // Coverage: 1 inside the stroke, falling to 0 over the width of a pixel at its edge.
      const float distance = std::sqrt(field.squared(pixel + i));
      const float coverage = std::min(radius + 0.5f - distance, 1.0f);
      const float grain = float(words[std::size_t(i / 4)] >> (i % 4 * 8) & 0xffu) - 127.5f;
      const float value = background + ink * coverage + noise * grain;
      pixels[pixel + i] = std::byte(std::clamp(value + 0.5f, 0.0f, 255.0f));
    }
  }
  return digit;
}

}  // namespace lockstep::data
