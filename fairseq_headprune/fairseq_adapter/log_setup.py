"""fairseq's import turns on debug messages of the whole program; keep the program's own choice."""

import contextlib
import logging


@contextlib.contextmanager
def unchanged_logging():
    """Undo what happens to the root logger inside, and pass over messages below WARNING meanwhile.

    Importing fairseq sets the root logger to DEBUG (a module of it calls ``logging.basicConfig``), so
    that every library speaks. Its own programs set logging up before they import it; then there is
    nothing to undo.
    """
    root = logging.getLogger()
    handlers, level, silenced = list(root.handlers), root.level, root.manager.disable
    logging.disable(max(silenced, logging.INFO))
    try:
        yield
    finally:
        logging.disable(silenced)
        root.setLevel(level)
        for handler in [h for h in root.handlers if h not in handlers]:
            root.removeHandler(handler)
