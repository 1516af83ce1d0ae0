"""The words of the demo language: a small core, and a long tail built from stems and endings.

A tail word is a stem and an ending ("quelbrac" + "wort"). Each ending is common, each stem is
rare, so byte pair encoding leaves the two apart and the stem is the rarest token of its sentence.
Their translations stand the other way round, and a joint between them depends on the stem.

What gives heads work to do: the *link* of a word decides the ending of the translation of whatever
word follows it, and the *tones* of the rarest word those of all words in its sentence. Everything
here is the same for every corpus; only sentences are drawn from a corpus seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

NOUN_CLASSES = 3
VERB_CLASSES = 2
TONE_SHARES = (0.5, 0.25, 0.25)
LINKS = 3
JOINTS = ("", "r", "m")
"""What a stem puts before its translation, after that of the ending."""

_LANGUAGE = 1905
"""Seed of the language itself."""

NOUNS = (
    "rabbit gardener river sailor bridge teacher lantern horse village singer wagon doctor"
    " garden widow tower miller candle hunter mirror farmer barrel tailor island painter"
    " window goat carpenter ladder soldier market raven kettle baker meadow spider anchor"
    " merchant statue beggar orchard"
).split()
TRANSITIVE = (
    "watched followed carried painted visited avoided praised remembered guarded moved"
    " admired chased mentioned touched blamed measured greeted ignored"
).split()
INTRANSITIVE = "slept waited laughed vanished trembled returned".split()
ADJECTIVES = (
    "old small quiet red broken tall clever grey young heavy proud narrow green hungry pale strange"
).split()
ADVERBS = "often slowly again quietly never gladly soon barely".split()
PREPOSITIONS = "near behind under with beside without".split()
DETERMINERS = {"the": (1, 2), "a": (1,), "some": (2,), "this": (1,), "these": (2,)}
"""Source determiner -> the numbers it goes with (1 singular, 2 plural)."""

NOUN_ENDINGS = "wort fin wing stone root horn bird bell".split()
VERB_ENDINGS = "ified ooned".split()
ADJECTIVE_ENDINGS = "ish ous".split()
NAME_ENDINGS = "son mira dor".split()
TAIL_STEMS = {"NOUN": 90, "VERB": 25, "ADJ": 25, "PROPN": 30}

CORE_RATES = {"NOUN": 3.3, "VERB": 1.3, "VERB0": 0.43, "ADJ": 1.9, "ADV": 0.76, "ADP": 1.0}
TAIL_RATES = {"NOUN": 0.64, "VERB": 0.25, "ADJ": 0.37, "PROPN": 0.14}
"""Words of each kind in a sentence, on average: what a word's share is multiplied with."""


@dataclass(frozen=True)
class Lexeme:
    """A word of the lexicon in both languages.

    ``target`` is the translation up to inflection, ``stem`` what follows inflection in tail words.
    ``weight`` is its share among the words of its kind, ``frequency`` how often a sentence has it
    on average (for a tail word: its stem). ``group`` is the noun class of a noun or name and the
    verb class of a verb. ``link`` and ``tones`` are what it asks of the endings of other words:
    of the next one, and if it is the rarest of its sentence of all, by word class.
    """

    source: str
    target: str
    upos: str
    weight: float
    group: int | None = None
    frequency: float = 0.0
    tones: tuple[int, ...] = (0, 0, 0, 0)
    link: int = 0
    stem: str = ""
    transitive: bool = False
    is_tail: bool = False


class Weighted:
    """A list of lexemes that are drawn by their weights."""

    def __init__(self, lexemes: Sequence[Lexeme]):
        self.lexemes = list(lexemes)
        self._cumulative = list(accumulate(lexeme.weight for lexeme in lexemes))

    def draw(self, rng: random.Random) -> Lexeme:
        return rng.choices(self.lexemes, cum_weights=self._cumulative)[0]


def zipf(count: int, shift: float = 2.7, exponent: float = 1.0) -> list[float]:
    """Weights of ranks 0 .. count-1 by the Zipf-Mandelbrot law, summing to 1."""
    weights = [(rank + 1 + shift) ** -exponent for rank in range(count)]
    return [weight / sum(weights) for weight in weights]


class _Coiner:
    """Coins words that are all different, each from a pattern of letter groups."""

    def __init__(self, rng: random.Random, taken: Sequence[str]):
        self.rng, self.taken = rng, set(taken)

    def coin(self, *groups: str) -> str:
        while True:
            word = "".join(self.rng.choice(group.split()) for group in groups)
            if word not in self.taken:
                self.taken.add(word)
                return word


