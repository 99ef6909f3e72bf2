"""Where products come from: files of a supplier, read row by row into the catalogue's table."""
