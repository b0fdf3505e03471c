#!/usr/bin/env python3
"""Writes madlad_texts/: a T5 that is told by a token of its source into which language it translates, as MADLAD-400 is, with its tokenizer.

    python3 tests/goldens/make_madlad.py [--out DIR]

The model has learned to answer every sentence with one that differs from language to language. See README.md for the versions.
"""

import argparse
import json
import pathlib
import shutil
import warnings

import tokenizers
import torch
import transformers

TEXTS = ["The cat sat on the mat.", "We see the sea.", "A dog eats an apple.", "Snow falls in winter."]
LANGUAGES = ["de", "fr", "en", "zh_Latn"]
BEAMS = {"de": 1, "fr": 3, "zh_Latn": 2}


def make_tokenizer(out):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=120, special_tokens=[*special, *(f"<2{name}>" for name in LANGUAGES)], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    made = json.loads(tokenizer.to_str())
    for token in made["added_tokens"]:
        token["special"] = token["content"] in special  # a language is a piece like another
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(made))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    result = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>", pad_token="<s>")
    result.save_pretrained(out)
    config = json.loads((out / "tokenizer_config.json").read_text())
    (out / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "T5Tokenizer"}, indent=2) + "\n")
    return result


def learn(model, tokenizer):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rows, answers = [], []
    for turn, name in enumerate(LANGUAGES):
        rows += [f"<2{name}> {text}" for text in TEXTS]
        answers += TEXTS[turn:] + TEXTS[:turn]
    batch = tokenizer(rows, return_tensors="pt", padding=True)
    labels = tokenizer(answers, return_tensors="pt", padding=True).input_ids
    labels[labels == tokenizer.pad_token_id] = -100
    for _ in range(250):
        loss = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"learnt, loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "madlad_texts")
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tokenizer = make_tokenizer(out)
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=14, d_kv=6, d_ff=22, num_heads=3, num_layers=2, num_decoder_layers=2, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, dropout_rate=0.0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    learn(model, tokenizer)
    model.half().save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    models = [transformers.T5ForConditionalGeneration.from_pretrained(out, torch_dtype=dtype).eval() for dtype in (torch.float64, torch.float32)]
    entries = []
    for name, beams in BEAMS.items():
        for text in TEXTS:
            batch = tokenizer(f"<2{name}> {text}", return_tensors="pt")
            found, again = (model.generate(batch.input_ids, num_beams=beams, max_length=15)[0].tolist() for model in models)
            assert found == again
            translation = tokenizer.decode(found, skip_special_tokens=True)
            entries.append({"to": name, "beams": beams, "text": text, "source": batch.input_ids[0].tolist(), "tokens": found, "translation": translation})
            print(f"    {name} {text!r}: {translation!r}", flush=True)
    assert len({entry["translation"] for entry in entries}) > 3
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (out / "golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
