// SPDX-License-Identifier: MIT
#include "vkformer/translator.hpp"

#include "convert.hpp"

namespace vkformer::python {
namespace {

nb::tuple result_of(Translation translation) {
    nb::list further;
    for (Translation& next : translation.further) further.append(result_of(std::move(next)));
    return nb::make_tuple(text(translation.text), std::move(translation.tokens), translation.score, further);
}

/// (text, prefix, from, to), str each.
PrefixedText source_of(const nb::tuple& given) {
    const auto field = [&](std::size_t i) { return text_of(nb::cast<nb::str>(given[i])); };
    return {.text = field(0), .prefix = field(1), .from = field(2), .to = field(3)};
}

}  // namespace

void bind_translator(nb::module_& module) {
    using HeldTranslator = Held<Translator>;
    bind_held<Translator>(module, "Translator")
        .def(
            "__init__",
            [](HeldTranslator* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               bool convert_weights, std::uint32_t beams, std::uint32_t max_length, std::uint32_t batch,
               std::uint32_t hypotheses, const nb::str& from, const nb::str& to) {
                new (self) HeldTranslator(path_of(path),
                                          common.in(TranslatorOptions{.weights = storage_of(convert_weights),
                                                                      .beams = beams,
                                                                      .max_length = max_length,
                                                                      .batch = batch,
                                                                      .hypotheses = hypotheses,
                                                                      .from = text_of(from),
                                                                      .to = text_of(to)}),
                                          on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(),
            nb::arg("convert_weights"), nb::arg("beams"), nb::arg("max_length"), nb::arg("batch"),
            nb::arg("hypotheses"), nb::arg("from_language"), nb::arg("to_language"))
        .def(
            "translate",
            [](HeldTranslator& self, const nb::list& given, const nb::object& on_progress, const Stop& stop) {
                std::vector<PrefixedText> sources;
                for (const nb::handle one : given) sources.push_back(source_of(nb::cast<nb::tuple>(one)));
                const auto progress = progress_of(self.watch(), on_progress);
                auto translations = self.run(&stop, [&](Translator& t) { return t.translate(sources, progress); });
                nb::list results;
                for (Translation& one : translations) results.append(result_of(std::move(one)));
                return results;
            },
            nb::arg("sources"), nb::arg("on_progress").none(), nb::arg("stop"))
        .def(
            "score",
            [](HeldTranslator& self, const nb::list& given, std::uint32_t likeliest, const nb::object& on_progress,
               const Stop& stop) {
                std::vector<TranslatedText> pairs;
                for (const nb::handle one : given) {
                    PrefixedText pair = source_of(nb::cast<nb::tuple>(one));
                    pairs.push_back({.text = std::move(pair.text),
                                     .translation = std::move(pair.prefix),
                                     .from = std::move(pair.from),
                                     .to = std::move(pair.to)});
                }
                const auto progress = progress_of(self.watch(), on_progress);
                return scores(self.run(&stop, [&](Translator& t) { return t.score(pairs, likeliest, progress); }));
            },
            nb::arg("pairs"), nb::arg("likeliest"), nb::arg("on_progress").none(), nb::arg("stop"))
        .def("alternatives",
             [](HeldTranslator& self, const nb::tuple& given, std::uint32_t count, const Stop& stop) {
                 const PrefixedText source = source_of(given);
                 auto found = self.run(&stop, [&](Translator& t) { return t.alternatives(source, count); });
                 nb::list results;
                 for (Alternative& one : found)
                     results.append(nb::make_tuple(one.next.token, one.next.log_prob, python::text(one.piece),
                                                   result_of(std::move(one.translation))));
                 return results;
             })
        .def("attention",
             [](HeldTranslator& self, const nb::tuple& given, const Stop& stop) {
                 const PrefixedText source = source_of(given);
                 auto maps = self.run(&stop, [&](Translator& t) { return t.attention(source); });
                 return nb::make_tuple(result_of(std::move(maps.translation)), texts(maps.source), texts(maps.read),
                                       texts(maps.written), attention(std::move(maps.weights)));
             })
        .def("check", [](HeldTranslator& self, const nb::tuple& given) {
            const auto checked = self.model().check(source_of(given));
            if (!checked) raise(checked.error());
        });
}

}  // namespace vkformer::python
