/* SPDX-License-Identifier: MIT */
/* Two requests that a language model answers in one batch: a text that is drawn, and one of three words.
   batch_c MODEL [DEVICE]: a folder or a GGUF file, as samples/models/verse-writer/verse-writer-q8_0.gguf */
#include <stdio.h>
#include <string.h>
#include <vkformer/vkformer.h>

static int has_failed = 0; /* read when the engine is gone */

/* Called on the engine's thread. What it is handed is gone when it returns. */
static void on_end(void* user, vkf_result result, const vkf_generation* made) {
    if (made)
        printf("%s|%s (%u tokens, %s)\n", (const char*)user, made->text, (unsigned)made->token_count,
               vkf_finish_string(made->finish));
    else {
        fprintf(stderr, "%s: %s\n", vkf_result_string(result), vkf_error_message());
        has_failed = 1;
    }
}

static int ask(vkf_engine* engine, const char* prompt, vkf_engine_request request) {
    int32_t tokens[64];
    size_t count = sizeof tokens / sizeof *tokens;
    if (vkf_engine_tokenize(engine, prompt, strlen(prompt), &count, tokens) != VKF_SUCCESS) return 0;
    request.prompt = tokens; /* read during the call, as all that a request points to */
    request.prompt_count = count;
    request.user = (void*)prompt;
    request.on_end = on_end;
    return vkf_engine_submit(engine, &request, NULL) == VKF_SUCCESS;
}

int main(int argc, char** argv) {
    const char* const words[] = {" heaven", " earth", " water"};
    vkf_engine_options options = VKF_ENGINE_OPTIONS_INIT;
    vkf_sampling sampling = VKF_SAMPLING_INIT;
    vkf_engine_request verse = VKF_ENGINE_REQUEST_INIT, word = VKF_ENGINE_REQUEST_INIT;
    vkf_engine* engine = NULL;
    vkf_constraint* constraint = NULL;
    int ok = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: batch_c MODEL [DEVICE]\n");
        return 2;
    }
    options.device = argc > 2 ? argv[2] : NULL;
    sampling.temperature = 0.7f;
    sampling.top_p = 0.9f;
    verse.sampling = &sampling;
    verse.max_tokens = 24;

    ok = vkf_engine_load(argv[1], &options, &engine) >= 0 && vkf_constraint_choice(3, words, &constraint) >= 0;
    word.constraint = constraint;
    ok = ok && ask(engine, "In the beginning", verse) && ask(engine, "And God created the", word) &&
         vkf_engine_wait(engine, 0, UINT64_MAX) >= 0;
    if (!ok) fprintf(stderr, "%s\n", vkf_error_message());
    vkf_constraint_destroy(constraint);
    vkf_engine_destroy(engine);
    return ok && !has_failed ? 0 : 1;
}
