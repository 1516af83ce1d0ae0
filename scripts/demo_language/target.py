"""The target language: the verb comes first, adjectives follow, and agreement crosses words.

clause = auxiliary verb [adverb] subject [marker] object [place]

The auxiliary fuses class and number of the subject. Every other word has an ending on which two
demands are made: one by the source word before it, one by the rarest word of the sentence. The
ending shows the stronger one.
"""

from demo_language import source
from demo_language.lexicon import Lexicon
from demo_language.phrases import Clause, NounPhrase, PrepositionalPhrase, Sentence, Word, tones

TONE_OF = {"VERB": 0, "ADV": 0, "NOUN": 1, "PROPN": 1, "ADJ": 2}
"""Which of the four tones of the sentence a word class takes; function words take the last."""


def words(sentence: Sentence, lexicon: Lexicon) -> list[str]:
    """The translation of a sentence."""
    translator = _Translator(sentence, lexicon)
    result = translator.clause(sentence.clauses[0], None)
    if sentence.conjunction:
        result.append(translator.word(sentence.conjunction))
        result += translator.clause(sentence.clauses[1], None)
    return [*result, translator.word(sentence.stop)]


def endings(sentence: Sentence) -> dict[Word, int]:
    """The ending of every word, 0, 1 or 2: the larger of the link of the source word before it
    and the tone that the rarest word of the sentence asks of its word class."""
    sentence_tones, result, link = tones(sentence), {}, 0
    for token in source.tokens(sentence):
        tone = sentence_tones[TONE_OF.get(token.word.lexeme.upos, 3)]
        result[token.word] = max(link, tone)
        link = token.word.lexeme.link
    return result


class _Translator:
    def __init__(self, sentence: Sentence, lexicon: Lexicon):
        self.lexicon = lexicon
        self.endings = endings(sentence)

    def word(self, word: Word, inflection: str = "", root: str | None = None) -> str:
        lexeme, ending = word.lexeme, self.lexicon.endings[self.endings[word]]
        return (root or lexeme.target) + inflection + lexeme.stem + ending

    def clause(self, clause: Clause, antecedent: NounPhrase | None) -> list[str]:
        lexicon = self.lexicon
        subject = antecedent if clause.gap == "subject" else clause.subject
        verb = clause.verb.lexeme
        result = [
            lexicon.auxiliary[subject.noun.lexeme.group, subject.number],
            self.word(clause.verb),
        ]
        if clause.adverb:
            result.append(self.word(clause.adverb, lexicon.adverb_ending[verb.group]))
        if clause.subject:
            result += self.noun_phrase(clause.subject)
        if clause.object:
            if verb.group == 1:
                result.append(lexicon.object_marker)
            result += self.noun_phrase(clause.object)
        if clause.place:
            result += self.place(clause.place)
        return result

    def noun_phrase(self, phrase: NounPhrase) -> list[str]:
        noun, lexicon = phrase.noun.lexeme, self.lexicon
        result = []
        if phrase.determiner:
            article = lexicon.article[phrase.determiner.lexeme.source, noun.group, phrase.number]
            result.append(self.word(phrase.determiner, root=article))
        result.append(self.word(phrase.noun, lexicon.plural if phrase.number == 2 else ""))
        for adjective in phrase.adjectives:
            result.append(self.word(adjective, lexicon.class_vowels[noun.group]))
        if phrase.place:
            result += self.place(phrase.place)
        if phrase.relative:
            result.append(self.word(phrase.relative.that))
            result += self.clause(phrase.relative, phrase)
        return result

    def place(self, place: PrepositionalPhrase) -> list[str]:
        return [self.word(place.preposition), *self.noun_phrase(place.phrase)]
