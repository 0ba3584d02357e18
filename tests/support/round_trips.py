"""Lines as people write them, and the share that comes back from tokens.

``lines()`` makes some hundred: every text of TEXTS by itself, and inside sentences of its language.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from convs2s.text.learning import count_words, learn_sentencepiece, learn_subword_nmt
from convs2s.text.preparation import Side
from convs2s.text.subwords import make_subwords
from convs2s.text.tokenizers import OF_CHARACTERS, TOKENIZERS, normalize

# Language -> sentences around a text.
FRAMES = {
    "en": ["See {} for more.", 'He said: "{}"', "It's {}, isn't it?", "({})"],
    "de": ["Siehe {} für mehr.", "Sie sagte: „{}“", "Das ist {}, oder?", "»{}«"],
    "fr": ["Voir {} pour en savoir plus.", "Il a dit : « {} »", "C'est {}, n'est-ce pas ?"],
    "it": ["Vedi {} per saperne di più.", "L'ha detto l'uomo: «{}»."],
    "es": ["Vea {} para más.", "¿Qué es {}?", "¡{}!"],
    "cs": ["Viz {} pro více.", "Řekl: „{}“"],
    "fi": ["Katso {} lisää.", "EU:n jäsen {} USA:ssa"],
    "ru": ["Смотри {} дальше.", "Он сказал: «{}!»"],
    "el": ["Δείτε {} για περισσότερα;"],
    "ar": ["انظر {} للمزيد، من فضلك؟"],
    "he": ["ראו {} לפרטים נוספים.", 'ד"ר {} ז"ל'],
    "hi": ["और जानकारी के लिए {} देखें।"],
    "ko": ["자세한 내용은 {} 를 보세요.", '그는 "{}"이라고 말했다.'],
    "ja": ["詳しくは{}をご覧ください。", "「{}」と言った。"],
    "zh": ["更多信息请见 {} 。", "他说：“{}”。"],
}
# What is written in every language, separated by three spaces.
TEXTS = re.split(
    r"\s*\n\s*| {3,}",
    """
    3.14   1,000,000   1.000,50   10 %   10%   -5 °C   ½   10²   2×3=6   № 5   #1   12:30
    12:30:05   7–9 Uhr   3/4/2020   2020-04-03   3. Mai   1990s   '90s   $5.50   5 €   €5
    £1.2m   50 ct.   +49 30 123-456   (030) 12 34 56   1:0   16:9
    https://www.example.org/a/b?c=1&d=2#e_f   http://localhost:8080/   www.example.org
    anna.b+c@example.co.uk   <anna@example.com>   @user   #hashtag   /usr/bin/env
    C:\\temp\\file.txt   a_b*c   f(x)[0] = {1: 'a'};   a && b || !c   x->y   i++
    <b>bold</b> &amp; &lt;more&gt;   AT&T   R&D   `code`   {{name}}   %s   50%-ig   ~
    und/oder   he/she   well-known   state-of-the-art   e.g. this   z. B. das   i.e.,
    rock 'n' roll   dogs' tails   O'Neill's   un po' di   l'homme   can't've   ''x''
    "a" and "b   'a' or 'b'   “a” ‘b’   «a» ‹b›   „a“ ‚b‘   [1] {2} |3|   (a (b) c)   ...
    … a …   a...   ?!   !!!   a , b ; c   a - b   a – b   a—b   *   • a   § 5   :-) ;) :D
    ->   =>   a:b   a;b   a,b   a.b   a . b   @-@   a @-@ b   a@@   @@ a   <s>   </s> a
    <unk>   a <pad> b   madeupword0000   \\<s>   <Lua heritage>   __de__
    Müller   naïve café   Ångström   İstanbul   ﬁn   e\u0301   a\u0308o\u0308
    Z̴a̴l̴g̴o̴   😀   👩\u200d👩\u200d👧 family   🇩🇪   👍🏽!   ♥   ™®©   →   x̂ ŷ   Война и мир
    Ἀχιλλεύς   مرحبا، كيف الحال؟   שלום, עולם!   नमस्ते।   สวัสดีครับ   你好，世界。
    東京（とうきょう）   ｆｕｌｌ　ｗｉｄｔｈ   한국어 텍스트   ภาษาไทย abc
    \u200dक्\u200dष   abc שלום 123   می\u200cخواهم   ٣٫١٤   ￭ a￭ ￮b ￬0 ￬
    """.strip(),
)
SUBWORDS = ("none", "subword_nmt", "sentencepiece")
# Tokens of each character are not split again.
COMBINATIONS = [
    (tokenizer, method)
    for tokenizer in TOKENIZERS
    for method in SUBWORDS
    if tokenizer not in OF_CHARACTERS or method == "none"
]


def lines() -> Iterator[tuple[str, str]]:
    """Languages and lines."""
    frames = [(language, frame) for language, found in FRAMES.items() for frame in found]
    for number, text in enumerate(TEXTS):
        yield "en", text
        for place in range(number, number + 3 * 11, 11):
            language, frame = frames[place % len(frames)]
            yield language, frame.format(text)


def sides(tokenizer: str, method: str, folder: Path) -> dict[str, Side]:
    """The preparation of each language, with one model of sub-words, learned on all lines.

    Args:
        tokenizer, method: of the preparation.
        folder: for the model.
    """
    tokenizers = {language: TOKENIZERS[tokenizer](language) for language in FRAMES}
    model = None
    if method != "none":
        found = [tokenizers[language].tokenize(normalize(line)) for language, line in lines()]
        model = folder / "model"
        if method == "subword_nmt":
            learn_subword_nmt(count_words(found), 300, model)
        else:
            learn_sentencepiece(found, 900, model, 1.0, len(found))
    subwords = make_subwords(method, model)
    return {language: Side(language, each, subwords) for language, each in tokenizers.items()}


def changed(tokenizer: str, method: str, folder: Path) -> list[tuple[str, str, str]]:
    """Language, normalized line and what came back, of all lines that came back otherwise."""
    found = []
    of_language = sides(tokenizer, method, folder)
    for language, line in lines():
        side = of_language[language]
        wanted, back = side.normalize(line), side.decode(side.encode(line))
        if back != wanted:
            found.append((language, wanted, back))
    return found


def share(tokenizer: str, method: str, folder: Path) -> str:
    """The share of lines that come back, in percent."""
    count = sum(1 for _ in lines())
    percent = 100 * (count - len(changed(tokenizer, method, folder))) / count
    # 100% means all.
    return f"{int(percent * 10) / 10:g}%"
