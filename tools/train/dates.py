"""Random written dates in English, German, French, Spanish and digits, each with its ISO 8601 form.

`python dates.py --count 20` prints some. Every sample is drawn from a `random.Random` that the caller seeds, so equal
seeds give equal samples. A fixed twentieth of all days is never given to training (`is_held_out`); the evaluation set
has only those days.
"""

import argparse
import datetime
import random
import re
import zlib
from dataclasses import dataclass
from typing import NamedTuple

FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2099, 12, 31)
HELD_OUT_ONE_IN = 20


@dataclass(frozen=True)
class Language:
    months: list[list[str]]  # per month: the spellings in full
    short_months: list[list[str]]  # per month: the abbreviations, without a dot
    weekdays: list[list[str]]  # Monday first
    short_weekdays: list[list[str]]


def _words(text: str) -> list[list[str]]:
    """'a b|c' -> [['a'], ['b', 'c']]: entries split at spaces, spellings of one entry at bars."""
    return [entry.split("|") for entry in text.split()]


LANGUAGES = {
    "en": Language(
        _words("January February March April May June July August September October November December"),
        _words("Jan Feb Mar Apr May Jun|June Jul|July Aug Sep|Sept Oct Nov Dec"),
        _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        _words("Mon Tue|Tues Wed Thu|Thur|Thurs Fri Sat Sun"),
    ),
    "de": Language(
        _words(
            "Januar|Januar|Januar|Jänner Februar März April Mai Juni Juli August September Oktober November Dezember"
        ),
        _words("Jan|Jän Feb Mär|Mrz Apr Mai Jun Jul Aug Sep|Sept Okt Nov Dez"),
        _words("Montag Dienstag Mittwoch Donnerstag Freitag Samstag|Sonnabend Sonntag"),
        _words("Mo|Mon Di|Die Mi|Mit Do|Don Fr|Fre Sa|Sam So|Son"),
    ),
    "fr": Language(
        _words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        _words("janv|jan févr|fév mars|mar avr mai juin|jun juil|jul août|aoû sept|sep oct nov déc"),
        _words("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        _words("lun mar mer jeu ven|vend sam dim"),
    ),
    "es": Language(
        _words(
            "enero febrero marzo abril mayo junio julio agosto septiembre|septiembre|setiembre "
            "octubre noviembre diciembre"
        ),
        _words("ene feb mar abr may|mayo jun jul ago sep|sept oct nov dic"),
        _words("lunes martes miércoles jueves viernes sábado domingo"),
        _words("lun mar mié jue vie sáb dom"),
    ),
}


@dataclass(frozen=True)
class Form:
    """One way to write a date; `templates` are its variants, drawn evenly. The fields are listed in `_fields`."""

    name: str
    language: str
    templates: tuple[str, ...]


def _form(name: str, language: str, *templates: str) -> Form:
    return Form(name, language, templates)


FORMS = (
    _form("en: March 4, 2021", "en", "{month} {d}, {y}", "{month} {d} {y}", "on {month} {d}, {y}", "{y} {month} {d}"),
    _form("en: March 4th, 2021", "en", "{month} {nth}, {y}", "{month} {nth} {y}", "{month} the {nth}, {y}"),
    _form("en: Mar 4 2021", "en", "{mon} {d} {y}", "{mon} {d}, {y}", "{mon} {nth}, {y}"),
    _form("en: 4 March 2021", "en", "{d} {month} {y}", "{d} {month}, {y}", "{nth} {month} {y}"),
    _form("en: 4 Mar 2021", "en", "{d} {mon} {y}", "{d}-{mon_bare}-{y}", "{nth} {mon} {y}"),
    _form(
        "en: the 4th of March 2021",
        "en",
        "the {nth} of {month} {y}",
        "{nth} of {month} {y}",
        "{nth} of {month}, {y}",
        "the {nth} of {month}, {y}",
        "on the {nth} of {month} {y}",
        "the {nth} of {mon} {y}",
    ),
    _form(
        "en: Thursday, March 4th, 2021",
        "en",
        "{weekday}, {month} {nth}, {y}",
        "{weekday}, {month} {d}, {y}",
        "{weekday} {month} {d} {y}",
        "{weekday}, {mon} {d}, {y}",
    ),
    _form(
        "en: Thursday, 4 March 2021",
        "en",
        "{weekday}, {d} {month} {y}",
        "{weekday} {d} {month} {y}",
        "{weekday}, {nth} {month} {y}",
        "{weekday}, the {nth} of {month} {y}",
        "{weekday} the {nth} of {month}, {y}",
    ),
    _form(
        "en: Thu, Mar 4, 2021",
        "en",
        "{wd}, {mon} {d}, {y}",
        "{wd} {mon} {d} {y}",
        "{wd}, {mon} {nth}, {y}",
        "{wd}, {month} {d}, {y}",
    ),
    _form(
        "en: Thu, 4 Mar 2021",
        "en",
        "{wd}, {d} {mon} {y}",
        "{wd} {d} {mon} {y}",
        "{wd} {nth} {mon} {y}",
        "{wd}, {d} {month} {y}",
    ),
    _form(
        "en: Thu, 3/4/2021",
        "en",
        "{wd}, {m}/{d}/{y}",
        "{wd} {m}/{d}/{y}",
        "{weekday}, {m}/{d}/{y}",
        "{weekday} {m}/{d}/{y}",
    ),
    _form("de: 4. März 2021", "de", "{d}. {month} {y}", "{d}.{month} {y}"),
    _form("de: den 4. März 2021", "de", "den {d}. {month} {y}", "am {d}. {month} {y}", "der {d}. {month} {y}"),
    _form("de: 4. Mär. 2021", "de", "{d}. {mon} {y}", "{d}.{mon} {y}"),
    _form(
        "de: Donnerstag, den 4. März 2021",
        "de",
        "{weekday}, den {d}. {month} {y}",
        "{weekday} den {d}. {month} {y}",
        "{weekday}, der {d}. {month} {y}",
        "am {weekday}, dem {d}. {month} {y}",
    ),
    _form(
        "de: Donnerstag, 4. März 2021",
        "de",
        "{weekday}, {d}. {month} {y}",
        "{weekday} {d}. {month} {y}",
        "{weekday}, {d}. {mon} {y}",
    ),
    _form(
        "de: Do., 4. Mär. 2021",
        "de",
        "{wd}, {d}. {mon} {y}",
        "{wd} {d}. {mon} {y}",
        "{wd}, {d}. {month} {y}",
        "{wd}, den {d}. {month} {y}",
    ),
    _form(
        "de: Do., 4.3.2021",
        "de",
        "{wd}, {d}.{m}.{y}",
        "{wd} {d}.{m}.{y}",
        "{weekday}, {d}.{m}.{y}",
        "{weekday}, den {d}.{m}.{y}",
    ),
    _form("fr: 4 mars 2021", "fr", "{er} {month} {y}"),
    _form("fr: le 4 mars 2021", "fr", "le {er} {month} {y}"),
    _form("fr: 4 févr. 2021", "fr", "{er} {mon} {y}", "le {er} {mon} {y}"),
    _form(
        "fr: jeudi 4 mars 2021",
        "fr",
        "{weekday} {er} {month} {y}",
        "{weekday}, {er} {month} {y}",
        "{weekday} {er} {mon} {y}",
    ),
    _form(
        "fr: le jeudi 4 mars 2021",
        "fr",
        "le {weekday} {er} {month} {y}",
        "{weekday}, le {er} {month} {y}",
        "{weekday} le {er} {month} {y}",
    ),
    _form("fr: jeu. 4 mars 2021", "fr", "{wd} {er} {month} {y}", "{wd} {er} {mon} {y}", "{wd}, {er} {mon} {y}"),
    _form(
        "es: 4 de marzo de 2021", "es", "{ro} de {month} de {y}", "{ro} de {month} de {y}", "{ro} de {month} del {y}"
    ),
    _form(
        "es: el 4 de marzo de 2021",
        "es",
        "el {ro} de {month} de {y}",
        "el {ro} de {month} de {y}",
        "el {ro} de {month} del {y}",
    ),
    _form("es: 4 mar. 2021", "es", "{ro} {mon} {y}", "{ro} de {mon} de {y}", "{ro} {month} {y}", "{d}-{mon_bare}-{y}"),
    _form(
        "es: jueves, 4 de marzo de 2021",
        "es",
        "{weekday}, {ro} de {month} de {y}",
        "{weekday} {ro} de {month} de {y}",
        "{weekday}, {ro} de {month} del {y}",
    ),
    _form(
        "es: el jueves 4 de marzo de 2021",
        "es",
        "el {weekday} {ro} de {month} de {y}",
        "el {weekday}, {ro} de {month} de {y}",
        "{weekday} el {ro} de {month} de {y}",
    ),
    _form(
        "es: jue. 4 de marzo de 2021",
        "es",
        "{wd} {ro} de {month} de {y}",
        "{wd}, {ro} {mon} {y}",
        "{wd} {ro} {mon} {y}",
    ),
    _form("3/4/2021", "", "{m}/{d}/{y}"),
    _form("4.3.2021", "", "{d}.{m}.{y}", "{d}.{m}.{y}", "{d}. {m}. {y}"),
    _form("2021/3/4", "", "{y}/{m}/{d}"),
    _form("2021-03-04", "", "{y}-{mm}-{dd}", "{y}-{mm}-{dd}", "{y}-{m}-{d}"),
    _form("20210304", "", "{y}{mm}{dd}"),
)


class Sample(NamedTuple):
    text: str
    iso: str
    form: str
    slips: int


def is_held_out(day: datetime.date) -> bool:
    return zlib.crc32(day.isoformat().encode()) % HELD_OUT_ONE_IN == 0


def all_days() -> list[datetime.date]:
    return [FIRST_DAY + datetime.timedelta(n) for n in range((LAST_DAY - FIRST_DAY).days + 1)]


def training_days() -> list[datetime.date]:
    return [day for day in all_days() if not is_held_out(day)]


def held_out_days() -> list[datetime.date]:
    return [day for day in all_days() if is_held_out(day)]


def _english_suffix(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _fields(rng: random.Random, language: Language | None, day: datetime.date) -> dict[str, str]:
    """What the templates may name: d and m (at times padded), dd, mm, y, the ordinals nth, er, ro, and the words."""
    d, m = day.day, day.month
    pad = rng.random() < 0.3
    plain = f"{d:02}" if pad else str(d)
    fields = {"d": plain, "dd": f"{d:02}", "m": f"{m:02}" if pad else str(m), "mm": f"{m:02}", "y": str(day.year)}
    if language:
        dot = rng.choice(("", "."))
        bare = rng.choice(language.short_months[m - 1])
        whole = bare in language.months[m - 1]  # "May" takes no dot
        fields |= {
            "month": rng.choice(language.months[m - 1]),
            "mon": bare if whole else bare + dot,
            "mon_bare": bare,
            "weekday": rng.choice(language.weekdays[day.weekday()]),
            "wd": rng.choice(language.short_weekdays[day.weekday()]) + dot,
            "nth": f"{d}{_english_suffix(d)}",
            "er": rng.choice(("1er", "1er", "1er", "1ᵉʳ", "1")) if d == 1 else plain,
            "ro": rng.choice(("1", "1", "1º", "1.º", "1ro", "1ero")) if d == 1 else plain,
        }
    return fields


_FLAT = str.maketrans("äöüÄÖÜéèêûôîïëçñáíóúÉÁ", "aouAOUeeeuoiiecnaiouEA")
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae"}
_ODD_SPACES = ("\u00a0", "  ", "   ", "\u2009", "\u202f")


def _replace_one(rng: random.Random, text: str, old: str, new: str) -> str:
    places = [i for i, c in enumerate(text) if c == old]
    if not places:
        return text
    i = rng.choice(places)
    return text[:i] + new + text[i + 1 :]


def _letter_slip(rng: random.Random, text: str) -> str:
    """Doubles, drops or swaps one inner letter of a word of five or more, which keeps its month recognisable."""
    words = text.split(" ")
    long_words = [i for i, word in enumerate(words) if len(word) >= 5 and word[:5].isalpha()]
    if not long_words:
        return text
    i = rng.choice(long_words)
    word = words[i]
    k = rng.randrange(1, 4)
    doubled, swapped = word[:k] + word[k] + word[k:], word[:k] + word[k + 1] + word[k] + word[k + 2 :]
    dropped = word[:k] + word[k + 1 :]
    june_or_july = word.lower().startswith("ju")  # without its third letter it may be either
    words[i] = rng.choice((doubled, swapped) if june_or_july else (doubled, swapped, dropped))
    return " ".join(words)


def _glue(rng: random.Random, text: str) -> str:
    """Drops a space between a letter and a digit: `4March 2021`."""
    places = [
        i
        for i in range(1, len(text) - 1)
        if text[i] == " "
        and text[i - 1].isalpha() != text[i + 1].isalpha()
        and text[i - 1].isalnum()
        and text[i + 1].isalnum()
    ]
    if not places:
        return text
    i = rng.choice(places)
    return text[:i] + text[i + 1 :]


def _space_out(rng: random.Random, text: str) -> str:
    """A space where none belongs: around a separator of a date in digits, or before a comma."""
    mark = rng.choice([c for c in "/-.," if c in text] or [","])
    return text.replace(mark, f" {mark} " if mark in "/-" else f" {mark}" if mark == "," else f"{mark} ")


def _wrong_suffix(rng: random.Random, text: str) -> str:
    for suffix in ("st", "nd", "rd", "th"):
        i = text.find(suffix)
        if i > 0 and text[i - 1].isdigit():
            return text[:i] + rng.choice(("th", "", "st", "rd", "nd", " " + suffix)) + text[i + 2 :]
    return text


_SLIPS = (
    lambda rng, t: _replace_one(rng, t, ",", ""),
    lambda rng, t: t.replace(",", ""),
    lambda rng, t: _replace_one(rng, t, " ", rng.choice(_ODD_SPACES)),
    lambda rng, t: _replace_one(rng, t, " ", rng.choice(_ODD_SPACES)),
    lambda rng, t: _replace_one(rng, t, " ", rng.choice((", ", ". ", " , "))) if any(c.isalpha() for c in t) else t,
    lambda rng, t: t if re.search(r"\d\. *\d", t) else _replace_one(rng, t, ".", ""),  # never 182.1982
    lambda rng, t: _replace_one(rng, t, ".", ".. ") if any(c.isalpha() for c in t) else t,
    lambda rng, t: t.replace(", ", ","),
    lambda rng, t: t.translate(_FLAT),
    lambda rng, t: t.translate(_FLAT),
    lambda rng, t: "".join(_UMLAUTS.get(c, c) for c in t),
    lambda rng, t: rng.choice((" ", "  ")) + t,
    lambda rng, t: t + rng.choice((" ", "  ")),
    lambda rng, t: t + rng.choice((".", ",", ";", "!", "?", " .")),
    lambda rng, t: rng.choice(("({})", '"{}"', "'{}'", "„{}“", "« {} »", "[{}]")).format(t),
    _letter_slip,
    _letter_slip,
    _glue,
    _space_out,
    _wrong_suffix,
)

_CASES = (str, str, str, str, str.lower, str.lower, str.upper, str.upper, str.title, str.swapcase)


def draw(rng: random.Random, form: Form, day: datetime.date, slip_rate: float = 0.35) -> Sample:
    language = LANGUAGES.get(form.language)
    text = rng.choice(form.templates).format_map(_fields(rng, language, day))
    slips = 0
    while slips < 2 and rng.random() < slip_rate:
        text = rng.choice(_SLIPS)(rng, text)
        slips += 1
    return Sample(rng.choice(_CASES)(text), day.isoformat(), form.name, slips)


def evaluation_samples(count: int = 2000, seed: int = 2021) -> list[Sample]:
    """Held-out days, each at most once, shared out evenly over the forms."""
    rng = random.Random(seed)
    days = rng.sample(held_out_days(), count)
    samples = [draw(rng, FORMS[i % len(FORMS)], day) for i, day in enumerate(days)]
    rng.shuffle(samples)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=len(FORMS), help="samples to print (default: one per form)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    days = training_days()
    for i in range(args.count):
        sample = draw(rng, FORMS[i % len(FORMS)], rng.choice(days))
        print(f"{sample.text}\t{sample.iso}\t{sample.form}")


if __name__ == "__main__":
    main()
