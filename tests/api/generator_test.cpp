// SPDX-License-Identifier: MIT
#include "vkformer/generator.hpp"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

const nlohmann::json& expected() {
    static const auto parsed = [] {
        std::ifstream file(goldens_dir() / "decoder_text" / "expected.json");
        return nlohmann::json::parse(file);
    }();
    return parsed;
}

Generator load_generator(const std::string& device, GeneratorOptions options = {}) {
    options.device = device;
    options.plain_shaders = true;
    return must(Generator::load(goldens_dir() / "decoder_text", options));
}

std::vector<std::string> prompts() {
    std::vector<std::string> texts;
    for (const auto& entry : expected()["prompts"]) texts.push_back(entry["prompt"].get<std::string>());
    return texts;
}

}  // namespace

TEST_CASE("prompts continue as Hugging Face continues them, alone and together", "[api][generator][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::uint32_t batch = GENERATE(1u, 3u);
    CAPTURE(device, batch);
    Generator generator = load_generator(device, {.batch = batch});
    std::vector<std::string> streamed(prompts().size());
    const auto generations =
        must(generator.generate(prompts(), {.max_tokens = 48}, [&](std::size_t i, std::string_view text, std::int32_t) {
            streamed[i] += text;
            return true;
        }));
    for (std::size_t i = 0; i < generations.size(); ++i) {
        const auto& entry = expected()["prompts"][i];
        CAPTURE(i);
        CHECK(generations[i].tokens == entry["ids"].get<std::vector<std::int32_t>>());
        CHECK(generations[i].text == entry["text"].get<std::string>());
        CHECK(streamed[i] == generations[i].text);
        CHECK(generations[i].prompt_tokens == entry["prompt_ids"].size());
        const bool ends = entry["ids"].size() < 48;
        CHECK(to_string(generations[i].finish) == (ends ? "end_token" : "length"));
    }
}

TEST_CASE("the shipped language model writes transformers' words", "[api][generator][verse][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    if (!takes_case(device, 2)) return;
    std::ifstream file(goldens_dir() / "verse_writer.json");
    const auto cases = nlohmann::json::parse(file)["cases"];
    REQUIRE(cases.size() >= 4);
    Generator generator = must(Generator::load(
        std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf",
        {.device = device, .batch = static_cast<std::uint32_t>(cases.size()), .plain_shaders = true}));
    std::vector<std::string> texts;
    for (const auto& entry : cases) texts.push_back(entry["prompt"].get<std::string>());
    const auto generations = must(generator.generate(texts, {.max_tokens = 40}));
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto& entry = cases[i];
        CAPTURE(texts[i]);
        CHECK(must(generator.tokenize(texts[i])) == entry["input_ids"].get<std::vector<std::int32_t>>());
        const auto expected = entry["greedy_ids"].get<std::vector<std::int32_t>>();  // up to a near tie
        REQUIRE(expected.size() >= 8);
        auto found = generations[i].tokens;
        REQUIRE(found.size() >= expected.size());
        found.resize(expected.size());
        CHECK(found == expected);
        CHECK(generations[i].text.starts_with(entry["text"].get<std::string>()));
    }
}

TEST_CASE("a conversation is answered as Hugging Face answers it, and goes on where it was",
          "[api][generator][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Generator generator = load_generator(device);
    for (const auto& entry : expected()["conversations"]) {
        std::vector<Message> messages;
        for (const auto& message : entry["messages"])
            messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
        const Generation answer = must(generator.chat(messages, {.max_tokens = 48}));
        CHECK(answer.tokens == entry["ids"].get<std::vector<std::int32_t>>());
        CHECK(answer.text == entry["text"].get<std::string>());

        messages.push_back({"assistant", "ok"});
        messages.push_back({"user", "go on"});
        const Generation next = must(generator.chat(messages, {.max_tokens = 4}));
        CHECK(next.reused_tokens + 1 >= answer.prompt_tokens);
    }
}

TEST_CASE("a generation ends at a stop string, which is not printed", "[api][generator]") {
    Generator generator = load_generator("cpu");
    const auto& entry = expected()["prompts"][0];
    const std::string whole = entry["text"].get<std::string>();
    const std::string stop = " frog";
    REQUIRE(whole.find(stop) != whole.npos);
    std::string streamed;
    const auto generation =
        must(generator.generate(std::vector{prompts()[0]}, {.max_tokens = 48, .stop = {"not there", stop}},
                                [&](std::size_t, std::string_view text, std::int32_t) {
                                    streamed += text;
                                    return true;
                                }))[0];
    CHECK(generation.finish == Finish::stop_string);
    CHECK(generation.stop == stop);
    CHECK(generation.text == whole.substr(0, whole.find(stop)));
    CHECK(streamed == generation.text);
}

TEST_CASE("the callback and the end token end a generation, or do not", "[api][generator]") {
    Generator generator = load_generator("cpu");
    const std::vector<std::string> prompt = {prompts()[1]};  // the model ends this one
    CHECK(must(generator.generate(prompt))[0].finish == Finish::end_token);
    CHECK(must(generator.generate(prompt, {.max_tokens = 48, .ignore_end = true}))[0].tokens.size() == 48);
    const auto ended = must(generator.generate(prompt, {}, [](auto, auto, auto) { return false; }))[0];
    CHECK(ended.finish == Finish::caller);
    CHECK(ended.tokens.size() == 1);
    const auto full = must(load_generator("cpu", {.context = 10}).generate(prompt))[0];
    CHECK(full.finish == Finish::context);
}

