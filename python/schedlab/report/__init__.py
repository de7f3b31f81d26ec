"""What people read, whatever it is of: numbers as texts, tables, figures, pages, progress."""
