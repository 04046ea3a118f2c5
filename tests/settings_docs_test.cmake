# docs/settings.md is what `sluice settings --markdown` prints.
execute_process(COMMAND ${SLUICE} settings --markdown OUTPUT_VARIABLE printed RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "sluice settings --markdown failed: ${failed}")
endif()
file(READ ${PAGE} page)
if(NOT printed STREQUAL page)
  message(FATAL_ERROR "${PAGE} is not what the program says; "
                      "run: build/sluice settings --markdown > docs/settings.md")
endif()
