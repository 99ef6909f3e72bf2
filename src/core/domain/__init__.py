"""Pure values and rules: nothing here knows a database, a network or a clock of its own."""