TEST_CASE("sampling draws by seed and changes from call to call", "[api][generator]") {
    Generator generator = load_generator("cpu");
    const std::vector<std::string> prompt = {"Hello"};
    const GenerateOptions greedy = {.max_tokens = 16, .sampling = Sampling{}};
    GenerateOptions drawn = {.max_tokens = 16, .sampling = Sampling{.temperature = 2}, .seed = 5};
    const auto likeliest = must(generator.generate(prompt, greedy))[0].tokens;
    const auto first = must(generator.generate(prompt, drawn))[0].tokens;
    CHECK(must(generator.generate(prompt, greedy))[0].tokens == likeliest);
    CHECK(must(generator.generate(prompt, drawn))[0].tokens == first);
    CHECK(first != likeliest);
    drawn.seed = 6;
    CHECK(must(generator.generate(prompt, drawn))[0].tokens != first);
}

TEST_CASE("penalties and biases are those of Hugging Face", "[api][generator][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::uint32_t batch = GENERATE(1u, 2u);
    CAPTURE(device, batch);
    if (!takes_case(device, 2)) return;
    Generator generator = load_generator(device, {.batch = batch});
    const std::vector<std::string> twice = {prompts()[0],
                                            prompts()[0]};  // the second run of a row knows nothing of the first
    const auto check = [&](const Sampling& sampling, const char* name) {
        CAPTURE(name);
        for (const Generation& generation : must(generator.generate(twice, {.max_tokens = 48, .sampling = sampling})))
            CHECK(generation.tokens == expected()[name]["ids"].get<std::vector<std::int32_t>>());
    };
    check({.repetition_penalty = 1.4f}, "penalised");
    check({.no_repeat_ngram = 2}, "unrepeated");  // the caches of the run before have no tokens of the prompt
    check({.logit_bias = {{145, -50.0f}, {270, 1.5f}}}, "biased");
    for (const char* other : {"biased", "unrepeated"})
        CHECK(expected()["penalised"]["ids"] != expected()[other]["ids"]);
    const GenerateOptions unknown = {.sampling = Sampling{.logit_bias = {{300, 1.0f}}}};
    CHECK(generator.generate(twice, unknown).error().code == ErrorCode::InvalidArgument);
}

TEST_CASE("a least number of tokens is that of Hugging Face", "[api][generator][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Generator generator = load_generator(device, {.batch = 2});
    std::vector<std::string> texts;
    for (const auto& entry : expected()["lengthened"]) texts.push_back(entry["prompt"]);
    const GenerateOptions options = {.max_tokens = 48, .min_tokens = 40};
    const auto found = must(generator.generate(texts, options));  // three prompts of different lengths in two rows
    for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(found[i].tokens == expected()["lengthened"][i]["ids"].get<std::vector<std::int32_t>>());
    CHECK(must(generator.generate(texts, {.max_tokens = 48}))[1].tokens.size() < 40);

    const TemporaryFolder folder;
    const auto copy = folder / "model";
    std::filesystem::copy(goldens_dir() / "decoder_text", copy);
    nlohmann::json config = {{"eos_token_id", {0, 2}}, {"min_new_tokens", 40}};
    std::ofstream(copy / "generation_config.json") << config.dump();
    Generator own = must(Generator::load(copy, {.device = "cpu", .plain_shaders = true}));
    CHECK(must(own.generate(texts, {.max_tokens = 48}))[1].tokens == found[1].tokens);
    CHECK(must(own.generate(texts, {.max_tokens = 48, .min_tokens = 0}))[1].tokens.size() < 40);
    config["min_length"] = 40;
    config.erase("min_new_tokens");
    std::ofstream(copy / "generation_config.json") << config.dump();
    CHECK(Generator::load(copy, {.device = "cpu"}).error().message.find("min_length") != std::string::npos);
}

TEST_CASE("what a generator cannot do is said", "[api][generator][errors]") {
    CHECK(Generator::load("no-such-model", {.device = "cpu"}).error().code == ErrorCode::FileNotFound);
    Generator generator = load_generator("cpu");
    CHECK(generator.generate(std::vector<std::string>{""}).error().code == ErrorCode::InvalidArgument);
    CHECK(generator.generate(std::vector<std::string>{std::string(4000, 'x')}).error().code ==
          ErrorCode::InvalidArgument);
    CHECK(generator.generate(std::vector<std::string>{"\xff"}).error().code == ErrorCode::InvalidArgument);

    const TemporaryFolder folder;  // the same model with a tokenizer that knows more than it
    const auto copy = folder / "model";
    std::filesystem::copy(goldens_dir() / "decoder_text", copy);
    std::ifstream in(goldens_dir() / "decoder_text" / "tokenizer.json");
    auto tokenizer = nlohmann::json::parse(in);
    tokenizer["model"]["vocab"]["unheard-of"] = 300;
    std::ofstream(copy / "tokenizer.json") << tokenizer.dump();
    const auto error = Generator::load(copy, {.device = "cpu"}).error();
    CHECK(error.code == ErrorCode::ShapeMismatch);
    CHECK(error.message.find("301") != error.message.npos);

    std::filesystem::remove(copy / "chat_template.jinja");
    std::filesystem::copy_file(goldens_dir() / "decoder_text" / "tokenizer.json", copy / "tokenizer.json",
                               std::filesystem::copy_options::overwrite_existing);
    Generator mute = must(Generator::load(copy, {.device = "cpu"}));
    const Message hello = {"user", "hello"};
    CHECK(mute.chat({&hello, 1}).error().code == ErrorCode::FileNotFound);
}

}  // namespace vkformer::tests
