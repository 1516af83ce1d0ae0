"""The translation of a demo sentence, found again from its CoNLL-U tree alone.

The product translates phrase structures. This walks heads and relations instead, word by word,
so that the two agree only if the trees are right.
"""

from fairseq_headprune.demo.lexicon import Lexicon


class TreeTranslator:
    """Translates ``conllu.TokenList`` trees of the source language into target words."""

    def __init__(self):
        self.lexicon = lexicon = Lexicon()
        kinds = [*lexicon.core.values(), *lexicon.tail.values()]
        self.lexemes = {lexeme.source: lexeme for kind in kinds for lexeme in kind.lexemes}
        self.lexemes.update(lexicon.determiners)
        self.lexemes["that"] = lexicon.that

    def translate(self, tree):
        self.tree = tree
        open_class = [self.lexeme(t) for t in tree if t["upos"] in ("NOUN", "PROPN", "VERB", "ADJ", "ADV")]
        self.tone = sorted(open_class, key=lambda lexeme: lexeme.frequency)[0].tone
        (root,) = [t for t in tree if t["head"] == 0]
        return self.clause(root) + ["."]

    def lexeme(self, token):
        return self.lexemes[token["lemma"]]

    def children(self, token, *relations):
        return [t for t in self.tree if t["head"] == token["id"] and t["deprel"] in relations]

    def link(self, token):
        if token["id"] == 1:
            return self.lexicon.link_ending[0]
        return self.lexicon.link_ending[self.lexeme(self.tree[token["id"] - 2]).link]

    def number(self, noun):
        return {"Sing": 1, "Plur": 2}[noun["feats"]["Number"]]

    def clause(self, verb):
        (subject,) = self.children(verb, "nsubj")
        spoken = [] if subject["lemma"] == "that" else self.noun(subject)
        if not spoken:
            subject = self.tree[verb["head"] - 1]
        group = self.lexeme(verb).group
        words = [self.lexicon.auxiliary[self.lexeme(subject).group, self.number(subject), self.tone]]
        words.append(self.lexeme(verb).target + self.link(verb))
        for adverb in self.children(verb, "advmod"):
            words.append(
                self.lexeme(adverb).target + self.lexicon.adverb_ending[group] + self.link(adverb)
            )
        words += spoken
        for obj in self.children(verb, "obj"):
            if obj["lemma"] != "that":
                words += [self.lexicon.object_marker] * group + self.noun(obj)
        for place in self.children(verb, "obl"):
            words += self.place(place)
        return words

    def noun(self, noun):
        group, number = self.lexeme(noun).group, self.number(noun)
        words = []
        for det in self.children(noun, "det"):
            words.append(self.lexicon.article[det["lemma"], group, number] + self.link(det))
        plural = self.lexicon.plural if number == 2 else ""
        words.append(self.lexeme(noun).target + plural + self.link(noun))
        for adjective in self.children(noun, "amod"):
            vowel = self.lexicon.class_vowels[group]
            words.append(self.lexeme(adjective).target + vowel + self.link(adjective))
        for place in self.children(noun, "nmod"):
            words += self.place(place)
        for verb in self.children(noun, "acl:relcl"):
            (that,) = [t for t in self.children(verb, "nsubj", "obj") if t["lemma"] == "that"]
            words += [self.lexicon.that.target + self.link(that), *self.clause(verb)]
        return words

    def place(self, noun):
        (case,) = self.children(noun, "case")
        return [self.lexeme(case).target + self.link(case), *self.noun(noun)]
