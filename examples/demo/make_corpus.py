"""Write a German-English corpus of numbers (num2words) and dates, units and names (CLDR, Babel).

The text is as people write it, in two files: corpus.de and corpus.en. Each sentence pair is drawn
once as data (a number, a date, an amount, a country) and then formatted in both languages
separately. Neither sentence is made from the other.
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
from collections.abc import Callable
from pathlib import Path

from babel import Locale, dates, lists, numbers, units
from num2words import num2words

LANGUAGES = ("de", "en")
PAIRS = 34_000

Pair = tuple[str, str]

UNITS = """
    area-hectare area-square-kilometer area-square-meter digital-byte digital-gigabyte
    digital-megabyte duration-century duration-day duration-hour duration-minute duration-month
    duration-second duration-week duration-year electric-ampere electric-volt energy-calorie
    energy-joule energy-kilowatt-hour frequency-hertz length-centimeter length-foot length-inch
    length-kilometer length-light-year length-meter length-mile length-millimeter
    length-nautical-mile mass-carat mass-gram mass-kilogram mass-ounce mass-pound mass-tonne
    power-horsepower power-kilowatt power-watt pressure-bar speed-kilometer-per-hour
    speed-meter-per-second speed-mile-per-hour temperature-celsius temperature-fahrenheit
    volume-barrel volume-cubic-kilometer volume-cubic-meter volume-cup volume-gallon volume-liter
    volume-milliliter volume-tablespoon volume-teaspoon
""".split()
PRICE_UNITS = """
    area-square-meter duration-day duration-hour duration-month duration-week duration-year
    length-kilometer length-meter mass-gram mass-kilogram mass-pound mass-tonne volume-barrel
    volume-cubic-meter volume-gallon volume-liter
""".split()
SECONDS = {
    "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000,
    "year": 31_536_000,
}  # fmt: skip
COINS = ("EUR", "GBP", "USD")
# Current currencies only: CLDR adds years in parentheses to the names of former ones.
CURRENCIES = """
    AUD BRL CAD CHF CNY CZK DKK EGP EUR GBP HUF IDR ILS INR JPY KRW MAD MXN NOK NZD PHP PLN RON
    RUB SEK THB TND TRY UAH USD VND ZAR
""".split()

COUNTRIES = """
    AL AM AR AT AU BE BG BO BR CA CH CL CN CO CU CZ DE DK EE EG ES FI FR GB GE GR HR HU ID IE IL IN
    IQ IR IS IT JP KE KR LB LT LU LV MA MD MK MX MY NG NL NO NZ PE PH PK PL PT RO RS RU SA SE SI SK
    SN TH TN TR UA US UY VN ZA
