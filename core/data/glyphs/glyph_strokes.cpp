// SPDX-License-Identifier: Apache-2.0
#include "core/data/glyphs/glyph_strokes.h"

#include <array>

namespace lockstep::data {
namespace {

using enum StrokeKind;

// Points are shared by value where strokes meet, so that they still meet after a warp.
constexpr GlyphPoint kZeroLoop[] = {
    {50, 0}, {85, 14}, {100, 50}, {85, 86}, {50, 100}, {15, 86}, {0, 50}, {15, 14}};
constexpr GlyphStroke kZero[] = {{loop, kZeroLoop}};

constexpr GlyphPoint kOneStem[] = {{50, 0}, {50, 100}};
constexpr GlyphPoint kOneFlag[] = {{18, 26}, {55, 0}, {55, 100}};
constexpr GlyphPoint kOneFoot[] = {{20, 100}, {90, 100}};
constexpr GlyphStroke kOnePlain[] = {{straight, kOneStem}};
constexpr GlyphStroke kOneFlagged[] = {{straight, kOneFlag}};
constexpr GlyphStroke kOneFooted[] = {{straight, kOneFlag}, {straight, kOneFoot}};

constexpr GlyphPoint kTwoNeck[] = {
    {4, 26}, {18, 6}, {50, 0}, {84, 8}, {94, 30}, {76, 55}, {40, 79}, {4, 100}};
constexpr GlyphPoint kTwoFoot[] = {{4, 100}, {100, 100}};
constexpr GlyphPoint kTwoCurl[] = {{2, 24},
                                   {20, 4},
                                   {55, 0},
                                   {88, 12},
                                   {88, 38},
                                   {58, 70},
                                   {24, 96},
                                   {4, 92},
                                   {14, 78},
                                   {40, 86},
                                   {70, 98},
                                   {100, 92}};
constexpr GlyphStroke kTwo[] = {{curve, kTwoNeck}, {straight, kTwoFoot}};
constexpr GlyphStroke kTwoCurled[] = {{curve, kTwoCurl}};

constexpr GlyphPoint kThreeTop[] = {{6, 12}, {40, 0}, {80, 8}, {86, 28}, {70, 43}, {38, 48}};
constexpr GlyphPoint kThreeFlat[] = {{8, 0}, {88, 0}, {42, 42}};
constexpr GlyphPoint kThreeBowl[] = {{38, 48}, {80, 54}, {96, 75}, {76, 95}, {40, 100}, {4, 88}};
constexpr GlyphPoint kThreeLowBowl[] = {{42, 42}, {82, 50}, {96, 73}, {76, 95}, {40, 100}, {4, 88}};
constexpr GlyphStroke kThreeRound[] = {{curve, kThreeTop}, {curve, kThreeBowl}};
constexpr GlyphStroke kThreeFlatTop[] = {{straight, kThreeFlat}, {curve, kThreeLowBowl}};

constexpr GlyphPoint kFourClosed[] = {{70, 100}, {70, 0}, {2, 68}, {100, 68}};
constexpr GlyphPoint kFourHook[] = {{22, 0}, {8, 56}, {98, 56}};
constexpr GlyphPoint kFourStem[] = {{80, 4}, {72, 100}};
constexpr GlyphStroke kFourSharp[] = {{straight, kFourClosed}};
constexpr GlyphStroke kFourOpen[] = {{straight, kFourHook}, {straight, kFourStem}};

constexpr GlyphPoint kFiveHook[] = {{92, 0}, {20, 0}, {12, 46}};
constexpr GlyphPoint kFiveBowl[] = {
    {12, 46}, {50, 37}, {90, 52}, {94, 76}, {66, 97}, {30, 100}, {4, 88}};
constexpr GlyphStroke kFive[] = {{straight, kFiveHook}, {curve, kFiveBowl}};

constexpr GlyphPoint kSixTail[] = {{82, 2}, {46, 14}, {16, 44}, {5, 74}};
constexpr GlyphPoint kSixLoop[] = {
    {5, 74}, {26, 52}, {62, 47}, {94, 62}, {93, 86}, {60, 100}, {24, 97}};
constexpr GlyphStroke kSix[] = {{curve, kSixTail}, {loop, kSixLoop}};

constexpr GlyphPoint kSevenEdge[] = {{0, 0}, {96, 0}, {40, 100}};
constexpr GlyphPoint kSevenBar[] = {{24, 50}, {90, 50}};
constexpr GlyphPoint kSevenRoof[] = {{0, 12}, {4, 0}, {98, 0}};
constexpr GlyphPoint kSevenLeg[] = {{98, 0}, {68, 38}, {46, 70}, {42, 100}};
constexpr GlyphStroke kSeven[] = {{straight, kSevenEdge}};
constexpr GlyphStroke kSevenBarred[] = {{straight, kSevenEdge}, {straight, kSevenBar}};
constexpr GlyphStroke kSevenCurved[] = {{straight, kSevenRoof}, {curve, kSevenLeg}};

constexpr GlyphPoint kEightUpper[] = {{50, 0}, {84, 10}, {82, 36}, {50, 48}, {18, 36}, {16, 10}};
constexpr GlyphPoint kEightLower[] = {{50, 48}, {90, 62}, {92, 88}, {50, 100}, {8, 88}, {10, 62}};
constexpr GlyphStroke kEight[] = {{loop, kEightUpper}, {loop, kEightLower}};

constexpr GlyphPoint kNineLoop[] = {
    {95, 26}, {76, 48}, {40, 54}, {6, 38}, {7, 13}, {40, 0}, {76, 3}};
constexpr GlyphPoint kNineTail[] = {{95, 26}, {92, 62}, {74, 100}};
constexpr GlyphPoint kNineHook[] = {{95, 26}, {94, 66}, {76, 94}, {44, 100}, {14, 88}};
constexpr GlyphStroke kNineStraight[] = {{loop, kNineLoop}, {curve, kNineTail}};
constexpr GlyphStroke kNineHooked[] = {{loop, kNineLoop}, {curve, kNineHook}};

constexpr GlyphStrokes kZeroes[] = {kZero};
constexpr GlyphStrokes kOnes[] = {kOnePlain, kOneFlagged, kOneFooted};
constexpr GlyphStrokes kTwos[] = {kTwo, kTwoCurled};
constexpr GlyphStrokes kThrees[] = {kThreeRound, kThreeFlatTop};
constexpr GlyphStrokes kFours[] = {kFourSharp, kFourOpen};
constexpr GlyphStrokes kFives[] = {kFive};
constexpr GlyphStrokes kSixes[] = {kSix};
constexpr GlyphStrokes kSevens[] = {kSeven, kSevenBarred, kSevenCurved};
constexpr GlyphStrokes kEights[] = {kEight};
constexpr GlyphStrokes kNines[] = {kNineStraight, kNineHooked};

constexpr std::array<std::span<const GlyphStrokes>, 10> kDigits = {
    kZeroes, kOnes, kTwos, kThrees, kFours, kFives, kSixes, kSevens, kEights, kNines};

}  // namespace

std::span<const GlyphStrokes> glyph_variants(int digit) { return kDigits[std::size_t(digit)]; }

}  // namespace lockstep::data