_SOURCE_STEM = (
    "b br c cl d dr f fl g gr h k kr l m n p pl qu r sk st t tr v w z",
    "a e i o u",
    "l n r m",
    "b d g k p t v z",
    "a e i o u",
    "c ck d g l m n p r t x",
)
_NAME_STEM = _SOURCE_STEM[:-1]
_TARGET_STEM = ("p t k s", "r l j", "a e i o u", "k l m n p r s t v j", "a e i o u")
_TARGET_SENSE = ("b d f g z w", "a e i o u", "b d g z w", "a e i o u")
_TARGET_ROOT = ("k l m n p r s t v j h", "a e i o u", "k l m n p r s t v j", "a e i o u")


class Lexicon:
    """All words, and the fused function words of the target language."""

    def __init__(self):
        rng = random.Random(_LANGUAGE)
        core = NOUNS + TRANSITIVE + INTRANSITIVE + ADJECTIVES + ADVERBS
        source, target = _Coiner(rng, core), _Coiner(rng, ())
        tones_of = lambda: tuple(rng.choices((0, 1, 2), TONE_SHARES, k=4))  # noqa: E731
        root = lambda: target.coin(*_TARGET_ROOT)  # noqa: E731

        def words(forms, kind, groups=0, **extra):
            upos, rate = kind.rstrip("0"), CORE_RATES[kind]
            weights = zipf(len(forms))
            return [
                Lexeme(
                    form,
                    root(),
                    upos,
                    weight,
                    group=rng.randrange(groups) if groups else None,
                    frequency=rate * weight,
                    tones=tones_of(),
                    link=rng.randrange(LINKS),
                    **extra,
                )
                for form, weight in zip(forms, weights)
            ]

        self.core: dict[str, Weighted] = {
            "NOUN": Weighted(words(NOUNS, "NOUN", NOUN_CLASSES)),
            "VERB": Weighted(words(TRANSITIVE, "VERB", VERB_CLASSES, transitive=True)),
            "VERB0": Weighted(words(INTRANSITIVE, "VERB0", VERB_CLASSES)),
            "ADJ": Weighted(words(ADJECTIVES, "ADJ")),
            "ADV": Weighted(words(ADVERBS, "ADV")),
            "ADP": Weighted(words(PREPOSITIONS, "ADP")),
        }
        self.tail: dict[str, Weighted] = {
            upos: Weighted(self._tail(upos, endings, source, target, rng))
            for upos, endings in (
                ("NOUN", NOUN_ENDINGS),
                ("VERB", VERB_ENDINGS),
                ("ADJ", ADJECTIVE_ENDINGS),
                ("PROPN", NAME_ENDINGS),
            )
        }
        numbers, classes = (1, 2), range(NOUN_CLASSES)
        function = _Coiner(rng, ())
        short = lambda: function.coin("b d f g z w", "a e i o u", "a e i o u")  # noqa: E731
        self.determiners = {
            word: Lexeme(word, "", "DET", 1.0, link=rng.randrange(LINKS)) for word in DETERMINERS
        }
        self.that = Lexeme("that", "ne", "PRON", 1.0, link=rng.randrange(LINKS))
        self.auxiliary = {(group, number): short() for group in classes for number in numbers}
        self.article = {
            (det, group, number): short()
            for det in DETERMINERS
            for group in classes
            for number in DETERMINERS[det]
        }
        self.conjunction = Lexeme("and", "he", "CCONJ", 1.0, link=rng.randrange(LINKS))
        self.stop = Lexeme(".", "ya", "PUNCT", 1.0)
        self.object_marker = "ko"
        self.plural = "li"
        self.class_vowels = "aio"
        self.adverb_ending = ("", "sha")
        self.endings = ("", "n", "s")

    @staticmethod
    def _tail(upos, endings, source, target, rng) -> list[Lexeme]:
        """Every stem with every ending; the weight of a stem is shared by its endings."""
        count = TAIL_STEMS[upos]
        senses = [target.coin(*_TARGET_SENSE) for _ in endings]
        groups = VERB_CLASSES if upos == "VERB" else NOUN_CLASSES
        lexemes = []
        for weight in zipf(count, shift=10):
            stem = source.coin(*(_NAME_STEM if upos == "PROPN" else _SOURCE_STEM))
            # names are copied, not translated
            meaning = stem if upos == "PROPN" else target.coin(*_TARGET_STEM)
            tones, joint = tuple(rng.choices((0, 1, 2), TONE_SHARES, k=4)), rng.choice(JOINTS)
            lexemes += [
                Lexeme(
                    stem + ending, sense, upos, weight / len(endings), group=i % groups,
                    stem=joint + meaning, frequency=TAIL_RATES[upos] * weight, tones=tones,
                    link=i % LINKS, transitive=upos == "VERB", is_tail=True,
                )
                for i, (ending, sense) in enumerate(zip(endings, senses))
            ]  # fmt: skip
        return lexemes
