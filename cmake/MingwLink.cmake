# cmake -D SCRIPT=sections.ld -P MingwLink.cmake -- COMMAND…: links by COMMAND and the script, twice.
#
# GNU ld keeps what unwinds a function (.pdata and .xdata) when it leaves the function out, unused or one of many copies:
# a quarter of it all. So it first writes a map; what that names as left out loses what unwinds it in the second run.
math(EXPR last "${CMAKE_ARGC} - 1")
set(command)
foreach(i RANGE ${last})
    if(is_command)
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif(CMAKE_ARGV${i} STREQUAL "--")
        set(is_command TRUE)
    endif()
endforeach()

list(FIND command -o output)
math(EXPR output "${output} + 1")
list(GET command ${output} output)

# What a failed run leaves behind would be taken for the result the next time.
function(fail why)
    file(REMOVE ${output} ${output}.map ${output}.ld)
    message(FATAL_ERROR "${why}")
endfunction()
function(link)
    execute_process(COMMAND ${command} ${ARGN} RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        fail("the linker failed")
    endif()
endfunction()

link(-Wl,-T,${SCRIPT} -Wl,-Map,${output}.map)
file(READ ${output}.map map)
file(REMOVE ${output}.map)
# A section that is left out has the address 0.
string(REGEX MATCHALL " [.]text[^ \n]*[ \n]+0x0+ +0x[0-9a-f]+ [^\n]+" left_out "${map}")
string(REGEX MATCHALL " [.]text +0x0*[1-9a-f][0-9a-f]* +0x[0-9a-f]+ [^\n]+" kept "${map}")
if(NOT left_out)
    fail("the map of ${output} names nothing that is left out")
endif()
# An object of a library is libx.a(x.o) in the map and libx.a:x.o in a script. A library may have two objects of one name: what
# unwinds the functions of one that is not compiled in sections is left out if neither is there.
foreach(list left_out kept)
    list(TRANSFORM ${list} REPLACE "[(]([^)]*)[)]$" ":\\1")
    list(TRANSFORM ${list} REPLACE "^ [.]text([^ \n]*).* 0x[0-9a-f]+ (.*)$" "\"\\2\" (\".pdata\\1\" \".xdata\\1\")")
endforeach()
list(REMOVE_ITEM left_out ${kept})
list(JOIN left_out "\n" left_out)
file(READ ${SCRIPT} script)
string(REPLACE "\nSECTIONS\n{\n" "\nSECTIONS\n{\n/DISCARD/ : {\n${left_out}\n}\n" second_script "${script}")
if(second_script STREQUAL script)
    fail("${SCRIPT} does not begin its sections as the linker's own script does")
endif()
file(WRITE ${output}.ld "${second_script}")
link(-Wl,-T,${output}.ld)
file(REMOVE ${output}.ld)
