# What the program holds of a charting library, and the copyright file of the package, name its licence: of a file with a
# notice, once, and of one whose notice a bundler has removed.
#
# cmake -D SOURCE=DIR -D WORK=DIR -P chart_notice_test.cmake
set(code "!function(){var Chart={};Chart.version=\"4.4.1\"}();\n")
set(notice "/*!\n * Chart.js v3.9.1\n * https://www.chartjs.org\n * (c) 2022 Chart.js Contributors\n")
string(APPEND notice " * Released under the MIT License\n */\n")
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/stripped.js "${code}")
file(WRITE ${WORK}/released.js "${notice}${code}")

function(expect_once text words)
  string(REGEX MATCHALL "${words}" found "${text}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "'${words}' is ${count} times in\n${text}")
  endif()
endfunction()

foreach(kind stripped released)
  execute_process(COMMAND ${CMAKE_COMMAND} -D OUTPUT=${WORK}/${kind}.cpp -D FILES=kChartLibrary=${WORK}/${kind}.js
    -P ${SOURCE}/cmake/LockstepReportPage.cmake COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${WORK}/${kind}.cpp text)
  expect_once("${text}" "Chart.js Contributors")
  expect_once("${text}" "MIT License")
  expect_once("${text}" "Chart.js v[0-9.]+")

  file(MAKE_DIRECTORY ${WORK}/${kind}/runtime/usr/share/doc/lockstep)
  execute_process(COMMAND ${CMAKE_COMMAND} -D CPACK_TEMPORARY_INSTALL_DIRECTORY=${WORK}/${kind}
    -D CPACK_LOCKSTEP_CHART_JS=${WORK}/${kind}.js -P ${SOURCE}/packaging/debian_files.cmake COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${WORK}/${kind}/runtime/usr/share/doc/lockstep/copyright text)
  expect_once("${text}" "Chart.js Contributors")
  expect_once("${text}" "Permission is hereby granted")
endforeach()
