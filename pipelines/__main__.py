"""``python -m lapsvm.pipelines`` is the command ``lapsvm``."""

from .commands.entry import main

if __name__ == "__main__":
    main()
