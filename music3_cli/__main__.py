"""`python -m music3_cli` is `music3`."""

from music3_cli.cli.main import main

if __name__ == "__main__":
    main()
