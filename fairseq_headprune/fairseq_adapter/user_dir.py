"""What fairseq does with a ``--user-dir`` whose package is imported already.

Nothing but a look at its path.
"""


class UserDirPath(list):
    """The package's ``__path__``; asking whether a folder is in it registers our classes.

    fairseq imports ``models/`` and ``tasks/`` of a ``--user-dir`` only when the package of that name is
    new to the program; else it asks whether the folder is in ``__path__`` and believes everything
    registered. Answering that question is our chance to make it true.
    """

    def __contains__(self, folder):
        found = super().__contains__(folder)
        if found:
            from fairseq_headprune import register

            register()
        return found
