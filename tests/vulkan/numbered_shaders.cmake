# cmake -D SPIRV_OPT=spirv-opt -D "TABLES=table.list;…" -D WORK_DIR=folder -P numbered_shaders.cmake: pack_shaders has
# changed nothing in the modules of TABLES but ids and names. Without names and with its ids numbered by spirv-opt, a
# module is what it was before.
set(modules)
foreach(table IN LISTS TABLES)
    file(STRINGS ${table} of_table)
    list(APPEND modules ${of_table})
endforeach()
file(MAKE_DIRECTORY ${WORK_DIR})

# The hash of the module as spirv-opt numbers it; empty where it does not know an extension.
function(hash_of module result)
    set(${result} "" PARENT_SCOPE)
    set(output ${WORK_DIR}/module.spv)
    execute_process(COMMAND ${SPIRV_OPT} --strip-debug --compact-ids ${module} -o ${output}
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
        file(SHA256 ${output} hash)
        set(${result} ${hash} PARENT_SCOPE)
    endif()
endfunction()

set(same 0)
set(unknown 0)
foreach(module IN LISTS modules)
    hash_of(${module} before)
    hash_of(${module}.numbered after)
    if(NOT before STREQUAL after)
        message(SEND_ERROR "${module}: its ids are numbered wrongly")
    elseif(before)
        math(EXPR same "${same} + 1")
    else()
        math(EXPR unknown "${unknown} + 1")
    endif()
endforeach()
message(STATUS "${same} modules are the same, ${unknown} unknown to ${SPIRV_OPT}")
if(NOT same OR unknown GREATER same)
    message(FATAL_ERROR "${SPIRV_OPT} knows too few")
endif()
