"""The service measured side by side with its floors and its peers: ``make bench``."""
