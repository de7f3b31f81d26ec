"""Makes `python -m schedlab` the same as `schedlab`."""

# Worker processes import this file again under another name: they must not load the CLI.
if __name__ == "__main__":
    from schedlab.cli import main

    main()
