// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "launcher/report/chart.h"
#include "launcher/report/series.h"

namespace lockstep::report {
namespace {

constexpr std::size_t kPoints = 1500;

std::pair<double, double> range_of(const std::vector<Point>& points) {
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  for (const Point& point : points) {
    if (std::isnan(point.value)) continue;
    least = std::min(least, point.value);
    greatest = std::max(greatest, point.value);
  }
  return {least, greatest};
}

TEST(ReportSeries, ASpikeOfOneStepInAHundredThousandStays) {
  Series series;
  double sum = 0;
  for (int step = 1; step <= 100'000; ++step) {
    const double value = step == 54'321 ? 99 : step == 777 ? -7 : std::sin(step);
    series.add(step, value);
    sum += value;
  }
  const std::vector<Point> points = extremes(series, kPoints);
  EXPECT_LE(points.size(), kPoints);
  EXPECT_GE(points.size(), kPoints / 3);
  EXPECT_EQ(range_of(points), std::pair(-7.0, 99.0));
  const auto spike =
      std::find_if(points.begin(), points.end(), [](const Point& p) { return p.value == 99; });
  EXPECT_EQ(spike->step, 54'321);
  for (std::size_t i = 1; i < points.size(); ++i) ASSERT_GT(points[i].step, points[i - 1].step);
  // Sums of doubles in another order: an error of n * eps of the sum of sizes at most.
  EXPECT_NEAR(series.mean(), sum / 1e5, 1e5 * std::numeric_limits<double>::epsilon());
  EXPECT_EQ(series.records(), 100'000);
  EXPECT_EQ(series.last_step(), 100'000);
}

TEST(ReportSeries, FewRecordsStayAsTheyAre) {
  Series series;
  for (int step = 1; step <= 1000; ++step) series.add(step, step % 7);
  const std::vector<Point> points = extremes(series, kPoints);
  ASSERT_EQ(points.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(points[std::size_t(i)].value, (i + 1) % 7);
}

TEST(ReportSeries, WeightsAndMeansOfStretches) {
  Series series;
  series.add(10, 1, 10);
  series.add(11, 12, 1);
  EXPECT_DOUBLE_EQ(series.mean(), 2);
  EXPECT_EQ(series.mean_between(0, 10), 1);
  EXPECT_EQ(series.mean_between(10, 20), 12);
  EXPECT_EQ(series.mean_between(11, 20), std::nullopt);
}

TEST(ReportSeries, TheMeanOfRatesIsThatOfTheTimesTheyTake) {
  Series rates(Series::Values::rates);
  rates.add(1, 1);
  rates.add(2, 3);
  rates.add(3, 0);
  EXPECT_DOUBLE_EQ(rates.mean(), 1.5);
  EXPECT_DOUBLE_EQ(*rates.mean_between(0, 2), 1.5);
  EXPECT_EQ(rates.not_finite(), 1);
  for (int step = 4; step <= 20'003; ++step) rates.add(step, step % 2 == 0 ? 1 : 3);
  EXPECT_LT(means(rates, 10).size(), 11u);
  for (const Point& point : means(rates, 10))
    EXPECT_TRUE(std::isnan(point.value) || std::abs(point.value - 1.5) < 1e-3) << point.step;
}

TEST(ReportSeries, WhatIsNotFiniteLeavesAGap) {
  Series series;
  series.add(1, 1);
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300}) series.add(2, value);
  series.add(3, 2);
  EXPECT_EQ(series.not_finite(), 4);
  const std::vector<Point> points = extremes(series, kPoints);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_TRUE(std::isnan(points[1].value));
  EXPECT_EQ(series.greatest(), 2);
}

TEST(ReportSeries, ARollbackForgetsWhatCameAfter) {
  Series series;
  for (int step = 1; step <= 10; ++step) series.add(step, step == 9 ? 100 : 1);
  series.drop_after(8);
  EXPECT_EQ(series.greatest(), 1);
  EXPECT_EQ(series.last_step(), 8);
  series.drop_after(0);
  EXPECT_TRUE(series.empty());
}

TEST(ReportSeries, StepsStayInOrderWhereARollbackCutsJoinedOnes) {
  Series series;
  for (int step = 1; step <= 10'000; ++step) series.add(step, 1);
  series.drop_after(6002);  // in the middle of four
  for (int step = 6003; step <= 6010; ++step) series.add(step, 2);
  EXPECT_EQ(series.last_step(), 6010);
  double before = 0;
  for (const Bucket& bucket : series.joined(Series::kMaxBuckets)) {
    EXPECT_GT(bucket.first_step, before);
    EXPECT_LE(bucket.first_step, bucket.greatest.step);
    EXPECT_LE(bucket.greatest.step, bucket.last_step);
    before = bucket.last_step;
  }
}

/// The text as the page's data has it.
std::string safe(const std::string& text) { return safe_json(Json::array({text})); }

TEST(ReportDocument, TextsCannotEndTheirElement) {
  EXPECT_EQ(safe("</script><!--"), R"(["\u003c/script>\u003c!--"])");
  EXPECT_EQ(Json::parse(safe("<a & \"b\">"))[0], "<a & \"b\">");
  const std::string letters =
      "Gr\xc3\xbc\xc3\x9f"
      "e \xe2\x82\xac \xf0\x9f\x99\x82\n\t";
  EXPECT_EQ(Json::parse(safe(letters))[0], letters);
  const Json keys{{"<k>", 1}};
  EXPECT_EQ(safe_json(keys), R"({"\u003ck>":1})");
}

TEST(ReportDocument, WhatIsNoTextIsReplaced) {
  const std::string bad = "\xef\xbf\xbd";
  const auto shown = [](const std::string& text) {
    return Json::parse(safe(text))[0].get<std::string>();
  };
  EXPECT_EQ(shown("a\xff<"), "a" + bad + "<");
  EXPECT_EQ(shown(std::string("a\0b\x1b\x7f", 5)), "a" + bad + "b" + bad + bad);
  for (const char* none : {"\xed\xa0\x80", "\xc0\xbc", "\xe2\x82"})
    EXPECT_EQ(shown(none).find_first_not_of(bad), std::string::npos) << none;
  const std::string cut = shown(std::string(1999, 'x') + "\xe2\x82\xac" + std::string(100, 'y'));
  EXPECT_EQ(cut, std::string(1999, 'x') + "... (103 bytes more)") << "no half characters";
}

TEST(ReportDocument, NoNumberBreaksTheJson) {
  Series series;
  for (const double value : {1e60, -1e60, 5e-324, -1e-320, 0.1}) series.add(1, value);
  const LineChart chart{.id = "a",
                        .title = "t",
                        .curves = {{"c", extremes(series, kPoints), 0, Curve::Draw::line, &series},
                                   {"d", {{1, HUGE_VAL}, {2, std::nan("")}}}}};
  const Json json = Json::parse(safe_json(chart_json(chart)));
  EXPECT_EQ(json["series"][1]["y"], Json::array({nullptr, nullptr}));
  EXPECT_EQ(chart_json(LineChart{.id = "a", .title = "t", .curves = {{"c", {{1, std::nan("")}}}}}),
            nullptr);
  EXPECT_EQ(chart_json(AreaChart{}), nullptr);
  EXPECT_EQ(
      chart_json(BarChart{.id = "a", .title = "t", .parts = {{"p"}}, .bars = {{"b", {0}, ""}}}),
      nullptr);
}

TEST(ReportDocument, NumbersForPeople) {
  EXPECT_EQ(format_number(1234567), "1,234,567");
  EXPECT_EQ(format_number(0.0123456), "0.01235");
  EXPECT_EQ(format_number(1234.56), "1,235");
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(1.2e-7), "1.2e-07");
  EXPECT_EQ(format_number(std::nan("")), "-");
  EXPECT_EQ(format_percent(0.41), "41%");
  EXPECT_EQ(format_percent(0.004), "0.4%");
  EXPECT_EQ(format_percent(0.0001), "<0.1%");
}

}  // namespace
}  // namespace lockstep::report
