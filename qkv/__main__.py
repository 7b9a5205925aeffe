"""`python -m qkv`: the command line, where the `qkv` script is not on the path."""

from qkv.cli import main

if __name__ == "__main__":
    main()
