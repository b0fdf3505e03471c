"""tokenizer.json with one token per character, the same for source and target; every text ends with `</s>`."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": SPECIAL[PAD],
    "bos_token": SPECIAL[START],
    "eos_token": SPECIAL[END],
    "unk_token": SPECIAL[UNKNOWN],
    "clean_up_tokenization_spaces": False,
    "model_max_length": 128,
}


def build(characters: str, folded: bool) -> Tokenizer:
    """A BPE model without merges: it cuts into characters. `folded`: compatibility forms and upper case are folded."""
    vocabulary = {token: i for i, token in enumerate((*SPECIAL, *characters))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL[UNKNOWN]))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    if folded:
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {SPECIAL[END]}", special_tokens=[(SPECIAL[END], END)]
    )
    tokenizer.decoder = decoders.Fuse()
    return tokenizer
