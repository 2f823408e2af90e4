"""The results of a run: dataset, tables, files, pictures."""
