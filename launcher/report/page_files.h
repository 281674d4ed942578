// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// The files of page/ and the charting library, which cmake/LockstepReportPage.cmake puts into the
/// program.
namespace lockstep::report {

extern const std::string_view kPageHtml;  ///< with {{name}} where a part belongs
extern const std::string_view kPageCss;
extern const std::string_view kChartStyleJs;  ///< numbers and colours of charts
extern const std::string_view kChartsJs;      ///< draws charts
extern const std::string_view kTimelineJs;    ///< draws timelines
extern const std::string_view kPageJs;        ///< shows a document
/// Chart.js; empty: it was not found when the program was built, and pages have tables alone.
extern const std::string_view kChartLibrary;

}  // namespace lockstep::report
