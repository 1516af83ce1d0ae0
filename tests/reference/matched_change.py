"""The change of the loss in sentences with a relation and in those of the same length without it."""


def matched_change(sentences):
    """``sentences``: (length, has the relation, change in nats, target tokens). (with, without, sentences
    with, sentences without, unmatched), two of them in nats per target token, None if no length has both."""
    total, with_, without, counts, unmatched = 0, 0.0, 0.0, [0, 0], 0
    for length in {length for length, *_ in sentences}:
        here = [(change, tokens) for size, has, change, tokens in sentences if size == length and has]
        there = [(change, tokens) for size, has, change, tokens in sentences if size == length and not has]
        if not here or not there:
            unmatched += len(here)
            continue
        weight = sum(tokens for _, tokens in here)
        total += weight
        with_ += sum(change for change, _ in here)
        without += weight * sum(change for change, _ in there) / sum(tokens for _, tokens in there)
        counts[0] += len(here)
        counts[1] += len(there)
    if not total:
        return None, None, 0, 0, unmatched
    return with_ / total, without / total, *counts, unmatched
