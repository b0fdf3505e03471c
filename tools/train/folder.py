"""Writes a trained model as a MarianMT folder of the Hugging Face layout, and scores it."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

import dates
import tokens

BEAMS = 4
MAX_LENGTH = 32  # of the output; a date needs 12 with the start and </s>
TOKENIZER_FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")


def generation_config(config: MarianConfig) -> dict:
    return {
        "bad_words_ids": [[config.pad_token_id]],
        "bos_token_id": config.bos_token_id,
        "decoder_start_token_id": config.decoder_start_token_id,
        "eos_token_id": config.eos_token_id,
        "forced_eos_token_id": config.forced_eos_token_id,
        "max_length": MAX_LENGTH,
        "num_beams": BEAMS,
        "pad_token_id": config.pad_token_id,
    }


def export(
    out: Path,
    tokenizer: MarianTokenizer,
    config: MarianConfig,
    weights: dict[str, torch.Tensor],
    probe: list[dates.Sample],
) -> float:
    """Writes the folder, loads it back as a user would, and returns the exact match on `probe`."""
    out.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        if Path(tokenizer.name_or_path, name).resolve() != (out / name).resolve():
            shutil.copyfile(Path(tokenizer.name_or_path, name), out / name)
    plain = MarianMTModel(config)
    plain.load_state_dict(weights)
    left_out = set(plain._keys_to_ignore_on_save) | set(
        plain._tied_weights_keys
    )  # sinusoids and second names of the embedding
    kept = {name: value.contiguous() for name, value in plain.state_dict().items() if name not in left_out}
    replacement = out / "model.safetensors.new"
    save_file(kept, replacement, metadata={"format": "pt"})
    replacement.chmod(0o644)
    replacement.rename(out / "model.safetensors")
    tokens.write_json(out / "config.json", _config_fields(config))
    tokens.write_json(out / "generation_config.json", generation_config(config))
    return exact_match(*load(out), probe)


def _config_fields(config: MarianConfig) -> dict:
    """What differs from the class defaults, and the sizes and tokens always. Search: generation_config.json."""
    fields = config.to_diff_dict() | {
        "architectures": ["MarianMTModel"],
        "dtype": "float32",
        "tie_word_embeddings": True,
    }
    for key in (
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder_layers",
        "decoder_layers",
        "num_hidden_layers",
        "activation_function",
        "scale_embedding",
        "share_encoder_decoder_embeddings",
        "is_encoder_decoder",
        "pad_token_id",
        "eos_token_id",
        "bos_token_id",
        "decoder_start_token_id",
        "forced_eos_token_id",
        "vocab_size",
        "decoder_vocab_size",
        "max_position_embeddings",
        "d_model",
        "dropout",
    ):
        fields[key] = getattr(config, key)
    fields.pop("transformers_version", None)
    return dict(sorted(fields.items()))


def load(path: Path) -> tuple[MarianMTModel, MarianTokenizer]:
    return MarianMTModel.from_pretrained(path).eval(), MarianTokenizer.from_pretrained(path)


@torch.no_grad()
def translate(
    model: MarianMTModel, tokenizer: MarianTokenizer, texts: list[str], beams: int = 1, batch: int = 100
) -> list[str]:
    """In the order given; sorted by length inside, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    results = [""] * len(texts)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        encoded = tokenizer([texts[i] for i in chosen], return_tensors="pt", padding=True)
        ids = model.generate(**encoded, num_beams=beams, do_sample=False)
        for i, text in zip(chosen, tokenizer.batch_decode(ids, skip_special_tokens=True)):
            results[i] = text
    return results


def exact_match(model: MarianMTModel, tokenizer: MarianTokenizer, samples: list[dates.Sample], beams: int = 1) -> float:
    outputs = translate(model, tokenizer, [sample.text for sample in samples], beams)
    return sum(output == sample.iso for output, sample in zip(outputs, samples)) / len(samples)
