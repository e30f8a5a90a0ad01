"""`python -m leasehold`: the same as the command `leasehold`."""

from leasehold.cli import main

if __name__ == "__main__":
    main()
