"""``python -m lapsvm.pipelines`` is the command ``lapsvm``."""

from .entry import main

if __name__ == "__main__":
    main()
