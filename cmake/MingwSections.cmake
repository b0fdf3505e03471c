# vkformer_leave_out_unused(TARGET): MinGW's linker leaves out what nothing refers to.
#
# By its own script GNU ld keeps what unwinds each function, and so every function of every object that is linked. A copy
# of the script asks for none of it; what unwinds a function that is left out is left out by MingwLink.cmake. What is
# referred to from there alone is kept by name: the routines that handle exceptions, and where g++ has the types that are
# caught (.data$.LDFC*, or .data without -fdata-sections).
execute_process(COMMAND ${CMAKE_LINKER} --verbose OUTPUT_VARIABLE vkformer_linker_script ERROR_QUIET)
string(REGEX REPLACE ".*\n=====+\n(.*)\n=====+\n.*" "\\1\n" vkformer_linker_script "${vkformer_linker_script}")
set(vkformer_sections_options -Wl,--gc-sections)
if(vkformer_linker_script MATCHES "KEEP[(][*][(][.]pdata[*][)][)].*KEEP[(][*][(][.]xdata[*][)][)]")
    string(REGEX REPLACE "KEEP[(]([*][(][.][px]data[*][)])[)]" "\\1" vkformer_linker_script "${vkformer_linker_script}")
    string(REPLACE "*(.data)\n" "KEEP(*(.data .data$.LDFC*))\n" vkformer_linker_script "${vkformer_linker_script}")
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/sections.ld CONTENT "@vkformer_linker_script@" @ONLY)
    set(vkformer_sections_launcher ${CMAKE_COMMAND} -D SCRIPT=${PROJECT_BINARY_DIR}/sections.ld
        -P ${CMAKE_CURRENT_LIST_DIR}/MingwLink.cmake --)
    list(APPEND vkformer_sections_options
        -Wl,-u,__gxx_personality_seh0 -Wl,-u,__C_specific_handler -Wl,-u,_gnu_exception_handler)
endif()

function(vkformer_leave_out_unused target)
    target_link_options(${target} PRIVATE ${vkformer_sections_options})
    if(vkformer_sections_launcher)
        set_target_properties(${target} PROPERTIES
            CXX_LINKER_LAUNCHER "${vkformer_sections_launcher};${CMAKE_CXX_LINKER_LAUNCHER}")
    endif()
endfunction()
