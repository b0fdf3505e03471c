// SPDX-License-Identifier: MIT
/// Runs tokens through a GGUF model in llama.cpp and writes the logits of every position as float32: what tests of GGUF models are
/// held against.   llama_logits MODEL.gguf OUT.f32 [--lora ADAPTER.gguf] TOKEN...
/// Build: c++ -std=c++20 tools/peers/llama_logits.cpp -lllama -lggml -lggml-base -o llama_logits   (Debian: libllama-dev)
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: llama_logits MODEL.gguf OUT.f32 [--lora ADAPTER.gguf] TOKEN...\n");
        return 2;
    }
    std::vector<llama_token> tokens;
    const bool has_adapter = argc > 5 && std::string(argv[3]) == "--lora";
    for (int i = has_adapter ? 5 : 3; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
    ggml_backend_load_all();
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    llama_model* const model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context* const context = llama_init_from_model(model, params);
    if (!context) return 1;
    if (has_adapter) {
        llama_adapter_lora* adapter = llama_adapter_lora_init(model, argv[4]);
        float scale = 1;
        if (!adapter || llama_set_adapters_lora(context, &adapter, 1, &scale) != 0) return 1;
    }
    const auto count = static_cast<int>(tokens.size());
    llama_batch batch = llama_batch_init(count, 0, 1);
    for (int i = 0; i < count; ++i) {
        batch.token[i] = tokens[static_cast<std::size_t>(i)];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = count;
    if (llama_decode(context, batch) != 0) return 1;
    const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    std::FILE* const out = std::fopen(argv[2], "wb");
    if (!out) return 1;
    for (int i = 0; i < count; ++i)
        std::fwrite(llama_get_logits_ith(context, i), sizeof(float), static_cast<std::size_t>(vocab), out);
    std::fclose(out);
    std::printf("%d positions, %d logits each\n", count, vocab);
    return 0;
}
