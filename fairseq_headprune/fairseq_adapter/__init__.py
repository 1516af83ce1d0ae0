"""Repairs of and tricks with fairseq, each with its reason. The rest of the package uses fairseq as it is.

A room that needs fairseq calls `prepare` before it imports anything of it.
"""


def prepare():
    """Import fairseq, leaving the program's logging alone, and apply our `repairs`. Safe to call twice.

    Raises ImportError with the reason where the installed fairseq does not fit this Python.
    """
    from fairseq_headprune.fairseq_adapter.log_setup import unchanged_logging

    try:
        with unchanged_logging():
            import fairseq  # noqa: F401
    except Exception as error:  # a fairseq that does not fit this Python fails in many ways
        raise ImportError(
            f"fairseq cannot be imported here ({type(error).__name__}: {str(error).splitlines()[0][:100]}); "
            "on Python 3.11 and later install ve-fairseq==0.12.3 instead of fairseq 0.12.2"
        ) from error
    from fairseq_headprune.fairseq_adapter import repairs

    repairs.apply()