""".split()


def _spell_out(text: str, lang: str) -> str:
    """Spell out a number in a text that already has the right plural form."""
    digits = re.search(r"\d+(?:[.,]\d+)*", text)
    value = int(re.sub(r"\D", "", digits.group()))
    return text[: digits.start()] + num2words(value, lang=lang) + text[digits.end() :]


def _both(wording: Callable[[str], str]) -> Pair:
    """Apply a function of the language to both languages."""
    return wording("de"), wording("en")


def _size(rng: random.Random, digits: int) -> int:
    """A random number of at most `digits` digits, drawn so that short ones are frequent."""
    return rng.randrange(2, 10 ** rng.randint(1, digits))


def _count(rng: random.Random, digits: int = 3) -> int:
    """A number for counting. 1, 101, ... are omitted: in German they depend on the gender."""
    while True:
        count = _size(rng, digits)
        if count % 100 != 1:
            return count


def _day(rng: random.Random) -> datetime.datetime:
    start = datetime.datetime(1900, 1, 1)
    return start + datetime.timedelta(minutes=rng.randrange(60 * 24 * 365 * 150))


def cardinal(rng: random.Random) -> Pair:
    value = _size(rng, 7)
    return _both(lambda lang: num2words(value, lang=lang))


def ordinal(rng: random.Random) -> Pair:
    value = _size(rng, 5)
    return _both(lambda lang: num2words(value, lang=lang, to="ordinal"))


def decimal(rng: random.Random) -> Pair:
    digits = rng.randint(1, 3)
    value = f"{_size(rng, 4)}.{rng.randrange(1, 10**digits):0{digits}}".rstrip("0")
    return _both(lambda lang: num2words(value, lang=lang))


def written_date(rng: random.Random) -> Pair:
    day, style = _day(rng), rng.choice(("full", "long", "medium", "short"))
    return _both(lambda lang: dates.format_date(day, style, locale=lang))


def spoken_date(rng: random.Random) -> Pair:
    day, style = _day(rng), rng.choice(("full", "long"))

    def wording(lang: str) -> str:
        text = dates.format_date(day, style, locale=lang)
        year = num2words(day.year, lang=lang, to="year")
        nth = num2words(day.day, lang=lang, to="ordinal")
        text = text.replace(str(day.year), year)
        return re.sub(r"\d+\.?", f"der {nth}" if lang == "de" else nth, text)

    return _both(wording)


def clock_time(rng: random.Random) -> Pair:
    moment, style = _day(rng), rng.choice(("full", "long", "medium", "short"))

    def wording(lang: str) -> str:
        day = dates.format_date(moment, style, locale=lang)
        time = dates.format_time(moment, "short", locale=lang)
        return dates.get_datetime_format(style, locale=lang).format(time, day)

    return _both(wording)


def date_range(rng: random.Random) -> Pair:
    start = _day(rng).date()
    end = start + datetime.timedelta(days=rng.randint(1, 400))
    skeleton = rng.choice(("yMMMEd", "yMMMd", "yMMMM"))
    return _both(lambda lang: dates.format_interval(start, end, skeleton, locale=lang))


def relative_time(rng: random.Random) -> Pair:
    unit, sign = rng.choice(sorted(SECONDS)), rng.choice((-1, 1))
    span = datetime.timedelta(seconds=sign * SECONDS[unit] * _count(rng))

    def wording(lang: str) -> str:
        text = dates.format_timedelta(
            span, granularity=unit, threshold=1e9, add_direction=True, locale=lang
        )
        return _spell_out(text, lang)

    return _both(wording)


def quantity(rng: random.Random) -> Pair:
    value, unit = _count(rng, 5), rng.choice(UNITS)
    return _both(lambda lang: _spell_out(units.format_unit(value, unit, locale=lang), lang))


def coins(rng: random.Random) -> Pair:
    value, currency = f"{_count(rng, 4)}.{rng.randint(2, 99):02}", rng.choice(COINS)
    return _both(lambda lang: num2words(value, lang=lang, to="currency", currency=currency))


def price(rng: random.Random) -> Pair:
    value, currency = _count(rng, 6), rng.choice(CURRENCIES)

    def wording(lang: str) -> str:
        text = numbers.format_currency(
            value, currency, locale=lang, format_type="name", currency_digits=False, format="#,##0"
        )
        return _spell_out(text, lang)

    return _both(wording)


def rate(rng: random.Random) -> Pair:
    amount, unit = rng.choice((price, coins))(rng), rng.choice(PRICE_UNITS)
    amounts = dict(zip(LANGUAGES, amount))
    return _both(
        lambda lang: units.format_compound_unit(amounts[lang], denominator_unit=unit, locale=lang)
    )


def country(rng: random.Random) -> Pair:
    code = rng.choice(COUNTRIES)
    return _both(lambda lang: Locale(lang).territories[code])


def enumeration(rng: random.Random) -> Pair:
    kind = rng.choice((country, country, ordinal, quantity, price, relative_time))
    style, length = rng.choice(("standard", "or")), rng.choice((2, 2, 3))
    items = dict(zip(LANGUAGES, zip(*(kind(rng) for _ in range(length)))))
    return _both(lambda lang: lists.format_list(items[lang], style=style, locale=lang))


KINDS = {
    cardinal: 10, ordinal: 5, decimal: 5, written_date: 10, spoken_date: 14, clock_time: 8,
    date_range: 6, relative_time: 5, quantity: 10, coins: 6, price: 7, rate: 8, enumeration: 16,
}  # fmt: skip


def make_corpus(seed: int, size: int) -> list[Pair]:
    """Draw sentence pairs; no sentence occurs in two of them.

    Args:
        seed: the same seed gives the same corpus.
        size: number of pairs.
    """
    rng = random.Random(seed)
    kinds, weights = list(KINDS), list(KINDS.values())
    seen: dict[str, set[str]] = {lang: set() for lang in LANGUAGES}
    pairs: list[Pair] = []
    while len(pairs) < size:
        de, en = rng.choices(kinds, weights)[0](rng)
        # A pair of equal sentences teaches only copying.
        if de == en or de in seen["de"] or en in seen["en"]:
            continue
        seen["de"].add(de)
        seen["en"].add(en)
        pairs.append((de, en))
    return pairs


def write_corpus(folder: Path, pairs: list[Pair]) -> list[Path]:
    """Write `corpus.de` and `corpus.en`, one sentence per line.

    Args:
        folder: created if it does not exist.
        pairs: see `make_corpus`.
    Returns:
        Both files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"corpus.{lang}" for lang in LANGUAGES]
    for path, sentences in zip(files, zip(*pairs)):
        path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write corpus.de and corpus.en")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help="number of sentence pairs (default: %(default)s)"
    )
    args = parser.parse_args()
    if args.pairs < 1:
        parser.error(f"--pairs is {args.pairs}, but must be at least 1.")
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        write_corpus(args.folder, make_corpus(args.seed, args.pairs))
    except OSError as error:
        parser.error(f"{args.folder} cannot be written: {error.strerror or error}.")


if __name__ == "__main__":
    main()
