"""``python -m fairseq_headprune``: the same as ``headprune``."""

import sys

from fairseq_headprune.commands import main

sys.exit(main())
