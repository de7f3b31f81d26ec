"""The run-queue race: its heats, who is fastest, its tables and its page."""
