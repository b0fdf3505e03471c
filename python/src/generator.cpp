// SPDX-License-Identifier: MIT
#include "vkformer/generator.hpp"

#include <variant>

#include <nanobind/stl/pair.h>

#include "convert.hpp"

namespace vkformer::python {
namespace {

using HeldGenerator = Held<Generator>;
using Tokens = std::vector<std::int32_t>;

nb::tuple result_of(const Generation& g) {
    return nb::make_tuple(text(g.text), g.tokens, text(to_string(g.finish)), g.prompt_tokens, g.reused_tokens, g.score,
                          log_probs(g.log_probs),
                          g.finish == Finish::stop_string ? nb::object(text(g.stop)) : nb::none());
}

nb::list results_of(const std::vector<Generation>& generations) {
    nb::list results;
    for (const Generation& generation : generations) results.append(result_of(generation));
    return results;
}

/// on_text(index, text, token) → whether that generation goes on; None: nobody is told.
Generator::OnText on_text_of(Watch& watch, const nb::object& on_text) {
    if (on_text.is_none()) return {};
    return [&watch, told = on_text.ptr()](std::size_t index, std::string_view part, std::int32_t token) {
        return watch.call(false, [&] { return nb::cast<bool>(nb::handle(told)(index, text(part), token)); });
    };
}

std::vector<Message> messages_of(const nb::list& messages) {
    std::vector<Message> result;
    for (const nb::handle message : messages) result.push_back({text_of(message[0]), text_of(message[1])});
    return result;
}

Result<std::vector<Generation>> only(Result<Generation> one) {
    if (!one) return one.error();
    std::vector<Generation> result;
    result.push_back(*std::move(one));
    return result;
}

BeamSearch beam_search_of(std::uint32_t beams, std::optional<float> length_penalty,
                          std::optional<std::uint32_t> early_stopping) {
    BeamSearch search = {.beams = beams, .length_penalty = length_penalty};
    if (early_stopping) search.early_stopping = static_cast<EarlyStopping>(*early_stopping);
    return search;
}

ScoreOptions score_options_of(std::uint32_t likeliest, std::uint32_t stride, const nb::list& adapters) {
    return {.likeliest = likeliest, .stride = stride, .adapters = scales_of(adapters)};
}

void bind_options(nb::module_& module) {
    nb::class_<Sampling>(module, "Sampling")
        .def(nb::init<>())
        .def_rw("temperature", &Sampling::temperature)
        .def_rw("top_k", &Sampling::top_k)
        .def_rw("top_p", &Sampling::top_p)
        .def_rw("min_p", &Sampling::min_p)
        .def_rw("repetition_penalty", &Sampling::repetition_penalty)
        .def_rw("presence_penalty", &Sampling::presence_penalty)
        .def_rw("frequency_penalty", &Sampling::frequency_penalty)
        .def_rw("no_repeat_ngram", &Sampling::no_repeat_ngram)
        .def_rw("logit_bias", &Sampling::logit_bias);
    nb::class_<Constraint>(module, "Constraint")
        .def_static("json_schema",
                    [](const nb::str& schema) { return value_of(Constraint::json_schema(text_of(schema))); })
        .def_static("json", [] { return value_of(Constraint::json()); })
        .def_static("regex", [](const nb::str& expression) { return value_of(Constraint::regex(text_of(expression))); })
        .def_static("choice", [](const nb::list& choices) { return value_of(Constraint::choice(texts_of(choices))); });
    nb::class_<GenerateOptions>(module, "GenerateOptions")
        .def(nb::init<>())
        .def_rw("max_tokens", &GenerateOptions::max_tokens)
        .def_rw("min_tokens", &GenerateOptions::min_tokens)
        .def_rw("sampling", &GenerateOptions::sampling)
        .def_rw("seed", &GenerateOptions::seed)
        .def_prop_rw(
            "stop", [](const GenerateOptions& o) { return texts(o.stop); },
            [](GenerateOptions& o, const nb::list& stop) { o.stop = texts_of(stop); })
        .def_rw("ignore_end", &GenerateOptions::ignore_end)
        .def_rw("prompt_lookup", &GenerateOptions::prompt_lookup)
        .def_rw("draft_tokens", &GenerateOptions::draft_tokens)
        .def_rw("log_probs", &GenerateOptions::log_probs)
        .def_rw("constraint", &GenerateOptions::constraint)
        .def_prop_rw(
            "adapters",
            [](const GenerateOptions& o) {
                nb::list all;
                for (const auto& [name, scale] : o.adapters) all.append(nb::make_tuple(text(name), scale));
                return all;
            },
            [](GenerateOptions& o, const nb::list& all) { o.adapters = scales_of(all); });
}

}  // namespace

void bind_generator(nb::module_& module) {
    bind_options(module);
    bind_held<Generator>(module, "Generator")
        .def(
            "__init__",
            [](HeldGenerator* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               bool convert_weights, bool cache_q8_0, std::uint32_t context, std::uint32_t batch, std::uint32_t beams,
               std::optional<float> length_penalty, std::optional<std::uint32_t> early_stopping,
               const std::optional<nb::bytes>& draft, bool multi_token, const nb::list& adapters) {
                new (self) HeldGenerator(
                    path_of(path),
                    common.in(GeneratorOptions{.weights = storage_of(convert_weights),
                                               .cache = cache_q8_0 ? CacheStorage::q8_0 : CacheStorage::precision,
                                               .context = context,
                                               .batch = batch,
                                               .beam_search = beam_search_of(beams, length_penalty, early_stopping),
                                               .draft = draft ? path_of(*draft) : std::string(),
                                               .multi_token = multi_token,
                                               .adapters = adapters_of(adapters)}),
                    on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(),
            nb::arg("convert_weights"), nb::arg("cache_q8_0"), nb::arg("context"), nb::arg("batch"), nb::arg("beams"),
            nb::arg("length_penalty").none(), nb::arg("early_stopping").none(), nb::arg("draft").none(),
            nb::arg("multi_token"), nb::arg("adapters"))
        .def(
            "generate",
            [](HeldGenerator& self, const nb::list& given, const GenerateOptions& options, const nb::object& on_text,
               const Stop& stop) {
                const auto prompts = texts_of(given);
                const auto told = on_text_of(self.watch(), on_text);
                return results_of(self.run(&stop, [&](Generator& g) { return g.generate(prompts, options, told); }));
            },
            nb::arg("prompts"), nb::arg("options"), nb::arg("on_text").none(), nb::arg("stop"))
        .def(
            "generate_tokens",
            [](HeldGenerator& self, const std::vector<Tokens>& prompts, const GenerateOptions& options,
               const nb::object& on_text, const Stop& stop) {
                const auto told = on_text_of(self.watch(), on_text);
                return results_of(
                    self.run(&stop, [&](Generator& g) { return g.generate_tokens(prompts, options, told); }));
            },
            nb::arg("prompts"), nb::arg("options"), nb::arg("on_text").none(), nb::arg("stop"))
        .def(
            "chat",
            [](HeldGenerator& self, const nb::list& given, const GenerateOptions& options, const nb::object& on_text,
               const Stop& stop) {
                const auto messages = messages_of(given);
                const auto told = on_text_of(self.watch(), on_text);
                return results_of(self.run(&stop, [&](Generator& g) { return only(g.chat(messages, options, told)); }));
            },
            nb::arg("messages"), nb::arg("options"), nb::arg("on_text").none(), nb::arg("stop"))
        .def(
            "score",
            [](HeldGenerator& self, const nb::list& given, std::uint32_t likeliest, std::uint32_t stride,
               const nb::list& adapters, const nb::object& on_progress, const Stop& stop) {
                const auto texts = texts_of(given);
                const ScoreOptions options = score_options_of(likeliest, stride, adapters);
                const auto progress = progress_of(self.watch(), on_progress);
                return scores(self.run(&stop, [&](Generator& g) { return g.score(texts, options, progress); }));
            },
            nb::arg("texts"), nb::arg("likeliest"), nb::arg("stride"), nb::arg("adapters"),
            nb::arg("on_progress").none(), nb::arg("stop"))
        .def(
            "score_tokens",
            [](HeldGenerator& self, const std::vector<Tokens>& texts, std::uint32_t likeliest, std::uint32_t stride,
               const nb::list& adapters, const nb::object& on_progress, const Stop& stop) {
                const ScoreOptions options = score_options_of(likeliest, stride, adapters);
                const auto progress = progress_of(self.watch(), on_progress);
                return scores(self.run(&stop, [&](Generator& g) { return g.score_tokens(texts, options, progress); }));
            },
            nb::arg("texts"), nb::arg("likeliest"), nb::arg("stride"), nb::arg("adapters"),
            nb::arg("on_progress").none(), nb::arg("stop"))
        .def("tokenize",
             [](HeldGenerator& self, const nb::str& given) { return value_of(self.model().tokenize(text_of(given))); })
        .def("tokenize_chat",
             [](HeldGenerator& self, const nb::list& messages) {
                 return value_of(self.model().tokenize_chat(messages_of(messages)));
             })
        .def("has_tokenizer", [](HeldGenerator& self) { return self.model().has_tokenizer(); })
        .def("context", [](HeldGenerator& self) { return self.model().context(); })
        .def("score_context", [](HeldGenerator& self) { return self.model().score_context(); })
        .def("timings", [](HeldGenerator& self) {
            const GenerationTimings& t = self.model().timings();
            return nb::make_tuple(t.prompt_seconds, t.decode_seconds, t.prompt_tokens, t.decode_steps, t.guessed_tokens,
                                  t.accepted_tokens);
        });
}

}  // namespace vkformer::python
