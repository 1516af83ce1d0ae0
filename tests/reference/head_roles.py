"""What heads do, word for word as the definitions say it: loops over single numbers.

The measure for analysis/. Sources: Voita et al. 2019, sections 4 and 5 and appendix A.3.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from math import comb

EOS = "</s>"


def row_votes(row):
    """{key: part of the vote} of one row of weights; keys that share the largest weight share it."""
    best = max(row)
    if best == 0:
        return {}
    tied = [key for key, weight in enumerate(row) if weight == best]
    return {key: Fraction(1, len(tied)) for key in tied}


def kept(type, source, target):
    """Positions (queries, keys) that are not end of sentence."""
    if type == "enc_self":
        words = [i for i, token in enumerate(source) if token != EOS]
        return words, words
    if type == "dec_self":
        inputs = [EOS] + list(target[:-1])
        words = [i for i, token in enumerate(inputs) if token != EOS]
        return words, words
    return (
        [i for i, token in enumerate(target) if token != EOS],
        [i for i, token in enumerate(source) if token != EOS],
    )


def without_eos(weights, type, source, target):
    """The matrix of floats [queries][keys] of one head without EOS."""
    queries, keys = kept(type, source, target)
    return [[float(weights[q][k]) for k in keys] for q in queries]


def confidence_and_positions(sentences, type):
    """``sentences``: (weights of one head [queries, keys], source, target).

    Returns (sum of largest weights, rows, {offset: votes}, rows with ties, rows without weight).
    """
    total, rows, votes, ties, blank = 0.0, 0, Counter(), 0, 0
    for weights, source, target in sentences:
        matrix = without_eos(weights, type, source, target)
        if not matrix or not matrix[0]:
            continue
        for query, row in enumerate(matrix):
            rows += 1
            total += max(row)
            found = row_votes(row)
            ties += len(found) > 1
            blank += not found
            for key, part in found.items():
                votes[key - query] += part
    return total, rows, votes, ties, blank


def possible(sentences, type, offset):
    """Query tokens for which there is a key at ``offset``."""
    count = 0
    for _, source, target in sentences:
        queries, keys = kept(type, source, target)
        for query in range(len(queries)):
            key = query + offset
            count += 0 <= key < len(keys) and not (type == "dec_self" and key > query)
    return count


def merge(matrix, units):
    """Attention between units (lists of token positions): sum over key pieces, then mean over
    query pieces."""
    summed = [[sum(row[k] for k in unit) for unit in units] for row in matrix]
    return [[sum(summed[q][u] for q in unit) / len(unit) for u in range(len(units))] for unit in units]


def relations_of(parse, units_of_words, wanted):
    """{(relation, direction, query unit): set of related units} of one sentence.

    ``parse``: list of (syntactic head or -1, label) by word; labels already have their names.
    """
    related = defaultdict(set)
    for word, (head, label) in enumerate(parse):
        if label not in wanted or head < 0:
            continue
        dependent, governor = units_of_words[word], units_of_words[head]
        if dependent != governor:
            related[label, "h->d", governor].add(dependent)
            related[label, "d->h", dependent].add(governor)
    return related


def syntactic(sentences, wanted):
    """``sentences``: (weights of one head, source, units, units of words, parse).

    Returns {(relation, direction): (votes, queries, Counter of offsets, pairs)}, a pair being (sentence,
    offset, part of the vote).
    """
    result = {(r, d): [Fraction(0), 0, Counter(), []] for r in wanted for d in ("h->d", "d->h")}
    for sentence, case in enumerate(sentences):
        weights, source, units, units_of_words, parse = case
        words = merge(without_eos(weights, "enc_self", source, [EOS]), units)
        for (label, direction, query), keys in relations_of(parse, units_of_words, wanted).items():
            entry = result[label, direction]
            found = row_votes(words[query])
            entry[0] += sum(found.get(key, 0) for key in keys)
            entry[1] += 1
            for key in keys:
                entry[2][key - query] += 1
                entry[3].append((sentence, key - query, found.get(key, Fraction(0))))
    return result


def sign_test(pairs, offset):
    """How likely at least so many sentences in which the head finds more than always taking ``offset`` does,
    by adding up the outcomes of fair coins; one coin for each sentence in which they differ."""
    gains = Counter()
    for sentence, at, part in pairs:
        gains[sentence] += part - (at == offset)
    better, worse = sum(g > 0 for g in gains.values()), sum(g < 0 for g in gains.values())
    return sum(comb(better + worse, k) for k in range(better, better + worse + 1)) / 2 ** (better + worse)


def holm(p):
    """Step by step: the smallest of n times n, the next one times n - 1, none below one before it."""
    adjusted, least = {}, 0
    for tried, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        least = max(least, min(1, p[i] * (len(p) - tried)))
        adjusted[i] = least
    return [adjusted[i] for i in range(len(p))]


def rare_positions(tokens, counts, top):
    """(positions of the rarest, of the two rarest) or None; by sorting everything."""
    if not tokens:
        return None
    ranked = sorted(counts, key=lambda t: -counts[t])[:top]
    how_often = [counts.get(t, 0) for t in tokens]
    distinct = sorted({(counts.get(t, 0), t) for t in tokens})
    if all(t in ranked for n, t in distinct if n == distinct[0][0]):
        return None
    second = distinct[1][0] if len(distinct) > 1 else distinct[0][0]
    return (
        [i for i, n in enumerate(how_often) if n == distinct[0][0]],
        [i for i, n in enumerate(how_often) if n <= second],
    )


def rare(sentences, counts, top):
    """``sentences``: (weights of one head, source). (votes rarest, votes two rarest, rows)."""
    first, two, rows = Fraction(0), Fraction(0), 0
    for weights, source in sentences:
        tokens = [t for t in source if t != EOS]
        positions = rare_positions(tokens, counts, top)
        if positions is None:
            continue
        for row in without_eos(weights, "enc_self", source, [EOS]):
            found = row_votes(row)
            rows += 1
            first += sum(found.get(k, 0) for k in positions[0])
            two += sum(found.get(k, 0) for k in positions[1])
    return first, two, rows


def relevance(sentences, layers, head):
    """Mean over steps of |r_head| / sum of |r| over the layer. ``sentences``: [steps, heads]."""
    total, steps = 0.0, 0
    mates = [i for i, layer in enumerate(layers) if layer == layers[head]]
    for array in sentences:
        for step in array:
            whole = sum(abs(float(step[i])) for i in mates)
            if whole:
                total += abs(float(step[head])) / whole
                steps += 1
    return total, steps


def units(token_texts, words):
    """Tokens and words that share characters, put together until nothing overlaps: (lists of token
    positions, unit of each word)."""
    token_of = [i for i, text in enumerate(token_texts) for _ in text]
    word_of = [i for i, text in enumerate(words) for _ in text]
    assert len(token_of) == len(word_of)
    groups, word_groups = [], []
    for token, word in zip(token_of, word_of):
        if groups and (token in groups[-1] or word in word_groups[-1]):
            groups[-1].add(token)
            word_groups[-1].add(word)
        else:
            groups.append({token})
            word_groups.append({word})
    unit_of_word = [next(i for i, g in enumerate(word_groups) if w in g) for w in range(len(words))]
    return [sorted(group) for group in groups], unit_of_word
