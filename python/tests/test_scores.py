# SPDX-License-Identifier: MIT
"""How likely models find what is given, and other ways to go on."""

import asyncio

import numpy as np
import pytest
from conftest import DATES, GOLDENS

import vkformer


def test_translations_are_scored(device: str) -> None:
    text = "Donnerstag, den 4. März 2021"
    with vkformer.Translator(DATES, device, beams=4, plain_shaders=True) as translator:
        found = translator.translate(text)
        score = translator.score(text, found.text, likeliest=2)
        assert score.tokens == found.tokens
        assert [step.token for step in score.log_probs] == found.tokens[1:]
        assert found.score is not None
        assert abs(score.log_prob / len(score.log_probs) - found.score) < 1e-4
        assert 1 <= score.perplexity < 1.1
        assert all(step.likeliest[0] == (step.token, step.log_prob) for step in score.log_probs)
        told: list[tuple[int, int]] = []
        right, wrong = translator.score(
            text, [found.text, "1999-12-31"], on_progress=lambda done, total: told.append((done, total))
        )
        assert told[-1] == (2, 2)
        assert abs(right.log_prob - score.log_prob) < 1e-4
        assert wrong.log_prob < right.log_prob - 5
        assert asyncio.run(translator.score_async([text], [found.text]))[0].tokens == score.tokens
        with pytest.raises(ValueError, match="there are 1 translations for 2 texts"):
            translator.score([text, text], [found.text])
        with pytest.raises(vkformer.InvalidArgumentError, match="text 2: it is blank"):
            translator.score([text, " "], ["2021", "2021"])


def test_translations_go_on_in_several_ways(device: str) -> None:
    text = "Donnerstag, den 4. März 2021"
    with vkformer.Translator(DATES, device, beams=1, plain_shaders=True) as translator:
        ways = translator.alternatives(text, "2021-0", count=3)
        assert (ways[0].piece, str(ways[0])) == ("3", "2021-03-04")
        assert [way.log_prob for way in ways] == sorted((way.log_prob for way in ways), reverse=True)
        assert len({way.token for way in ways}) == 3
        assert asyncio.run(translator.alternatives_async(text, "2021-0", count=3)) == ways
        with pytest.raises(vkformer.InvalidArgumentError, match="1 to 20"):
            translator.alternatives(text, count=21)


def test_texts_are_scored(device: str) -> None:
    with vkformer.Generator(GOLDENS / "decoder_text", device, context=24, plain_shaders=True) as generator:
        texts = ["the cat and the dog", "a frog"]
        first, second = generator.score(texts, likeliest=1)
        assert first.tokens == generator.tokenize(texts[0])
        assert [step.token for step in first.log_probs] == first.tokens[1:]
        assert generator.score(texts[1]).log_prob == pytest.approx(second.log_prob, abs=1e-4)
        assert generator.score_tokens([first.tokens])[0].log_prob == pytest.approx(first.log_prob, abs=1e-4)
        assert first.perplexity == pytest.approx(np.exp(-first.log_prob / len(first.log_probs)))
        long = " ".join(texts * 12)
        with pytest.raises(vkformer.InvalidArgumentError, match="the context holds 24"):
            generator.score(long)
        told: list[int] = []
        windowed = generator.score(long, stride=12, on_progress=lambda done, total: told.append(total))
        assert windowed.tokens == generator.tokenize(long)
        assert len(windowed.log_probs) == len(windowed.tokens) - 1
        assert told and told[0] > 3
        assert np.isnan(generator.score_tokens([[5]])[0].perplexity)
        assert asyncio.run(generator.score_async(texts))[1].tokens == second.tokens
        with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
            generator.score(long, seed=1)  # type: ignore[call-overload]
