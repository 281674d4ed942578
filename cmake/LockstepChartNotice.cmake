# The licence notice of a charting library, whichever file it is: Chart.js is under the MIT licence, whose notice goes with
# every copy.
#
# lockstep_chart_notice(FILE COPYRIGHT COMMENT): the line "(c) YEARS Chart.js Contributors", as FILE has it where it names
# years; and the comment to put before FILE's text: empty where FILE has a notice itself, as releases of Chart.js do.
# Bundlers remove it.
function(lockstep_chart_notice file copyright comment)
  file(READ "${file}" text)
  set(line "(c) Chart.js Contributors")
  if(text MATCHES "\\([cC]\\) ?[0-9, -]*Chart\\.js Contributors")
    set(line "${CMAKE_MATCH_0}")
  endif()
  set(notice "")
  # In the form in which packaging/bundle.py looks for it in the program.
  if(NOT text MATCHES "/\\*![ \n]*\\* Chart\\.js" OR NOT text MATCHES "Chart\\.js Contributors" OR NOT text MATCHES "MIT License")
    set(version "")
    if(text MATCHES "version *[:=] *[\"']([34]\\.[0-9]+\\.[0-9]+)[\"']")
      set(version " v${CMAKE_MATCH_1}")
    endif()
    set(notice "/*!\n * Chart.js${version}\n * https://www.chartjs.org\n * ${line}\n * Released under the MIT License\n */\n")
  endif()
  set(${copyright} "${line}" PARENT_SCOPE)
  set(${comment} "${notice}" PARENT_SCOPE)
endfunction()
