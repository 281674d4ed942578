# Puts the page of `lockstep report` (launcher/report/page) and the charting library into the program.
#
# lockstep_report_page(TARGET): a source of TARGET that defines the texts of launcher/report/page_files.h. Run as a script,
# with -D OUTPUT=FILE -D FILES=NAME=FILE;..., this file writes that source.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(LOCKSTEP_REPORT_PAGE_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(lockstep_report_page target)
    set(page ${PROJECT_SOURCE_DIR}/launcher/report/page)
    set(sources ${page}/report.html ${page}/report.css ${page}/chart_style.js ${page}/charts.js ${page}/timeline.js
      ${page}/page.js)
    set(library)
    if(LOCKSTEP_CHART_JS)
      set(library ${LOCKSTEP_CHART_JS})
    endif()
    set(output ${CMAKE_CURRENT_BINARY_DIR}/report_page_files.cpp)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output}
        "-DFILES=kPageHtml=${page}/report.html;kPageCss=${page}/report.css;kChartStyleJs=${page}/chart_style.js;kChartsJs=${page}/charts.js;kTimelineJs=${page}/timeline.js;kPageJs=${page}/page.js;kChartLibrary=${library}"
        -P ${LOCKSTEP_REPORT_PAGE_SCRIPT}
      DEPENDS ${sources} ${library} ${LOCKSTEP_REPORT_PAGE_SCRIPT}
        ${PROJECT_SOURCE_DIR}/cmake/LockstepChartNotice.cmake VERBATIM
      COMMENT "Embedding the page of lockstep report")
    set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${target} PRIVATE ${output})
  endfunction()
  return()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/LockstepChartNotice.cmake)
set(code "#include \"launcher/report/page_files.h\"\n\nnamespace lockstep::report {\n")
foreach(entry IN LISTS FILES)
  string(REGEX MATCH "^([^=]+)=(.*)$" entry "${entry}")
  set(name ${CMAKE_MATCH_1})
  set(file "${CMAKE_MATCH_2}")
  set(text "")
  if(file)
    file(READ "${file}" text)
    string(REGEX MATCH "</[sS][cC][rR][iI][pP][tT]|<!--|\\)lockstep\"" end "${text}")
    if(end AND NOT file MATCHES "\\.html$")
      message(FATAL_ERROR "${file} has '${end}', which would end the element or the literal that holds it")
    endif()
    if(name STREQUAL "kChartLibrary")
      lockstep_chart_notice(${file} copyright comment)
      string(PREPEND text "${comment}")
    endif()
  endif()
  string(APPEND code "const std::string_view ${name} = R\"lockstep(${text})lockstep\";\n")
endforeach()
string(APPEND code "}  // namespace lockstep::report\n")
file(WRITE ${OUTPUT} "${code}")
