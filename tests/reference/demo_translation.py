"""The translation of a demo sentence, found again from its CoNLL-U tree alone.

The product translates phrase structures. This walks heads and relations instead, word by word,
so that the two agree only if the trees are right.
"""

from demo_language.lexicon import Lexicon

OPEN_CLASSES = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
NUMBERS = {"Sing": 1, "Plur": 2}


class TreeTranslator:
    """Translates ``conllu.TokenList`` trees of the source language into target words."""

    def __init__(self):
        self.lexicon = lexicon = Lexicon()
        self.lexemes = {
            lexeme.source: lexeme
            for kind in (*lexicon.core.values(), *lexicon.tail.values())
            for lexeme in kind.lexemes
        }
        self.lexemes.update(lexicon.determiners)
        for lexeme in (lexicon.that, lexicon.conjunction, lexicon.stop):
            self.lexemes[lexeme.source] = lexeme

    def translate(self, tree):
        self.tree = tree
        open_words = [self.lexeme(token) for token in tree if token["upos"] in OPEN_CLASSES]
        self.rarest = sorted(open_words, key=lambda lexeme: lexeme.frequency)[0]
        (root,) = [token for token in tree if token["head"] == 0]
        words = self.clause(root)
        for verb in self.children(root, "conj"):
            (conjunction,) = self.children(verb, "cc")
            words += [self.word(conjunction), *self.clause(verb)]
        (stop,) = self.children(root, "punct")
        return [*words, self.word(stop)]

    def lexeme(self, token):
        return self.lexemes[token["lemma"]]

    def children(self, token, *relations):
        return [t for t in self.tree if t["head"] == token["id"] and t["deprel"] in relations]

    def word(self, token, inflection="", root=None):
        """Root or sense, inflection, stem, and the ending: the stronger of two demands on it."""
        lexeme = self.lexeme(token)
        left = self.tree[token["id"] - 2] if token["id"] > 1 else None
        link = self.lexeme(left).link if left else 0
        kind = {"VERB": 0, "ADV": 0, "NOUN": 1, "PROPN": 1, "ADJ": 2}.get(token["upos"], 3)
        ending = self.lexicon.endings[max(link, self.rarest.tones[kind])]
        return (root or lexeme.target) + inflection + lexeme.stem + ending

    def subject(self, verb):
        """The noun that the verb agrees with: for a relative ``that``, the noun before it."""
        (subject,) = self.children(verb, "nsubj")
        return self.tree[verb["head"] - 1] if subject["lemma"] == "that" else subject

    def clause(self, verb):
        group, subject = self.lexeme(verb).group, self.subject(verb)
        number = NUMBERS[subject["feats"]["Number"]]
        words = [self.lexicon.auxiliary[self.lexeme(subject).group, number], self.word(verb)]
        for adverb in self.children(verb, "advmod"):
            words.append(self.word(adverb, self.lexicon.adverb_ending[group]))
        if subject["id"] != verb["head"]:
            words += self.noun(subject)
        for obj in self.children(verb, "obj"):
            if obj["lemma"] != "that":
                words += [self.lexicon.object_marker] * group + self.noun(obj)
        for place in self.children(verb, "obl"):
            words += self.place(place)
        return words

    def noun(self, noun):
        group, number = self.lexeme(noun).group, NUMBERS[noun["feats"]["Number"]]
        words = []
        for det in self.children(noun, "det"):
            words.append(self.word(det, root=self.lexicon.article[det["lemma"], group, number]))
        words.append(self.word(noun, self.lexicon.plural if number == 2 else ""))
        for adjective in self.children(noun, "amod"):
            words.append(self.word(adjective, self.lexicon.class_vowels[group]))
        for place in self.children(noun, "nmod"):
            words += self.place(place)
        for verb in self.children(noun, "acl:relcl"):
            (that,) = [t for t in self.children(verb, "nsubj", "obj") if t["lemma"] == "that"]
            words += [self.word(that), *self.clause(verb)]
        return words

    def place(self, noun):
        (case,) = self.children(noun, "case")
        return [self.word(case), *self.noun(noun)]
