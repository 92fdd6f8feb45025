"""A word-level tokenizer whose decoding gives the world's texts back, letter for letter."""

import re
from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

PAD, BOS, END, USER, ASSISTANT, IMAGE, UNKNOWN = (
    "<pad>",
    "<bos>",
    "<end>",
    "<user>",
    "<assistant>",
    "<image>",
    "<unk>",
)
SPECIALS = (PAD, BOS, END, USER, ASSISTANT, IMAGE, UNKNOWN)

# One token each: the two ends of a JSON answer, a word, a digit, a mark.
PIECES = r'\{"answer": "|"\}|[a-z]+|[0-9]|[^\sa-z0-9]'

# Blanks that the decoder puts between tokens and that the world's texts don't have.
_GLUE = "|".join(
    (
        r"(?<=[0-9]) (?=[0-9])",
        r" (?=[.,?:\)\]])",
        r"(?<=[\(\[]) ",
        r'(?<=\{"answer": ") ',
        r' (?="\})',
    )
)

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<assistant>{% generation %}{{ message['content'] if "
    "message['content'] is string else message['content'] | map(attribute='text') | join('') }}"
    "<end>{% endgeneration %}"
    "{% else %}<user>{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def words_of(texts: Iterable[str]) -> list[str]:
    """The distinct tokens of some texts, sorted."""
    return sorted({piece for text in texts for piece in re.findall(PIECES, text)})


def make_tokenizer(words: Iterable[str], max_length: int) -> PreTrainedTokenizerFast:
    """A fast tokenizer over special tokens and ``words`` (one id each, in the given order)."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {w: i for i, w in enumerate([*SPECIALS, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.Split(Regex(r"^\s+$"), "removed"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(_GLUE), ""),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(s, normalized=False) for s in SPECIALS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT, IMAGE],
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
