"""One module per service; a method translates, calls one use case, translates back."""
